package readthrough

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is what is stored.
type Object interface {
	runtime.Object
	metav1.Object
}

// Backend is one kind of object in Coder. Its errors are those of a Kubernetes
// API, and its objects are complete, with resourceVersion.
type Backend[T Object] interface {
	// Get reads one object. One that does not exist is apierrors.NotFound.
	Get(ctx context.Context, namespace, name string) (T, error)
	// List reads all objects of a namespace, or of all where it is empty.
	List(ctx context.Context, namespace string) ([]T, error)
	// Create makes the object in Coder and gives it as it is then.
	Create(ctx context.Context, obj T) (T, error)
	// Update makes Coder's object as wanted, and gives it as it is then.
	Update(ctx context.Context, current, wanted T) (T, error)
	// Delete deletes the object in Coder, or starts doing so, and gives it as it
	// is then. The result of a deletion that has begun has a deletionTimestamp.
	Delete(ctx context.Context, current T) (T, error)
}

// Namespaces tells which namespaces are being deleted.
type Namespaces interface {
	// Released says it quickly and may be late.
	Released(namespace string) bool
	// ReleasedNow says it as kube-apiserver knows it now.
	ReleasedNow(ctx context.Context, namespace string) (bool, error)
}
