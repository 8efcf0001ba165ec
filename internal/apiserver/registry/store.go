package registry

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/readthrough"
)

// deleteWorkers bounds how many deletions of a collection reach Coder at once.
const deleteWorkers = 4

// FullStrategy is all that a kind decides.
type FullStrategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
}

// Kind is one kind of the API.
type Kind[T readthrough.Object] struct {
	Plural, Singular string
	ShortNames       []string
	New              func() T
	NewList          func() runtime.Object
	Strategy         FullStrategy
	Table            rest.TableConvertor
	Backend          readthrough.Backend[T]
	Checker          Checker
}

// NewREST makes the verbs of a kind.
func NewREST[T readthrough.Object](
	kind Kind[T], codecs serializer.CodecFactory, namespaces readthrough.Namespaces, c clock.PassiveClock,
) (*REST, error) {
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return kind.New() },
		NewListFunc:               kind.NewList,
		DefaultQualifiedResource:  aggregationv1alpha1.Resource(kind.Plural),
		SingularQualifiedResource: aggregationv1alpha1.Resource(kind.Singular),
		CreateStrategy:            kind.Strategy,
		UpdateStrategy:            kind.Strategy,
		DeleteStrategy:            kind.Strategy,
		ResetFieldsStrategy:       kind.Strategy,
		TableConvertor:            kind.Table,
	}
	getter := &restOptions[T]{kind: kind, codecs: codecs, namespaces: namespaces, clock: c}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: getter}); err != nil {
		return nil, err
	}
	return &REST{store: store, checker: kind.Checker, shortNames: kind.ShortNames}, nil
}

// restOptions puts our storage under a Store.
type restOptions[T readthrough.Object] struct {
	kind       Kind[T]
	codecs     serializer.CodecFactory
	namespaces readthrough.Namespaces
	clock      clock.PassiveClock
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o *restOptions[T]) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	version := aggregationv1alpha1.GroupVersion
	config := storagebackend.NewDefaultConfig("/"+resource.Group, o.codecs.LegacyCodec(version))
	config.EncodeVersioner = runtime.NewMultiGroupVersioner(version, schema.GroupKind{Group: version.Group})
	return generic.RESTOptions{
		StorageConfig:  config.ForResource(resource),
		ResourcePrefix: "/" + resource.Group + "/" + resource.Resource,
		// The garbage collector does not see kinds without watch, so a finalizer
		// for it would never be taken off.
		EnableGarbageCollection: false,
		DeleteCollectionWorkers: deleteWorkers,
		Decorator: func(_ *storagebackend.ConfigForResource, prefix string, _ func(runtime.Object) (string, error),
			_, _ func() runtime.Object, _ storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers,
		) (storage.Interface, factory.DestroyFunc, error) {
			return readthrough.New(o.kind.Backend, o.namespaces, resource, prefix, o.kind.New, o.clock), func() {}, nil
		},
	}, nil
}
