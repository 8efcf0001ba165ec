package readthrough

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
)

// updateAttempts is how often an update starts over because the object changed
// meanwhile. The library does the same against etcd without a bound, but there
// an attempt costs a millisecond.
const updateAttempts = 5

// GuaranteedUpdate implements storage.Interface.
//
// tryUpdate runs admission webhooks, so no lock is held around it.
func (s *Storage[T]) GuaranteedUpdate(
	ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, _ runtime.Object,
) error {
	for range updateAttempts {
		current, exists, err := s.current(ctx, key, ignoreNotFound)
		if err != nil {
			return err
		}
		if err := preconditions.Check(key, current); err != nil {
			return err
		}
		version, err := s.Versioner().ObjectResourceVersion(current)
		if err != nil {
			return err
		}
		updated, _, err := tryUpdate(current.DeepCopyObject(), storage.ResponseMeta{ResourceVersion: version})
		if err != nil {
			return err
		}
		wanted, err := s.own(updated)
		if err != nil {
			return err
		}
		wanted.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		if exists && same(current, wanted) {
			copyTo(current, out)
			return nil
		}
		written, done, err := s.write(ctx, key, current, wanted, exists)
		if err != nil {
			return err
		}
		if done {
			copyTo(written, out)
			return nil
		}
	}
	_, name := s.split(key)
	return apierrors.NewConflict(s.resource, name, errors.New("the object keeps changing; try again"))
}

// current reads the object, or gives an empty one where none is needed.
func (s *Storage[T]) current(ctx context.Context, key string, ignoreNotFound bool) (T, bool, error) {
	obj, err := s.read(ctx, key)
	if storage.IsNotFound(err) && ignoreNotFound {
		return s.empty(), false, nil
	}
	return obj, err == nil, err
}

// write brings the wanted object to Coder, unless the object is no more as it
// was read: then done is false.
func (s *Storage[T]) write(ctx context.Context, key string, current, wanted T, exists bool) (written T, done bool, err error) {
	s.keys.LockKey(key)
	defer func() { _ = s.keys.UnlockKey(key) }()
	if !exists {
		written, err = s.backend.Create(ctx, wanted)
		return written, true, err
	}
	now, err := s.read(ctx, key)
	if err != nil {
		return written, false, err
	}
	if now.GetResourceVersion() != current.GetResourceVersion() || now.GetUID() != current.GetUID() {
		return written, false, nil
	}
	if wanted.GetDeletionTimestamp() != nil && now.GetDeletionTimestamp() == nil {
		written, err = s.destroy(ctx, key, now)
		return written, true, err
	}
	written, err = s.backend.Update(ctx, now, wanted)
	return written, true, err
}

// same says whether there is nothing to write.
func same(current, wanted Object) bool {
	return equality.Semantic.DeepEqual(current, wanted)
}
