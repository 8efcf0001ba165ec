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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
)

// Checker asks Coder, without a write, whether it would accept one. The write
// itself asks the same.
type Checker interface {
	CheckCreate(ctx context.Context, obj runtime.Object) error
	CheckUpdate(ctx context.Context, wanted, current runtime.Object) error
}

// Seen is what this replica knows of the objects.
type Seen interface {
	// Revision is the newest one that this replica has seen.
	Revision() uint64
	// FirstName gives the name of the object that has a name in Coder by now, where that
	// is not its own. It is empty where there is none.
	FirstName(namespace, name string) string
}

// REST offers the verbs of a Store where the Gate lets them through.
type REST struct {
	*genericregistry.Store
	gate       *Gate
	checker    Checker
	shortNames []string
	// prefix gives the part of an object's name that tells its control plane.
	prefix func(name string) string
	// checkName returns why a name cannot be that of an object.
	checkName func(name string) error
	seen      Seen
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
func (r *REST) ShortNames() []string { return r.shortNames }

// Categories implements rest.CategoriesProvider. It is not "all":
// kubectl delete all --all would delete the workspaces of people.
func (r *REST) Categories() []string { return []string{"coder"} }

// ReadinessCheck implements rest.StorageWithReadiness. An API that is not ready
// blocks every namespace of the cluster, so what is not known yet is told with
// each answer instead.
func (r *REST) ReadinessCheck() error { return nil }

// Get implements rest.Getter.
func (r *REST) Get(ctx context.Context, name string, options *metav1.GetOptions) (_ runtime.Object, err error) {
	defer coderfault.Name(ctx, &err)
	namespace := request.NamespaceValue(ctx)
	if r.gate.nothing(ctx, namespace) {
		return nil, r.notFound(name)
	}
	if err := r.gate.readOne(ctx, namespace, r.prefix(name)); err != nil {
		return nil, err
	}
	obj, err := r.Store.Get(ctx, name, options)
	return obj, r.believed(ctx, name, err)
}

// believed replaces an absence that cannot be known by an error that says so.
func (r *REST) believed(ctx context.Context, name string, err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	namespace := request.NamespaceValue(ctx)
	if doubt := r.gate.absent(ctx, namespace, r.prefix(name)); doubt != nil {
		return doubt
	}
	if first := r.seen.FirstName(namespace, name); first != "" {
		return renamed(apierrors.NewNotFound(r.DefaultQualifiedResource, name), first)
	}
	if wrong := r.checkName(name); wrong != nil && !strings.Contains(name, ".") {
		// A usual mistake: the name in Coder.
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

// emptyList is the list of a namespace that has nothing. Its revision is one that
// this replica has seen, or the first, from which a watch is told to list again.
func (r *REST) emptyList() (runtime.Object, error) {
	list := r.NewList()
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	accessor.SetResourceVersion(strconv.FormatUint(max(r.seen.Revision(), 1), 10))
	return list, meta.SetList(list, nil)
}

// Watch implements rest.Watcher. A namespace without a control plane can be
// watched: it may get one.
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

// Create makes an object.
func (r *REST) Create(
	ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (_ runtime.Object, err error) {
	defer coderfault.Name(ctx, &err)
	created, err := r.Store.Create(ctx, obj, r.checkedCreate(validate, options.DryRun), options)
	if accessor, ok := obj.(metav1.Object); ok && apierrors.IsAlreadyExists(err) {
		if first := r.seen.FirstName(request.NamespaceValue(ctx), accessor.GetName()); first != "" {
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
	if err := r.gate.readOne(ctx, namespace, r.prefix(name)); err != nil {
		return nil, false, err
	}
	obj, created, err := r.Store.Update(ctx, name, info, r.checkedCreate(validateCreate, options.DryRun),
		r.checkedUpdate(validateUpdate, options.DryRun), forceCreate, options)
	return obj, created, r.believed(ctx, name, err)
}

// Delete implements rest.GracefulDeleter. In a namespace that is being deleted
// itself, nothing is destroyed: its objects are released.
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
	if err := r.gate.readOne(ctx, namespace, r.prefix(name)); err != nil {
		return nil, false, err
	}
	obj, gone, err := r.Store.Delete(ctx, name, validate, options)
	return obj, gone, r.believed(ctx, name, err)
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
	return r.Store.DeleteCollection(ctx, validate, options, list)
}

// renamed adds to an error about the name that something has in Coder now that its object
// has the one that it had first.
func renamed(err *apierrors.StatusError, first string) error {
	err.ErrStatus.Message = fmt.Sprintf("%s; what has this name in Coder now was renamed there, and its object is %q", err.ErrStatus.Message, first)
	return err
}

func (r *REST) notFound(name string) error {
	return apierrors.NewNotFound(r.DefaultQualifiedResource, name)
}

// checkedCreate lets nothing be created where Coder cannot be asked, and asks it
// in a dry run too, after admission, in the order of a write.
func (r *REST) checkedCreate(validate rest.ValidateObjectFunc, dryRun []string) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if accessor, err := meta.Accessor(obj); err == nil {
			if err := r.gate.create(ctx, request.NamespaceValue(ctx), r.prefix(accessor.GetName())); err != nil {
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
