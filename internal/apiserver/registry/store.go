package registry

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/tools/cache"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
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
type Kind struct {
	Plural, Singular string
	ShortNames       []string
	New, NewList     func() runtime.Object
	Strategy         FullStrategy
	Table            rest.TableConvertor
	Checker          Checker
	// Prefix gives the part of an object's name that tells its control plane.
	Prefix func(name string) string
	// CheckName returns why a name cannot be that of an object.
	CheckName func(name string) error
	// Attributes are what selectors match. Nil is those of metadata alone.
	Attributes storage.AttrFunc
	// Indexers let the cache find objects by the fields IndexFields.
	Indexers    *cache.Indexers
	IndexFields []string
}

// ResourcePrefix is what the keys of a kind begin with in its log.
func ResourcePrefix(plural string) string {
	return "/" + aggregationv1alpha1.GroupVersion.Group + "/" + plural
}

// NewREST makes the verbs of a kind. Decorate puts its storage under them.
func NewREST(kind Kind, codecs serializer.CodecFactory, decorate generic.StorageDecorator, gate *Gate, seen Seen) (*REST, error) {
	store := &genericregistry.Store{
		NewFunc:                   kind.New,
		NewListFunc:               kind.NewList,
		DefaultQualifiedResource:  aggregationv1alpha1.Resource(kind.Plural),
		SingularQualifiedResource: aggregationv1alpha1.Resource(kind.Singular),
		CreateStrategy:            kind.Strategy,
		UpdateStrategy:            kind.Strategy,
		DeleteStrategy:            kind.Strategy,
		ResetFieldsStrategy:       kind.Strategy,
		TableConvertor:            kind.Table,
	}
	if kind.Attributes != nil {
		store.PredicateFunc = func(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
			return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: kind.Attributes, IndexFields: kind.IndexFields}
		}
	}
	getter := &restOptions{codecs: codecs, decorate: decorate}
	options := &generic.StoreOptions{RESTOptions: getter, AttrFunc: kind.Attributes, Indexers: kind.Indexers}
	if err := store.CompleteWithOptions(options); err != nil {
		return nil, err
	}
	return &REST{Store: store, gate: gate, checker: kind.Checker, shortNames: kind.ShortNames, prefix: kind.Prefix, checkName: kind.CheckName, seen: seen}, nil
}

// restOptions puts our storage under a Store.
type restOptions struct {
	codecs   serializer.CodecFactory
	decorate generic.StorageDecorator
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o *restOptions) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	version := aggregationv1alpha1.GroupVersion
	config := storagebackend.NewDefaultConfig("/"+resource.Group, o.codecs.LegacyCodec(version))
	config.EncodeVersioner = runtime.NewMultiGroupVersioner(version, schema.GroupKind{Group: version.Group})
	return generic.RESTOptions{
		StorageConfig:           config.ForResource(resource),
		ResourcePrefix:          ResourcePrefix(resource.Resource),
		EnableGarbageCollection: true,
		DeleteCollectionWorkers: deleteWorkers,
		Decorator:               o.decorate,
	}, nil
}
