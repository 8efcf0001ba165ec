package readthrough

import (
	"context"
	"errors"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"
	"k8s.io/utils/keymutex"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/revision"
)

// Storage implements storage.Interface over a Backend.
type Storage[T Object] struct {
	backend    Backend[T]
	namespaces Namespaces
	resource   schema.GroupResource
	// prefix is what all keys begin with, with the slash before the namespace.
	prefix string
	clock  clock.PassiveClock
	keys   keymutex.KeyMutex
	// empty makes an object without content.
	empty func() T
}

// lockStripes bounds the memory of the locks. Two keys that share one wait for
// each other, which is slow but never wrong.
const lockStripes = 256

// New makes the storage of one kind under a prefix of keys.
func New[T Object](
	backend Backend[T], namespaces Namespaces, resource schema.GroupResource, prefix string, empty func() T, c clock.PassiveClock,
) *Storage[T] {
	return &Storage[T]{
		backend: backend, namespaces: namespaces, resource: resource,
		prefix: strings.TrimSuffix(prefix, "/") + "/", empty: empty, clock: c,
		keys: keymutex.NewHashed(lockStripes),
	}
}

// Versioner implements storage.Interface.
func (s *Storage[T]) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

// Get implements storage.Interface.
func (s *Storage[T]) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	obj, err := s.read(ctx, key)
	if storage.IsNotFound(err) && opts.IgnoreNotFound {
		return runtime.SetZeroValue(out)
	}
	if err != nil {
		return err
	}
	copyTo(obj, out)
	return nil
}

// Create implements storage.Interface.
func (s *Storage[T]) Create(ctx context.Context, key string, obj, out runtime.Object, _ uint64) error {
	wanted, err := s.own(obj)
	if err != nil {
		return err
	}
	s.keys.LockKey(key)
	defer func() { _ = s.keys.UnlockKey(key) }()
	created, err := s.backend.Create(ctx, wanted)
	if err != nil {
		return err
	}
	copyTo(created, out)
	return nil
}

// Delete implements storage.Interface.
func (s *Storage[T]) Delete(
	ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, _ storage.DeleteOptions,
) error {
	s.keys.LockKey(key)
	defer func() { _ = s.keys.UnlockKey(key) }()
	current, err := s.read(ctx, key)
	if err != nil {
		return err
	}
	if err := preconditions.Check(key, current); err != nil {
		return err
	}
	if err := validate(ctx, current); err != nil {
		return err
	}
	deleted, err := s.destroy(ctx, key, current)
	if err != nil {
		return err
	}
	copyTo(deleted, out)
	return nil
}

// destroy deletes in Coder, unless the namespace is being deleted.
func (s *Storage[T]) destroy(ctx context.Context, key string, current T) (T, error) {
	var none T
	released, err := s.namespaces.ReleasedNow(ctx, current.GetNamespace())
	if err != nil {
		return none, err
	}
	if released {
		return none, storage.NewKeyNotFoundError(key, 0)
	}
	return s.backend.Delete(ctx, current)
}

// read gives the object of a key, as storage errors.
func (s *Storage[T]) read(ctx context.Context, key string) (T, error) {
	var none T
	namespace, name := s.split(key)
	if name == "" || s.namespaces.Released(namespace) {
		return none, storage.NewKeyNotFoundError(key, 0)
	}
	obj, err := s.backend.Get(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		return none, storage.NewKeyNotFoundError(key, 0)
	}
	return obj, err
}

// split takes a key apart. The name is empty for the key of a collection.
func (s *Storage[T]) split(key string) (namespace, name string) {
	rest, ok := strings.CutPrefix(key, s.prefix)
	if !ok {
		return "", ""
	}
	namespace, name, _ = strings.Cut(rest, "/")
	return namespace, name
}

func (s *Storage[T]) own(obj runtime.Object) (T, error) {
	own, ok := obj.(T)
	if !ok {
		return own, apierrors.NewInternalError(errors.New("bug: " + s.resource.String() + " stores another type"))
	}
	return own, nil
}

func copyTo(from, to runtime.Object) {
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from).Elem())
}

// Watch implements storage.Interface. It is not offered: see the package.
func (s *Storage[T]) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	return nil, apierrors.NewMethodNotSupported(s.resource, "watch")
}

// Stats implements storage.Interface. Nothing is stored.
func (s *Storage[T]) Stats(context.Context) (storage.Stats, error) { return storage.Stats{}, nil }

// ReadinessCheck implements storage.Interface. It does not depend on Coder: an
// API that is not ready would block every namespace of the cluster.
func (s *Storage[T]) ReadinessCheck() error { return nil }

// RequestWatchProgress implements storage.Interface.
func (s *Storage[T]) RequestWatchProgress(context.Context) error { return nil }

// GetCurrentResourceVersion implements storage.Interface.
func (s *Storage[T]) GetCurrentResourceVersion(context.Context) (uint64, error) {
	return revision.OfList(s.clock.Now()), nil
}

// EnableResourceSizeEstimation implements storage.Interface.
func (s *Storage[T]) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

// CompactRevision implements storage.Interface. There is no history.
func (s *Storage[T]) CompactRevision() int64 { return 0 }
