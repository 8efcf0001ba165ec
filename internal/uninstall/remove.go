package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/installation"
)

// removeAll deletes the custom resources while the operator runs, so that the operator
// removes its objects in Coder. If objects still exist after the timeout, or if no operator
// runs, it removes their finalizers and reports what remains in Coder.
func (u *uninstaller) removeAll(ctx context.Context) error {
	// A pod must be available to process the deletions.
	runs := slices.ContainsFunc(u.operators, func(d appsv1.Deployment) bool {
		return d.Status.AvailableReplicas > 0 && d.DeletionTimestamp == nil
	})
	if !runs && len(u.objects) > 0 {
		u.say("No pod of the operator is available in namespace %s, so nothing is removed in Coder.", u.namespace)
	}
	if err := u.keepBackups(ctx); err != nil {
		return err
	}
	// Objects that are registered with a control plane come first in u.objects. They are deleted
	// first, while it still responds.
	first := slices.IndexFunc(u.objects, func(o object) bool { return o.definition.Kind == "CoderControlPlane" })
	if first < 0 {
		first = len(u.objects)
	}
	now := time.Now()
	var left []object
	for _, group := range []struct {
		objects []object
		until   time.Time
	}{{u.objects[:first], now.Add(u.timeout / 2)}, {u.objects[first:], now.Add(u.timeout)}} {
		for _, o := range group.objects {
			if err := u.delete(ctx, o.Unstructured, o.String()); err != nil {
				return err
			}
		}
		if !runs {
			left = append(left, group.objects...)
			continue
		}
		still, err := u.waitGone(ctx, group.objects, group.until)
		if err != nil {
			return err
		}
		left = append(left, still...)
	}
	if len(left) > 0 {
		if err := u.abandon(ctx, left); err != nil {
			return err
		}
	}
	if u.controlPlanesOnly {
		// The definitions stay, so the garbage collector deletes the owned objects.
		return nil
	}
	return u.collectAll(ctx)
}

// keepBackups removes the finalizers of backups, so that their files are not deleted with them.
func (u *uninstaller) keepBackups(ctx context.Context) error {
	for _, o := range u.objects {
		if o.definition.Kind != "CoderBackup" {
			continue
		}
		u.say("%s", inCoder(o))
		if err := u.release(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// collectAll deletes the objects that were owned by the deleted custom resources.
func (u *uninstaller) collectAll(ctx context.Context) error {
	var removed []object
	for _, o := range u.objects {
		now, err := u.again(ctx, o)
		if err != nil {
			return err
		}
		if now == nil || u.dryRun {
			removed = append(removed, o)
		}
	}
	return u.eachChild(ctx, removed, u.collect)
}

// waitGone waits until the objects are deleted, and returns those that still exist.
func (u *uninstaller) waitGone(ctx context.Context, objects []object, until time.Time) ([]object, error) {
	var still []object
	_, err := u.wait(ctx, until, func(ctx context.Context) (bool, error) {
		still = nil
		for _, o := range objects {
			now, err := u.again(ctx, o)
			if err != nil {
				return false, err
			}
			if now != nil {
				still = append(still, *now)
			}
		}
		return len(still) == 0, nil
	})
	return still, err
}

// again reads an object again. It returns nil if the object was deleted, even if there is a
// new object of the same name.
func (u *uninstaller) again(ctx context.Context, o object) (*object, error) {
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(o.GroupVersionKind())
	err := u.kube.Get(ctx, client.ObjectKeyFromObject(o), now)
	switch {
	case gone(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", o, err)
	case now.GetUID() != o.GetUID():
		return nil, nil
	}
	return &object{now, o.definition}, nil
}

// abandon stops the operator and removes the finalizers of objects.
func (u *uninstaller) abandon(ctx context.Context, left []object) error {
	if err := u.stopOperator(ctx); err != nil {
		return err
	}
	var abandoned []object
	for _, o := range left {
		now := &o
		if !u.dryRun {
			var err error
			if now, err = u.again(ctx, o); err != nil {
				return err
			}
		}
		if now == nil {
			continue
		}
		abandoned = append(abandoned, o)
		u.leave("%s", inCoder(*now))
		if err := u.release(ctx, *now); err != nil {
			return err
		}
		if others := now.GetFinalizers(); len(others) > 0 && !u.dryRun {
			u.leave("%s is not deleted yet, because it has finalizers of other software: %s", now, strings.Join(others, ", "))
		}
	}
	return u.eachRight(ctx, abandoned, func(right *metav1.PartialObjectMetadata, _ object) error {
		return u.delete(ctx, right, nameOf(right))
	})
}

// eachRight calls do for the Roles and RoleBindings that the operator created for one of the given
// objects, also in other namespaces, which owner references cannot cover.
func (u *uninstaller) eachRight(ctx context.Context, objects []object, do func(*metav1.PartialObjectMetadata, object) error) error {
	for _, noun := range []string{"RoleBinding", "Role"} {
		found, err := u.list(ctx, kind("rbac.authorization.k8s.io", noun), client.MatchingLabels{coderv1alpha1.LabelManagedBy: coderv1alpha1.ManagedBy})
		if err != nil {
			return fmt.Errorf("listing the %ss that the operator created: %w", noun, err)
		}
		for i := range found {
			item := &found[i]
			owner := slices.IndexFunc(objects, func(o object) bool {
				return string(o.GetUID()) == item.Annotations[coderv1alpha1.AnnotationOwnerUID]
			})
			if owner < 0 {
				continue
			}
			if err := do(item, objects[owner]); err != nil {
				return err
			}
		}
	}
	return nil
}

// inCoder describes what remains of an object whose cleanup was skipped, in Coder or where a backup is stored.
func inCoder(o object) string {
	status := func(field string) string {
		value, _, _ := unstructured.NestedString(o.Object, "status", field)
		return value
	}
	switch o.definition.Kind {
	case "CoderProvisioner":
		if key := status("provisionerKeyName"); key != "" {
			return fmt.Sprintf("%s: its key %q stays in Coder; delete it there: coder provisioner keys delete %s", o, key, key)
		}
	case "CoderWorkspaceProxy":
		if proxy := status("proxyName"); proxy != "" {
			return fmt.Sprintf("%s: its registration %q stays in Coder; delete it there: coder wsproxy delete %s", o, proxy, proxy)
		}
	case "CoderTemplateTest":
		if workspace := status("workspaceName"); workspace != "" {
			return fmt.Sprintf("%s: its workspace may stay in Coder; delete it there: coder delete %s/%s", o, status("ownerName"), workspace)
		}
		return fmt.Sprintf("%s: it had no workspace", o)
	case "CoderBackup":
		if backup := status("cloudNativePGBackupName"); backup != "" {
			return fmt.Sprintf("%s: its Backup %q of CloudNativePG stays", o, backup)
		}
		if bucket, _, _ := unstructured.NestedString(o.Object, "spec", "destination", "s3", "bucket"); bucket != "" {
			return fmt.Sprintf("%s: its files stay in the directory %q of the bucket %q", o, status("directory"), bucket)
		}
		return fmt.Sprintf("%s: its files stay in the directory %q of its volume", o, status("directory"))
	default:
		if url := status("url"); url != "" {
			return fmt.Sprintf("%s: the operator's token stays in the database of the Coder at %s; it expires by itself; "+
				"delete it there to revoke it at once", o, url)
		}
	}
	return fmt.Sprintf("%s: its keys and registrations in Coder are not known", o)
}

// eachChild calls do for all objects that are owned by one of the given objects. It returns
// an error if a kind cannot be listed, because its objects would be left behind.
func (u *uninstaller) eachChild(ctx context.Context, objects []object, do func(context.Context, *metav1.PartialObjectMetadata, object) error) error {
	owners := map[types.UID]object{}
	namespaces := map[string]bool{}
	for _, o := range objects {
		owners[o.GetUID()], namespaces[o.GetNamespace()] = o, true
	}
	for _, resource := range installation.ChildResources() {
		kind, err := u.kube.RESTMapper().KindFor(resource.WithVersion(""))
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("asking kube-apiserver about %s: %w", resource, err)
		}
		for namespace := range namespaces {
			if err := u.eachChildOf(ctx, kind, namespace, owners, do); err != nil {
				return err
			}
		}
	}
	return nil
}

// eachChildOf is eachChild for one kind in one namespace.
func (u *uninstaller) eachChildOf(
	ctx context.Context, kind schema.GroupVersionKind, namespace string, owners map[types.UID]object,
	do func(context.Context, *metav1.PartialObjectMetadata, object) error,
) error {
	found, err := u.list(ctx, kind, client.InNamespace(namespace))
	if err != nil {
		return fmt.Errorf("listing every %s in namespace %s, to find what belongs to Coder: %w", kind.Kind, namespace, err)
	}
	for i := range found {
		child := &found[i]
		// do removes references.
		for _, reference := range slices.Clone(child.OwnerReferences) {
			owner, is := owners[reference.UID]
			if !is {
				continue
			}
			if err := do(ctx, child, owner); err != nil {
				return err
			}
		}
	}
	return nil
}

// collect deletes an object whose owner was deleted. The garbage collector would do that
// too, but only as long as the owner's kind exists, and its definition is deleted next. If
// the object has another owner as well, only the owner reference is removed.
func (u *uninstaller) collect(ctx context.Context, child *metav1.PartialObjectMetadata, owner object) error {
	if child.DeletionTimestamp != nil {
		return nil
	}
	if slices.ContainsFunc(child.OwnerReferences, func(r metav1.OwnerReference) bool { return !u.owns(r) }) {
		return u.withoutOwner(ctx, child, owner, nil)
	}
	return u.delete(ctx, child, nameOf(child))
}

func (u *uninstaller) owns(reference metav1.OwnerReference) bool {
	return slices.ContainsFunc(u.objects, func(o object) bool { return o.GetUID() == reference.UID })
}

func nameOf(obj *metav1.PartialObjectMetadata) string {
	name := obj.Name
	if obj.Namespace != "" {
		name = obj.Namespace + "/" + name
	}
	return cli.Clean(obj.Kind + " " + name)
}
