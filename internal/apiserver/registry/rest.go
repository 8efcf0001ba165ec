package registry

import (
	"context"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Checker asks Coder, without a write, whether it would accept one. The write
// itself asks the same.
type Checker interface {
	CheckCreate(ctx context.Context, obj runtime.Object) error
	CheckUpdate(ctx context.Context, wanted, current runtime.Object) error
}

// REST offers the verbs of a Store, but for watch.
type REST struct {
	store      *genericregistry.Store
	checker    Checker
	shortNames []string
}

var (
	_ rest.Scoper               = (*REST)(nil)
	_ rest.Lister               = (*REST)(nil)
	_ rest.Getter               = (*REST)(nil)
	_ rest.CreaterUpdater       = (*REST)(nil)
	_ rest.Patcher              = (*REST)(nil)
	_ rest.GracefulDeleter      = (*REST)(nil)
	_ rest.CollectionDeleter    = (*REST)(nil)
	_ rest.StorageWithReadiness = (*REST)(nil)
	_ rest.ShortNamesProvider   = (*REST)(nil)
	_ rest.CategoriesProvider   = (*REST)(nil)
	_ rest.SingularNameProvider = (*REST)(nil)
	_ rest.ResetFieldsStrategy  = (*REST)(nil)
)

// New implements rest.Storage.
func (r *REST) New() runtime.Object { return r.store.New() }

// Destroy implements rest.Storage.
func (r *REST) Destroy() { r.store.Destroy() }

// ReadinessCheck implements rest.StorageWithReadiness.
func (r *REST) ReadinessCheck() error { return r.store.ReadinessCheck() }

// NamespaceScoped implements rest.Scoper.
func (r *REST) NamespaceScoped() bool { return r.store.NamespaceScoped() }

// NewList implements rest.Lister.
func (r *REST) NewList() runtime.Object { return r.store.NewList() }

// List implements rest.Lister.
func (r *REST) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	return r.store.List(ctx, options)
}

// ConvertToTable implements rest.TableConvertor.
func (r *REST) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, object, options)
}

// Get implements rest.Getter.
func (r *REST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

// Create makes an object.
func (r *REST) Create(
	ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (runtime.Object, error) {
	return r.store.Create(ctx, obj, r.checkedCreate(validate, options.DryRun), options)
}

// Update implements rest.Updater.
func (r *REST) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, validateCreate rest.ValidateObjectFunc,
	validateUpdate rest.ValidateObjectUpdateFunc, forceCreate bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, info, r.checkedCreate(validateCreate, options.DryRun),
		r.checkedUpdate(validateUpdate, options.DryRun), forceCreate, options)
}

// Delete implements rest.GracefulDeleter.
func (r *REST) Delete(
	ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions,
) (runtime.Object, bool, error) {
	return r.store.Delete(ctx, name, validate, options)
}

// DeleteCollection implements rest.CollectionDeleter. In a namespace that is
// being deleted it finds nothing: the storage has released its objects.
func (r *REST) DeleteCollection(
	ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, list *metainternalversion.ListOptions,
) (runtime.Object, error) {
	return r.store.DeleteCollection(ctx, validate, options, list)
}

// ShortNames implements rest.ShortNamesProvider.
func (r *REST) ShortNames() []string { return r.shortNames }

// Categories implements rest.CategoriesProvider. It is not "all":
// kubectl delete all --all would delete the workspaces of people.
func (r *REST) Categories() []string { return []string{"coder"} }

// GetSingularName implements rest.SingularNameProvider.
func (r *REST) GetSingularName() string { return r.store.GetSingularName() }

// GetResetFields implements rest.ResetFieldsStrategy.
func (r *REST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

// checkedCreate asks Coder after admission, in the order of a write.
func (r *REST) checkedCreate(validate rest.ValidateObjectFunc, dryRun []string) rest.ValidateObjectFunc {
	if !dryrun.IsDryRun(dryRun) {
		return validate
	}
	return func(ctx context.Context, obj runtime.Object) error {
		if validate != nil {
			if err := validate(ctx, obj); err != nil {
				return err
			}
		}
		return r.checker.CheckCreate(ctx, obj)
	}
}

func (r *REST) checkedUpdate(validate rest.ValidateObjectUpdateFunc, dryRun []string) rest.ValidateObjectUpdateFunc {
	if !dryrun.IsDryRun(dryRun) {
		return validate
	}
	return func(ctx context.Context, obj, old runtime.Object) error {
		if validate != nil {
			if err := validate(ctx, obj, old); err != nil {
				return err
			}
		}
		return r.checker.CheckUpdate(ctx, obj, old)
	}
}
