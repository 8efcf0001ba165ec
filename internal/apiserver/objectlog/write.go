package objectlog

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// Create makes the object of a key that has none.
func (s *Store) Create(ctx context.Context, key string, object, out runtime.Object, ttl uint64) error {
	key, err := s.writable(key)
	if err != nil {
		return err
	}
	if revision, err := s.versioner.ObjectResourceVersion(object); err == nil && revision != 0 {
		return storage.ErrResourceVersionSetOnCreate
	}
	if s.config.Log.Get(key) != nil {
		return storage.NewKeyExistsError(key, 0)
	}
	wanted, err := s.prepare(object.DeepCopyObject())
	if err != nil {
		return err
	}
	entry, err := s.config.Committer.Commit(ctx, Commit{Key: key, Object: wanted})
	if errors.Is(err, ErrChanged) {
		return storage.NewKeyExistsError(key, 0)
	}
	if err != nil {
		return err
	}
	s.expires(entry, &ttl)
	if out == nil {
		return nil
	}
	return s.result(key, entry, wanted, 0, out)
}

// writable checks a key that shall be written.
func (s *Store) writable(key string) (string, error) {
	key, err := storage.PrepareKey(s.config.Prefix, key, false)
	if err != nil {
		return "", err
	}
	if s.config.Committer == nil {
		return "", fmt.Errorf("writing %s: this store is for reading", key)
	}
	return key, s.ready()
}

// prepare takes off what is not stored. The object must be the store's own.
func (s *Store) prepare(object runtime.Object) (Object, error) {
	if err := s.versioner.PrepareObjectForStorage(object); err != nil {
		return nil, fmt.Errorf("preparing an object for the log: %w", err)
	}
	if _, untyped := object.(runtime.Unstructured); !untyped {
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	own, ok := object.(Object)
	if !ok {
		return nil, fmt.Errorf("preparing an object for the log: %T has no metadata", object)
	}
	return own, nil
}

// result gives what a write has led to. entry is nil where the key is gone: the
// object is then the last one with the revision of its removal.
func (s *Store) result(key string, entry *Entry, last Object, before uint64, out runtime.Object) error {
	if entry != nil {
		return assign(entry.Object.DeepCopyObject(), out)
	}
	gone := last.DeepCopyObject()
	if err := s.versioner.UpdateObject(gone, s.config.Log.removal(key, before)); err != nil {
		return err
	}
	return assign(gone, out)
}

func (s *Store) expires(entry *Entry, ttl *uint64) {
	if s.expire != nil && entry != nil && ttl != nil && *ttl != 0 {
		s.expire(entry, *ttl)
	}
}

// GuaranteedUpdate changes the object of a key as try says, which is asked again
// for as long as somebody else was faster. The suggestion is of no use: the log is
// local.
//
// try runs admission, which may take half a minute: the lock of the key is only
// taken when the change is decided.
func (s *Store) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, try storage.UpdateFunc, _ runtime.Object,
) error {
	key, err := s.writable(key)
	if err != nil {
		return err
	}
	for {
		if err := ctx.Err(); err != nil {
			return storage.NewTimeoutError(key, err.Error())
		}
		err := s.tryUpdate(ctx, key, out, ignoreNotFound, preconditions, try)
		if !errors.Is(err, ErrChanged) {
			return err
		}
	}
}

// tryUpdate is one round. It gives ErrChanged where another one is due.
func (s *Store) tryUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, try storage.UpdateFunc,
) error {
	current := s.config.Log.Get(key)
	input, meta, stale := s.config.NewObject(), storage.ResponseMeta{}, false
	switch {
	case current != nil:
		input, meta.ResourceVersion = current.Object.DeepCopyObject(), current.Revision
		var err error
		if stale, err = s.read(ctx, current); err != nil {
			return err
		}
	case !ignoreNotFound:
		return storage.NewKeyNotFoundError(key, 0)
	default:
		if err := runtime.SetZeroValue(input); err != nil {
			return err
		}
	}
	if err := preconditions.Check(key, input); err != nil {
		return err
	}
	updated, ttl, err := try(input, meta)
	if err != nil {
		return err
	}
	wanted, err := s.prepare(updated.DeepCopyObject())
	if err != nil {
		return err
	}
	if current != nil && !stale && same(current, wanted) {
		return assign(current.Object.DeepCopyObject(), out)
	}
	entry, err := s.config.Committer.Commit(ctx, Commit{Key: key, Expect: revisionOf(current), Object: wanted})
	if err != nil {
		return err
	}
	s.expires(entry, ttl)
	return s.result(key, entry, wanted, revisionOf(current), out)
}

// same says whether an object is what the entry has already. An update that
// changes nothing must not move the head.
func same(entry *Entry, wanted Object) bool {
	version := wanted.GetResourceVersion()
	stamp(wanted, entry.Revision)
	defer wanted.SetResourceVersion(version)
	return equality.Semantic.DeepEqual(entry.Object, wanted)
}

// Delete removes the object of a key. Where the writer leaves something of it, out
// is what is left.
func (s *Store) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, options storage.DeleteOptions,
) error {
	key, err := s.writable(key)
	if err != nil {
		return err
	}
	unsafe := options.ExpectTransformOrDecodeError &&
		utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion)
	for {
		if err := ctx.Err(); err != nil {
			return storage.NewTimeoutError(key, err.Error())
		}
		err := s.tryDelete(ctx, key, out, preconditions, validate, unsafe)
		if !errors.Is(err, ErrChanged) {
			return err
		}
	}
}

// tryDelete is one round. It gives ErrChanged where another one is due. unsafe is
// for objects that cannot be read, which the log itself never has.
func (s *Store) tryDelete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, unsafe bool,
) error {
	current := s.config.Log.Get(key)
	if current == nil {
		return storage.NewKeyNotFoundError(key, 0)
	}
	object, err := s.deletable(ctx, current, unsafe)
	if err != nil {
		return err
	}
	if err := preconditions.Check(key, object); err != nil {
		return err
	}
	if err := validate(ctx, object); err != nil {
		return err
	}
	entry, err := s.config.Committer.Commit(ctx, Commit{Key: key, Expect: current.Revision})
	if err != nil || unsafe {
		return err
	}
	return s.result(key, entry, current.Object, current.Revision, out)
}

// deletable is the object as validation sees it: nil where it cannot be read.
func (s *Store) deletable(ctx context.Context, current *Entry, unsafe bool) (runtime.Object, error) {
	_, err := s.read(ctx, current)
	switch {
	case unsafe && err == nil:
		return nil, storage.NewInvalidObjError(current.Key,
			"it can be read, so it must be deleted in the ordinary way")
	case unsafe:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return current.Object.DeepCopyObject(), nil
}
