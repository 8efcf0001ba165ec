package records

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// ErrChanged says that a record no longer has the revision that was expected.
var ErrChanged = errors.New("the record changed meanwhile")

// Create makes the object of a key that has none.
func (s *Store) Create(ctx context.Context, key string, object, out runtime.Object, _ uint64) error {
	key, err := s.key(key)
	if err != nil {
		return err
	}
	if revision, err := s.versioner.ObjectResourceVersion(object); err == nil && revision != 0 {
		return storage.ErrResourceVersionSetOnCreate
	}
	wanted, err := s.own(object)
	if err != nil {
		return err
	}
	h, err := s.commit(ctx, key, nil, wanted)
	switch {
	case errors.Is(err, ErrChanged):
		return storage.NewKeyExistsError(key, 0)
	case err != nil || out == nil:
		return err
	}
	return s.result(h, out)
}

// own gives a copy of an object that was checked.
func (s *Store) own(object runtime.Object) (Object, error) {
	own, ok := object.DeepCopyObject().(Object)
	if !ok {
		return nil, fmt.Errorf("an object for a record: %T has no metadata", object)
	}
	return own, s.versioner.PrepareObjectForStorage(own)
}

// result gives a copy of what a write has led to.
func (s *Store) result(h *held, out runtime.Object) error {
	object := h.entry.Object.DeepCopyObject()
	if err := s.versioner.UpdateObject(object, h.revision); err != nil {
		return err
	}
	return assign(object, out)
}

// basis is the object that a write is decided on.
type basis struct {
	object   runtime.Object
	revision uint64
	// fresh says that it was read for this write, and is not what a cache had.
	fresh bool
}

// read reads what is newest. The Table learns it.
func (s *Store) read(ctx context.Context, key string, ignoreNotFound bool) (*basis, error) {
	record, err := s.get(ctx, key, "")
	if err != nil {
		return nil, err
	}
	b := &basis{object: s.config.NewObject(), fresh: true}
	if record == nil {
		if !ignoreNotFound {
			return nil, storage.NewKeyNotFoundError(key, 0)
		}
		return b, runtime.SetZeroValue(b.object)
	}
	h, err := s.hold(ctx, record)
	if err != nil {
		return nil, readError(ctx, key, err)
	}
	b.object, b.revision = h.entry.Object.DeepCopyObject(), record.Revision
	s.Table.see(h)
	return b, nil
}

// begin takes what the cacher suggests, which spares a read.
func (s *Store) begin(ctx context.Context, key string, ignoreNotFound bool, suggested runtime.Object) (*basis, error) {
	if suggested != nil {
		if revision, err := s.versioner.ObjectResourceVersion(suggested); err == nil && revision != 0 {
			return &basis{object: suggested.DeepCopyObject(), revision: revision}, nil
		}
	}
	return s.read(ctx, key, ignoreNotFound)
}

// GuaranteedUpdate changes the object of a key as try says, which is asked again
// for as long as somebody else was faster.
func (s *Store) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, try storage.UpdateFunc, suggested runtime.Object,
) error {
	decide := func(b *basis) (Object, error) {
		updated, _, err := try(b.object.DeepCopyObject(), storage.ResponseMeta{ResourceVersion: b.revision})
		if err != nil {
			return nil, err
		}
		return s.own(updated)
	}
	return s.write(ctx, key, out, ignoreNotFound, suggested, preconditions, decide)
}

// Delete removes the object of a key. Where the writer leaves something of it, out
// is what is left.
func (s *Store) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, suggested runtime.Object, _ storage.DeleteOptions,
) error {
	decide := func(b *basis) (Object, error) { return nil, validate(ctx, b.object) }
	return s.write(ctx, key, out, false, suggested, preconditions, decide)
}

// write decides and commits until nobody else was faster. The decision is nil where the
// object shall be removed.
func (s *Store) write(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool, suggested runtime.Object,
	preconditions *storage.Preconditions, decide func(*basis) (Object, error),
) error {
	key, err := s.key(key)
	if err != nil {
		return err
	}
	b, err := s.begin(ctx, key, ignoreNotFound, suggested)
	for err == nil {
		if err := ctx.Err(); err != nil {
			return storage.NewTimeoutError(key, err.Error())
		}
		var wanted Object
		refusal := preconditions.Check(key, b.object)
		if refusal == nil {
			wanted, refusal = decide(b)
		}
		switch {
		case refusal != nil && b.fresh:
			return refusal
		case refusal == nil && (b.fresh || wanted == nil || !s.same(b, wanted)):
			if done, err := s.try(ctx, key, b, wanted, out); done || err != nil {
				return err
			}
		}
		// Somebody else was faster; or what a cache had was the reason to refuse, or to change nothing.
		was := b.revision
		if b, err = s.read(ctx, key, ignoreNotFound); refusal != nil && err == nil && b.revision == was {
			return refusal
		}
	}
	return err
}

// same says that an update changes nothing.
func (s *Store) same(b *basis, wanted Object) bool {
	if b.revision == 0 {
		return false
	}
	before := b.object.DeepCopyObject()
	return s.versioner.PrepareObjectForStorage(before) == nil && equality.Semantic.DeepEqual(before, wanted)
}

// try commits a decision. It is not done where somebody else was faster.
func (s *Store) try(ctx context.Context, key string, b *basis, wanted Object, out runtime.Object) (done bool, err error) {
	if wanted != nil && s.same(b, wanted) {
		if err := s.versioner.UpdateObject(wanted, b.revision); err != nil {
			return true, err
		}
		return true, assign(wanted, out)
	}
	h, err := s.commit(ctx, key, b, wanted)
	switch {
	case errors.Is(err, ErrChanged):
		return false, nil
	case err != nil:
		return true, err
	case h != nil:
		return true, s.result(h, out)
	}
	// kube-apiserver does not tell the revision of a removal: this one is not lower.
	revision, err := s.heartbeat.now(ctx)
	if err != nil {
		return true, err
	}
	gone := b.object.DeepCopyObject()
	if err := s.versioner.UpdateObject(gone, revision); err != nil {
		return true, err
	}
	return true, assign(gone, out)
}
