package metadata

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metadatav1alpha1 "github.com/coder-k8s/coder-k8s/api/metadata/v1alpha1"
)

// APICluster is the cluster behind an API server.
type APICluster struct {
	client     client.WithWatch
	namespaces []string
}

var _ Cluster = (*APICluster)(nil)

// NewCluster makes one that watches these namespaces, all where there are none.
func NewCluster(config *rest.Config, namespaces []string) (*APICluster, error) {
	scheme, mapper := kinds()
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("making the client for CoderObjectMetadata: %w", err)
	}
	return &APICluster{client: c, namespaces: namespaces}, nil
}

// kinds are those of this package. The mapper spares the client the discovery of
// everything else, and finds the kind also while its definition is missing.
func kinds() (*runtime.Scheme, meta.RESTMapper) {
	scheme := runtime.NewScheme()
	version := metadatav1alpha1.GroupVersion
	scheme.AddKnownTypeWithName(version.WithKind(resourceKind), &Resource{})
	scheme.AddKnownTypeWithName(version.WithKind(resourceKind+"List"), &ResourceList{})
	metav1.AddToGroupVersion(scheme, version)
	mapper := meta.NewDefaultRESTMapper(nil)
	resource := version.WithResource(resourcePlural)
	mapper.AddSpecific(version.WithKind(resourceKind), resource, resource, meta.RESTScopeNamespace)
	return scheme, mapper
}

// Namespaces implements Cluster.
func (a *APICluster) Namespaces() []string { return a.namespaces }

// Create implements Cluster.
func (a *APICluster) Create(ctx context.Context, resource *Resource) error {
	return a.client.Create(ctx, resource)
}

// Update implements Cluster.
func (a *APICluster) Update(ctx context.Context, resource *Resource) error {
	return a.client.Update(ctx, resource)
}

// Delete implements Cluster.
func (a *APICluster) Delete(ctx context.Context, resource *Resource) error {
	only := client.Preconditions{UID: ptr.To(resource.UID)}
	if resource.ResourceVersion != "" {
		only.ResourceVersion = ptr.To(resource.ResourceVersion)
	}
	return a.client.Delete(ctx, resource, only)
}

// Get implements Cluster.
func (a *APICluster) Get(ctx context.Context, key types.NamespacedName) (*Resource, error) {
	resource := &Resource{}
	return resource, a.client.Get(ctx, key, resource)
}

// List implements Cluster.
func (a *APICluster) List(ctx context.Context) ([]Listing, error) {
	var listings []Listing
	for _, namespace := range a.namespaces {
		list := &ResourceList{}
		if err := a.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		listing := Listing{Namespace: namespace, Version: list.ResourceVersion}
		for i := range list.Items {
			listing.Resources = append(listing.Resources, &list.Items[i])
		}
		listings = append(listings, listing)
	}
	return listings, nil
}

// Watch implements Cluster.
func (a *APICluster) Watch(ctx context.Context, feed Feed) error {
	var running sync.WaitGroup
	for _, namespace := range a.namespaces {
		reflector := cache.NewReflectorWithOptions(a.listerWatcher(namespace), &Resource{}, &sink{ctx: ctx, namespace: namespace, feed: feed},
			cache.ReflectorOptions{Name: "CoderObjectMetadata", TypeDescription: resourceKind})
		running.Go(func() { reflector.RunWithContext(ctx) })
	}
	running.Wait()
	return nil
}

func (a *APICluster) listerWatcher(namespace string) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := &ResourceList{}
			return list, a.client.List(ctx, list, client.InNamespace(namespace), &client.ListOptions{Limit: options.Limit, Continue: options.Continue, Raw: &options})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return a.client.Watch(ctx, &ResourceList{}, client.InNamespace(namespace), &client.ListOptions{Raw: &options})
		},
	}, a.client)
}

// sink hands on what a reflector tells. It keeps nothing: the records are kept,
// and not the resources beside them.
type sink struct {
	ctx       context.Context //nolint:containedctx // The methods of a reflector's store have none, and it lives as long as the watch.
	namespace string
	feed      Feed
}

var _ cache.ReflectorStore = (*sink)(nil)

func (s *sink) Add(obj any) error { return s.Update(obj) }
func (s *sink) Resync() error     { return nil }
func (s *sink) Update(obj any) error {
	return with(obj, func(r *Resource) { s.feed.Changed(s.ctx, r) })
}
func (s *sink) Delete(obj any) error {
	return with(obj, func(r *Resource) { s.feed.Removed(s.ctx, r) })
}

func (s *sink) Replace(objs []any, version string) error {
	listing := Listing{Namespace: s.namespace, Version: version}
	for _, obj := range objs {
		if err := with(obj, func(r *Resource) { listing.Resources = append(listing.Resources, r) }); err != nil {
			return err
		}
	}
	s.feed.Replace(s.ctx, listing)
	return nil
}

func with(obj any, do func(*Resource)) error {
	resource, ok := obj.(*Resource)
	if !ok {
		return fmt.Errorf("a watch of %s told of a %T", resourceKind, obj)
	}
	do(resource)
	return nil
}
