package registry

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/client-go/tools/cache"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
)

// Checker sends the read requests to Coder that decide whether a write would be accepted, without
// the write. The write itself makes the same checks, or Coder does. CheckUpdate checks a change of the object as it is
// stored, also if a newer one is in Coder: some clients delete an object and create it again if a dry run returns a conflict.
type Checker interface {
	CheckCreate(ctx context.Context, obj runtime.Object) error
	CheckUpdate(ctx context.Context, wanted, current runtime.Object) error
	CheckDelete(ctx context.Context, obj runtime.Object) error
}

// LocalRecords reports which records this replica has read.
type LocalRecords interface {
	// Revision returns the newest revision that this replica has seen.
	Revision() uint64
	// FirstName returns the name of the object whose counterpart in Coder was renamed to this name.
	// It returns "" if there is none.
	FirstName(namespace, name string) string
}

// REST implements the verbs of a Store for requests that pass the Gate.
type REST struct {
	*genericregistry.Store
	gate  *Gate
	kind  Kind
	local LocalRecords
}

var (
	_ rest.StandardStorage      = (*REST)(nil)
	_ rest.StorageWithReadiness = (*REST)(nil)
	_ rest.ShortNamesProvider   = (*REST)(nil)
	_ rest.CategoriesProvider   = (*REST)(nil)
	_ rest.SingularNameProvider = (*REST)(nil)
	_ rest.ResetFieldsStrategy  = (*REST)(nil)
)

// ShortNames implements rest.ShortNamesProvider.
func (r *REST) ShortNames() []string { return r.kind.shortNames }

// Categories implements rest.CategoriesProvider. It does not include "all", because kubectl delete
// all --all would then delete the workspaces of users.
func (r *REST) Categories() []string { return []string{"coder"} }

// ReadinessCheck implements rest.StorageWithReadiness. It always returns nil: an API that is not
// ready blocks every namespace of the cluster. The Gate returns 503 for the affected requests
// instead.
func (r *REST) ReadinessCheck() error { return nil }

// Get implements rest.Getter.
func (r *REST) Get(ctx context.Context, name string, options *metav1.GetOptions) (_ runtime.Object, err error) {
	defer coderfault.Name(ctx, &err)
	namespace := request.NamespaceValue(ctx)
	if r.gate.nothing(ctx, namespace) {
		return nil, r.notFound(name)
	}
	if err := r.gate.readOne(ctx, namespace, r.kind.prefix(name)); err != nil {
		return nil, err
	}
	obj, err := r.Store.Get(ctx, name, options)
	return obj, r.explainNotFound(ctx, name, err)
}

// explainNotFound returns 503 instead of NotFound while the control plane is not synced. Otherwise it adds
// a hint to NotFound if the name is that of a renamed object, or not valid.
func (r *REST) explainNotFound(ctx context.Context, name string, err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	namespace := request.NamespaceValue(ctx)
	if doubt := r.gate.absent(ctx, namespace, r.kind.prefix(name)); doubt != nil {
		return doubt
	}
	if first := r.local.FirstName(namespace, name); first != "" {
		return renamed(apierrors.NewNotFound(r.DefaultQualifiedResource, name), first)
	}
	if wrong := r.kind.checkName(name); wrong != nil && !strings.Contains(name, ".") {
		// A common mistake: the name in Coder.
		said := apierrors.NewNotFound(r.DefaultQualifiedResource, name)
		said.ErrStatus.Message += "; its name " + wrong.Error()
		return said
	}
	return err
}

// List implements rest.Lister.
func (r *REST) List(ctx context.Context, options *metainternalversion.ListOptions) (_ runtime.Object, err error) {
	defer coderfault.Name(ctx, &err)
	namespace := request.NamespaceValue(ctx)
	if r.gate.nothing(ctx, namespace) {
		return r.emptyList()
	}
	if err := r.gate.read(ctx, namespace); err != nil {
		return nil, err
	}
	return r.Store.List(ctx, options)
}

// emptyList returns the list of a namespace that has no objects. Its resourceVersion is one that
// this replica has seen, or 1. A watch from revision 1 must list again.
func (r *REST) emptyList() (runtime.Object, error) {
	list := r.NewList()
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	accessor.SetResourceVersion(strconv.FormatUint(max(r.local.Revision(), 1), 10))
	return list, meta.SetList(list, nil)
}

// Watch implements rest.Watcher. A namespace without a control plane can be watched, because one
// may be created there.
func (r *REST) Watch(ctx context.Context, options *metainternalversion.ListOptions) (_ watch.Interface, err error) {
	defer coderfault.Name(ctx, &err)
	namespace := request.NamespaceValue(ctx)
	if !r.gate.nothing(ctx, namespace) {
		if err := r.gate.read(ctx, namespace); err != nil {
			return nil, err
		}
	}
	return r.Store.Watch(ctx, options)
}

// Create implements the verb create. If the name conflicts with something that was renamed in
// Coder, the error names the existing object.
func (r *REST) Create(
	ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (_ runtime.Object, err error) {
	defer coderfault.Name(ctx, &err)
	created, err := r.Store.Create(ctx, obj, r.checkedCreate(validate, options.DryRun), options)
	if accessor, ok := obj.(metav1.Object); ok && apierrors.IsAlreadyExists(err) {
		if first := r.local.FirstName(request.NamespaceValue(ctx), accessor.GetName()); first != "" {
			return nil, renamed(apierrors.NewAlreadyExists(r.DefaultQualifiedResource, accessor.GetName()), first)
		}
	}
	return created, err
}

// Update implements rest.Updater.
func (r *REST) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, validateCreate rest.ValidateObjectFunc,
	validateUpdate rest.ValidateObjectUpdateFunc, forceCreate bool, options *metav1.UpdateOptions,
) (_ runtime.Object, _ bool, err error) {
	defer coderfault.Name(ctx, &err)
	namespace := request.NamespaceValue(ctx)
	if !forceCreate && r.gate.nothing(ctx, namespace) {
		return nil, false, r.notFound(name)
	}
	if err := r.gate.readOne(ctx, namespace, r.kind.prefix(name)); err != nil {
		return nil, false, err
	}
	checked := validateUpdate
	if dryrun.IsDryRun(options.DryRun) {
		checked = func(ctx context.Context, obj, old runtime.Object) error {
			if validateUpdate != nil {
				if err := validateUpdate(ctx, obj, old); err != nil {
					return err
				}
			}
			return r.kind.checker.CheckUpdate(ctx, obj, old)
		}
	}
	obj, created, err := r.Store.Update(ctx, name, info, r.checkedCreate(validateCreate, options.DryRun), checked,
		forceCreate, options)
	return obj, created, r.explainNotFound(ctx, name, err)
}

// Delete implements rest.GracefulDeleter. If the namespace itself is being deleted, nothing is
// deleted in Coder: the objects of the namespace are released.
func (r *REST) Delete(
	ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions,
) (_ runtime.Object, _ bool, err error) {
	defer coderfault.Name(ctx, &err)
	namespace := request.NamespaceValue(ctx)
	released, err := r.gate.Namespaces.ReleasedNow(ctx, namespace)
	if err != nil {
		return nil, false, err
	}
	if released || r.gate.nothing(ctx, namespace) {
		return nil, false, r.notFound(name)
	}
	if err := r.gate.readOne(ctx, namespace, r.kind.prefix(name)); err != nil {
		return nil, false, err
	}
	obj, gone, err := r.Store.Delete(records.WithDeletion(ctx), name, r.checkedDelete(validate, options.DryRun), options)
	return obj, gone, r.explainNotFound(ctx, name, err)
}

// DeleteCollection implements rest.CollectionDeleter.
func (r *REST) DeleteCollection(
	ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, list *metainternalversion.ListOptions,
) (_ runtime.Object, err error) {
	defer coderfault.Name(ctx, &err)
	namespace := request.NamespaceValue(ctx)
	if r.gate.nothing(ctx, namespace) {
		return r.emptyList()
	}
	released, err := r.gate.Namespaces.ReleasedNow(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if released {
		return r.emptyList()
	}
	if err := r.gate.read(ctx, namespace); err != nil {
		return nil, err
	}
	return r.Store.DeleteCollection(records.WithDeletion(ctx), r.checkedDelete(validate, options.DryRun), options, list)
}

// renamed adds to an error about a name in Coder that the object has another name, which it got
// before a rename in Coder.
func renamed(err *apierrors.StatusError, first string) error {
	err.ErrStatus.Message = fmt.Sprintf("%s; it was renamed in Coder, and its object still has the name %q", err.ErrStatus.Message, first)
	return err
}

func (r *REST) notFound(name string) error {
	return apierrors.NewNotFound(r.DefaultQualifiedResource, name)
}

// checkedCreate rejects a create while the control plane is not ready. In a dry run it also runs
// the checks of Coder, after admission, in the same order as a write.
func (r *REST) checkedCreate(validate rest.ValidateObjectFunc, dryRun []string) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if accessor, err := meta.Accessor(obj); err == nil {
			if err := r.gate.absent(ctx, request.NamespaceValue(ctx), r.kind.prefix(accessor.GetName())); err != nil {
				return err
			}
		}
		if validate != nil {
			if err := validate(ctx, obj); err != nil {
				return err
			}
		}
		if !dryrun.IsDryRun(dryRun) {
			return nil
		}
		return r.kind.checker.CheckCreate(ctx, obj)
	}
}

func (r *REST) checkedDelete(validate rest.ValidateObjectFunc, dryRun []string) rest.ValidateObjectFunc {
	if !dryrun.IsDryRun(dryRun) {
		return validate
	}
	return func(ctx context.Context, obj runtime.Object) error {
		if validate != nil {
			if err := validate(ctx, obj); err != nil {
				return err
			}
		}
		return r.kind.checker.CheckDelete(ctx, obj)
	}
}

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
	resource, version := store.DefaultQualifiedResource, aggregationv1alpha1.GroupVersion
	config := storagebackend.NewDefaultConfig("/"+resource.Group, codecs.LegacyCodec(version))
	config.EncodeVersioner = runtime.NewMultiGroupVersioner(version, schema.GroupKind{Group: version.Group})
	getter := generic.RESTOptions{
		StorageConfig:           config.ForResource(resource),
		ResourcePrefix:          records.KeyPrefix(resource.Resource),
		EnableGarbageCollection: true,
		DeleteCollectionWorkers: deleteWorkers,
		Decorator:               decorate,
	}
	options := &generic.StoreOptions{RESTOptions: getter, AttrFunc: kind.attributes, Indexers: kind.indexers}
	if err := store.CompleteWithOptions(options); err != nil {
		return nil, err
	}
	return &REST{Store: store, gate: gate, kind: kind, local: local}, nil
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
