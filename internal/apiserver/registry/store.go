package registry

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/tools/cache"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
)

// deleteWorkers limits how many objects of a DeleteCollection are deleted in Coder concurrently.
const deleteWorkers = 4

// FullStrategy is the strategy that each kind implements.
type FullStrategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
}

// Kind is what the Store of a kind needs.
type Kind struct {
	Plural              string
	singular            string
	shortNames, indexed []string
	newObject, newList  func() runtime.Object
	strategy            FullStrategy
	table               rest.TableConvertor
	checker             Checker
	prefix              func(name string) string
	checkName           func(name string) error
	attributes          storage.AttrFunc
	indexers            *cache.Indexers
}

// Registry returns the kind for NewREST.
func (b *Base[T]) Registry(strategy FullStrategy, checker Checker) Kind {
	return Kind{
		Plural: b.Plural, singular: b.Singular, shortNames: b.ShortNames, newObject: b.New, newList: b.NewList,
		strategy: strategy, table: b, checker: checker, prefix: b.Prefix, checkName: b.CheckName,
		attributes: b.Attributes, indexers: b.Indexers(), indexed: b.Indexed,
	}
}

// NewREST returns the verbs of a kind. Decorate creates the storage that they use.
func NewREST(kind Kind, codecs serializer.CodecFactory, decorate generic.StorageDecorator, gate *Gate, local LocalRecords) (*REST, error) {
	store := &genericregistry.Store{
		NewFunc:                   kind.newObject,
		NewListFunc:               kind.newList,
		DefaultQualifiedResource:  aggregationv1alpha1.Resource(kind.Plural),
		SingularQualifiedResource: aggregationv1alpha1.Resource(kind.singular),
		CreateStrategy:            kind.strategy,
		UpdateStrategy:            kind.strategy,
		DeleteStrategy:            kind.strategy,
		ResetFieldsStrategy:       kind.strategy,
		TableConvertor:            kind.table,
		PredicateFunc: func(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
			return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: kind.attributes, IndexFields: kind.indexed}
		},
	}
	getter := &restOptions{codecs: codecs, decorate: decorate}
	options := &generic.StoreOptions{RESTOptions: getter, AttrFunc: kind.attributes, Indexers: kind.indexers}
	if err := store.CompleteWithOptions(options); err != nil {
		return nil, err
	}
	return &REST{Store: store, gate: gate, kind: kind, local: local}, nil
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
		ResourcePrefix:          records.KeyPrefix(resource.Resource),
		EnableGarbageCollection: true,
		DeleteCollectionWorkers: deleteWorkers,
		Decorator:               o.decorate,
	}, nil
}

// NewScheme returns the scheme and its codecs. Each kind adds its own registrations. The served types
// are their own internal version, so there are no conversions that could lose a field.
func NewScheme(kinds ...func(*runtime.Scheme) error) (*runtime.Scheme, serializer.CodecFactory) {
	s := runtime.NewScheme()
	utilruntime.Must(aggregationv1alpha1.AddToScheme(s))
	internal := schema.GroupVersion{Group: aggregationv1alpha1.GroupVersion.Group, Version: runtime.APIVersionInternal}
	s.AddKnownTypes(internal, aggregationv1alpha1.Types()...)
	for _, add := range kinds {
		utilruntime.Must(add(s))
	}
	utilruntime.Must(s.SetVersionPriority(aggregationv1alpha1.GroupVersion))

	// Options and errors of every API are in the core group.
	core := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(s, core)
	s.AddUnversionedTypes(core, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return s, serializer.NewCodecFactory(s)
}
