package metadata

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// Cluster is where the resources are: the API server, or what stands for it in
// tests. Its errors are API statuses.
type Cluster interface {
	// Create and Update leave in the resource what is there then. Update expects the
	// ResourceVersion.
	Create(ctx context.Context, resource *Resource) error
	Update(ctx context.Context, resource *Resource) error
	// Delete removes the resource with this UID and, unless it is empty, this
	// ResourceVersion.
	Delete(ctx context.Context, resource *Resource) error
	Get(ctx context.Context, key types.NamespacedName) (*Resource, error)
	// List reads what is certainly the newest.
	List(ctx context.Context) ([]Listing, error)
	// Watch feeds what is there and every change, until the context ends.
	Watch(ctx context.Context, feed Feed) error
	// Namespaces are those that the cluster is watched in, one empty name for all.
	Namespaces() []string
}

// Listing is all resources of a namespace, or of all where that is empty, at one
// version.
type Listing struct {
	Namespace string
	Version   string
	Resources []*Resource
}

// Feed takes what a watch tells. What it is given belongs to it.
type Feed interface {
	Replace(ctx context.Context, listing Listing)
	Changed(ctx context.Context, resource *Resource)
	Removed(ctx context.Context, resource *Resource)
}
