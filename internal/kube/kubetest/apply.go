package kubetest

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// noVersion is the resource version with which package apply creates objects. That package's own
// tests import this one, so the constant is repeated here.
const noVersion = "9223372036854775807"

// Apply applies an object like kube-apiserver if the object has noVersion: a conflict if the object
// exists, and otherwise the object is created with its first version. The fake client would create
// it with noVersion. Interceptors of Apply call this function.
func Apply(ctx context.Context, c client.Client, applied runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	object, ok := applied.(client.Object)
	if !ok || object.GetResourceVersion() != noVersion {
		return c.Apply(ctx, applied, opts...)
	}
	kind := object.GetObjectKind().GroupVersionKind()
	existing := &metav1.PartialObjectMetadata{}
	existing.SetGroupVersionKind(kind)
	switch err := c.Get(ctx, client.ObjectKeyFromObject(object), existing); {
	case err == nil:
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		return apierrors.NewConflict(schema.GroupResource{Group: kind.Group, Resource: resource.Resource}, object.GetName(),
			errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("looking for %s %s: %w", kind.Kind, object.GetName(), err)
	}
	object.SetResourceVersion("")
	return c.Apply(ctx, applied, opts...)
}
