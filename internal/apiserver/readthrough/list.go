package readthrough

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/revision"
)

// GetList implements storage.Interface. A limit is not kept: the answer is
// whole, as the API allows, because a second page would ask Coder again and
// could not be of the same moment.
func (s *Storage[T]) GetList(ctx context.Context, key string, opts storage.ListOptions, out runtime.Object) error {
	if opts.Predicate.Continue != "" || opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		return apierrors.NewResourceExpired("only the present state can be listed; list again without continue and without an exact resourceVersion")
	}
	at := revision.OfList(s.clock.Now())
	found, err := s.collect(ctx, key, opts)
	if err != nil {
		return err
	}
	slices.SortFunc(found, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	items, err := meta.GetItemsPtr(out)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if err := fill(reflect.ValueOf(items).Elem(), found, opts.Predicate); err != nil {
		return err
	}
	return s.Versioner().UpdateList(out, at, "", nil)
}

// collect reads what the key covers, but for what is released.
func (s *Storage[T]) collect(ctx context.Context, key string, opts storage.ListOptions) ([]T, error) {
	if !opts.Recursive {
		obj, err := s.read(ctx, key)
		if storage.IsNotFound(err) {
			return nil, nil
		}
		return []T{obj}, err
	}
	namespace, name := s.split(key + "/")
	if name != "" && name != "/" {
		return nil, apierrors.NewInternalError(errors.New("bug: a list of one object"))
	}
	if namespace != "" && s.namespaces.Released(namespace) {
		return nil, nil
	}
	found, err := s.backend.List(ctx, namespace)
	return slices.DeleteFunc(found, func(obj T) bool { return s.namespaces.Released(obj.GetNamespace()) }), err
}

// fill sets the slice of a list to the objects that the predicate selects. It is
// never nil, so that JSON says [] and not null.
func fill[T Object](items reflect.Value, found []T, predicate storage.SelectionPredicate) error {
	selected := reflect.MakeSlice(items.Type(), 0, len(found))
	for _, obj := range found {
		match, err := predicate.Matches(obj)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		if match {
			selected = reflect.Append(selected, reflect.ValueOf(obj).Elem())
		}
	}
	items.Set(selected)
	return nil
}
