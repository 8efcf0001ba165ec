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

// deleteWorkers limits how many objects of a DeleteCollection are deleted in Coder concurrently.
const deleteWorkers = 4

// FullStrategy is the strategy that each kind implements.
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
	// Prefix returns the part of an object's name that identifies its control plane.
	Prefix func(name string) string
	// CheckName returns why a name is not valid for an object of this kind.
	CheckName func(name string) error
	// Attributes returns the fields and labels that selectors match. If nil, selectors match the
	// metadata only.
	Attributes storage.AttrFunc
	// Indexers index the objects in the cache by the fields in IndexFields.
	Indexers    *cache.Indexers
	IndexFields []string
}

// ResourcePrefix returns the prefix of the keys of a kind in its log.
func ResourcePrefix(plural string) string {
	return "/" + aggregationv1alpha1.GroupVersion.Group + "/" + plural
}

// NewREST returns the verbs of a kind. Decorate creates the storage that they use.
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

// restOptions configures a Store to use the storage of this project.
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
