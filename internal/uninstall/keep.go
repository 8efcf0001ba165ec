package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/yaml"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// keepAll keeps the Coder deployments running without an operator. It stops the operator,
// removes the owner references, and only then deletes the custom resources.
func (u *uninstaller) keepAll(ctx context.Context) error {
	if err := u.stopOperator(ctx); err != nil {
		return err
	}
	if !u.keepDefinitions {
		if err := u.writeManifests(); err != nil {
			return err
		}
		if err := u.eachChild(ctx, u.objects, u.disown); err != nil {
			return err
		}
		if err := u.eachRight(ctx, u.objects, u.sayRight); err != nil {
			return err
		}
		if err := u.stillStopped(ctx); err != nil {
			return err
		}
	}
	for _, o := range u.objects {
		if err := u.release(ctx, o); err != nil {
			return err
		}
		if u.keepDefinitions {
			continue
		}
		if err := u.delete(ctx, o.Unstructured, o.String()); err != nil {
			return err
		}
	}
	if len(u.objects) > 0 {
		u.say("%s", u.wayBack())
	}
	return nil
}

// stillStopped returns an error if the operator runs again: it would restore the owner
// references, and the objects would be deleted with their owner.
func (u *uninstaller) stillStopped(ctx context.Context) error {
	if u.dryRun {
		return nil
	}
	stopped, err := u.noOperatorPods(ctx)
	if err == nil && !stopped {
		err = fmt.Errorf("the operator runs again in namespace %s, because another controller scales its Deployment, for example Argo CD or Flux; "+
			"stop that controller and run this again: nothing was deleted", u.namespace)
	}
	return err
}

// writeManifests writes the custom resources as manifests that can be applied again. Tests of templates are left out, because they
// would run again.
func (u *uninstaller) writeManifests() error {
	for _, o := range u.objects {
		if o.GetKind() == "CoderTemplateTest" {
			continue
		}
		raw, err := yaml.Marshal(manifest(o).Object)
		if err != nil {
			return fmt.Errorf("writing %s: %w", o, err)
		}
		if _, err := fmt.Fprintf(u.manifests, "---\n%s", raw); err != nil {
			return fmt.Errorf("writing %s: %w", o, err)
		}
	}
	return nil
}

// manifest returns the parts of an object that the user wrote.
func manifest(o object) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(),
		"metadata": map[string]any{"namespace": o.GetNamespace(), "name": o.GetName()},
	}}
	if spec, known := o.Object["spec"]; known {
		out.Object["spec"] = spec
	}
	annotations := o.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	if len(annotations) > 0 {
		out.SetAnnotations(annotations)
	}
	if labels := o.GetLabels(); len(labels) > 0 {
		out.SetLabels(labels)
	}
	return out
}

// disown removes the owner reference from an object, so that the garbage collector does not
// delete it, and records the owner in an annotation. For a Secret, it first prints the command
// that restores the owner, because a later run can no longer find out the owner.
func (u *uninstaller) disown(ctx context.Context, child *metav1.PartialObjectMetadata, owner object) error {
	if child.Kind == "Secret" {
		command, err := u.givingBack(child, owner)
		if err != nil {
			return err
		}
		u.sayWayBack(child, owner, command)
	}
	return u.withoutOwner(ctx, child, owner, map[string]string{coderv1alpha1.AnnotationAdopt: owner.definition.Kind + "/" + owner.GetName()})
}

func (u *uninstaller) sayWayBack(child *metav1.PartialObjectMetadata, owner object, command string) {
	u.say("Keep this command, which makes %s the owner of %s again:\n  %s", owner, nameOf(child), command)
}

// sayRight prints the command that restores the owner of a Role or RoleBinding in another namespace. Anyone
// with permissions there may have copied its annotation to one whose name contains a command. The operator's own
// have DNS names.
func (u *uninstaller) sayRight(right *metav1.PartialObjectMetadata, owner object) error {
	if right.Namespace == owner.GetNamespace() || len(validation.IsDNS1123Subdomain(right.Name)) > 0 {
		return nil
	}
	u.sayWayBack(right, owner, fmt.Sprintf(`kubectl -n %s annotate --overwrite %s %s %s="%s"`,
		right.Namespace, strings.ToLower(right.Kind), right.Name, coderv1alpha1.AnnotationOwnerUID, lookUpUID(owner)))
	return nil
}

// withoutOwner removes an owner reference from an object and adds annotations to it.
func (u *uninstaller) withoutOwner(ctx context.Context, child *metav1.PartialObjectMetadata, owner object, annotations map[string]string) error {
	what := nameOf(child)
	if u.dryRun {
		u.say("%s no longer belongs to %s", what, owner)
		return nil
	}
	changed, err := u.patchMetadata(ctx, child, what, "owner", func() bool {
		before := len(child.OwnerReferences)
		child.OwnerReferences = slices.DeleteFunc(child.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == owner.GetUID() })
		for key, value := range annotations {
			metav1.SetMetaDataAnnotation(&child.ObjectMeta, key, value)
		}
		return len(child.OwnerReferences) < before
	})
	if changed {
		u.say("%s no longer belongs to %s", what, owner)
	}
	return err
}

// release removes the operator's finalizer from an object, and no other.
func (u *uninstaller) release(ctx context.Context, o object) error {
	changed := controllerutil.ContainsFinalizer(o, o.definition.Finalizer)
	var err error
	if !u.dryRun {
		changed, err = u.patchMetadata(ctx, o.Unstructured, o, "finalizer", func() bool {
			return controllerutil.RemoveFinalizer(o, o.definition.Finalizer)
		})
	}
	if changed {
		u.say("the operator's finalizer is removed from %s", o)
	}
	return err
}

// patch patches an object. A MutatingAdmissionPolicy applies to every change, and kube-apiserver refuses changes
// for which it has not read the schema of the kind again, up to some seconds after any definition was created or deleted.
func (u *uninstaller) patch(ctx context.Context, o client.Object, patch client.Patch) error {
	var refused error
	if _, err := u.wait(ctx, u.patience(), func(ctx context.Context) (bool, error) {
		refused = u.kube.Patch(ctx, o, patch)
		return !apierrors.IsServiceUnavailable(refused) || !strings.Contains(refused.Error(), "There can be a delay"), nil
	}); err != nil {
		return err
	}
	return refused
}

// patchMetadata takes something from the metadata of an object. It reads the object again after a
// conflict. It reports false if the object is gone, or if take returns false: nothing to change.
func (u *uninstaller) patchMetadata(ctx context.Context, o client.Object, name any, what string, take func() bool) (bool, error) {
	for {
		before := o.DeepCopyObject().(client.Object)
		if !take() {
			return false, nil
		}
		err := u.patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		switch {
		case gone(err):
			return false, nil
		case apierrors.IsConflict(err):
			if err := u.kube.Get(ctx, client.ObjectKeyFromObject(o), o); gone(err) {
				return false, nil
			} else if err != nil {
				return false, fmt.Errorf("reading %s: %w", name, err)
			}
		case err != nil:
			return false, fmt.Errorf("taking the %s from %s: %w", what, name, err)
		default:
			return true, nil
		}
	}
}
