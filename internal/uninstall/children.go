package uninstall

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/installation"
)

// eachChild calls do for all objects that are owned by one of the given objects. It returns
// an error if a kind cannot be listed, because its objects would be left behind.
func (u *uninstaller) eachChild(ctx context.Context, objects []object, do func(context.Context, *metav1.PartialObjectMetadata, object) error) error {
	owners := map[types.UID]object{}
	namespaces := map[string]bool{}
	for _, o := range objects {
		owners[o.GetUID()], namespaces[o.GetNamespace()] = o, true
	}
	resources, err := installation.ChildResources()
	if err != nil {
		return err
	}
	for _, resource := range resources {
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
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := u.kube.List(ctx, list, client.InNamespace(namespace)); gone(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("listing every %s in namespace %s, to find what belongs to Coder: %w", kind.Kind, namespace, err)
	}
	for i := range list.Items {
		child := &list.Items[i]
		child.SetGroupVersionKind(kind)
		for _, reference := range child.OwnerReferences {
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

// owns reports whether an owner reference points to one of u.objects.
func (u *uninstaller) owns(reference metav1.OwnerReference) bool {
	return slices.ContainsFunc(u.objects, func(o object) bool { return o.GetUID() == reference.UID })
}

// nameOf returns the kind, namespace and name of an object.
func nameOf(obj *metav1.PartialObjectMetadata) string {
	name := obj.Name
	if obj.Namespace != "" {
		name = obj.Namespace + "/" + name
	}
	return obj.Kind + " " + name
}
