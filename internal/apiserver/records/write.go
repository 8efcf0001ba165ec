package records

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// ErrChanged means that a record no longer has the expected revision.
var ErrChanged = errors.New("the record changed in the meantime")

type deletionKey struct{}

// WithDeletion returns the context of a request to delete objects. The Writer gets such a request
// even if the object is already being deleted, because the caller may be another one.
func WithDeletion(ctx context.Context) context.Context {
	return context.WithValue(ctx, deletionKey{}, true)
}

// IsDeletion reports whether the context is that of a request to delete objects.
func IsDeletion(ctx context.Context) bool { return ctx.Value(deletionKey{}) != nil }

// Create implements storage.Interface.
func (s *Store) Create(ctx context.Context, key string, object, out runtime.Object, _ uint64) error {
	key, err := s.key(key)
	if err != nil {
		return err
	}
	if revision, err := s.versioner.ObjectResourceVersion(object); err == nil && revision != 0 {
		return storage.ErrResourceVersionSetOnCreate
	}
	for attempt := 1; ; attempt++ {
		wanted, err := s.own(object)
		if err != nil {
			return err
		}
		h, err := s.commit(ctx, key, nil, wanted)
		switch {
		case errors.Is(err, ErrChanged) && s.Table.Get(key) == nil && attempt < createAttempts:
			// Another replica has begun or given up a creation of the same name. The next attempt waits for it.
		case errors.Is(err, ErrChanged):
			return storage.NewKeyExistsError(key, 0)
		case err != nil || out == nil:
			return err
		default:
			return s.result(h, out)
		}
	}
}

// createAttempts limits the attempts to create an object while other replicas begin and give up the
// same creation.
const createAttempts = 5

// own returns a deep copy of an object, prepared for storage.
func (s *Store) own(object runtime.Object) (Object, error) {
	own, ok := object.DeepCopyObject().(Object)
	if !ok {
		return nil, fmt.Errorf("an object for a record: %T has no metadata", object)
	}
	// The object of a patch has its kind, and the objects of a Table have none.
	own.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return own, s.versioner.PrepareObjectForStorage(own)
}

// result sets out to a copy of the object that a write has stored.
func (s *Store) result(h *held, out runtime.Object) error {
	object := h.entry.Object.DeepCopyObject()
	if err := s.versioner.UpdateObject(object, h.revision); err != nil {
		return err
	}
	return assign(object, out)
}

// basis is the object on which a write is based.
type basis struct {
	object   runtime.Object
	revision uint64
	// fresh is true if the object was read for this write, and is not from a cache.
	fresh bool
}

// read reads the newest state of an object, and updates the Table.
func (s *Store) read(ctx context.Context, key string, ignoreNotFound bool) (*basis, error) {
	known := s.Table.get(key)
	record, err := s.get(ctx, key, "")
	if err != nil {
		return nil, err
	}
	if record != nil {
		if err := s.compare(ctx, known, record.Revision); err != nil {
			return nil, err
		}
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

// begin returns the object that the cacher suggests, which saves a read, or else reads it.
func (s *Store) begin(ctx context.Context, key string, ignoreNotFound bool, suggested runtime.Object) (*basis, error) {
	if suggested != nil {
		if revision, err := s.versioner.ObjectResourceVersion(suggested); err == nil && revision != 0 {
			return &basis{object: suggested.DeepCopyObject(), revision: revision}, nil
		}
	}
	return s.read(ctx, key, ignoreNotFound)
}

// GuaranteedUpdate implements storage.Interface. It calls try again after each conflict.
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

// Delete implements storage.Interface. If the writer does not remove the object yet, out is the
// remaining object.
func (s *Store) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, suggested runtime.Object, _ storage.DeleteOptions,
) error {
	decide := func(b *basis) (Object, error) { return nil, validate(ctx, b.object) }
	return s.write(ctx, key, out, false, suggested, preconditions, decide)
}

// write decides and commits, and repeats that after each conflict. The decision is nil if the
// object is to be deleted.
func (s *Store) write(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool, suggested runtime.Object,
	preconditions *storage.Preconditions, decide func(*basis) (Object, error),
) error {
	key, err := s.key(key)
	if err != nil {
		return err
	}
	b, err := s.begin(ctx, key, ignoreNotFound, suggested)
	for attempt := 0; err == nil; attempt++ {
		if err := pauseBefore(ctx, attempt); err != nil {
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
		// Another write came first, or an outdated object was the reason for a refusal or for no
		// change.
		was := b.revision
		if b, err = s.read(ctx, key, ignoreNotFound); refusal != nil && err == nil && b.revision == was {
			return refusal
		}
	}
	return err
}

const (
	// immediateAttempts is the number of attempts of a write without a pause between them.
	immediateAttempts = 8
	// pauseFirst and pauseMost are the first and the longest pause before each further attempt.
	pauseFirst, pauseMost = 10 * time.Millisecond, time.Second
)

// pauseBefore waits before an attempt of a write, so that conflicts without an end do not load
// kube-apiserver.
func pauseBefore(ctx context.Context, attempt int) error {
	if attempt < immediateAttempts || ctx.Err() != nil {
		return ctx.Err()
	}
	timer := time.NewTimer(min(pauseMost, pauseFirst<<min(attempt-immediateAttempts, 10)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// same reports whether an update changes nothing.
func (s *Store) same(b *basis, wanted Object) bool {
	if b.revision == 0 {
		return false
	}
	before := b.object.DeepCopyObject()
	return s.versioner.PrepareObjectForStorage(before) == nil && equality.Semantic.DeepEqual(before, wanted)
}

// try commits a decision. done is false after a conflict, and if the decision must be repeated with
// the newest state.
func (s *Store) try(ctx context.Context, key string, b *basis, wanted Object, out runtime.Object) (done bool, err error) {
	if wanted != nil && s.same(b, wanted) && !IsDeletion(ctx) {
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
	case h != nil && h.revision == b.revision && !b.fresh:
		// Nothing was written, so nothing has shown whether the object is outdated.
		return false, nil
	case h != nil:
		return true, s.result(h, out)
	}
	// kube-apiserver does not return the revision of a deletion. This one is not lower. If it cannot
	// be read, the object is gone nevertheless: a client that tried again would get NotFound.
	revision, err := s.heartbeat.now(ctx)
	if err != nil {
		revision = max(b.revision, s.Table.Revision())
	}
	gone := b.object.DeepCopyObject()
	if err := s.versioner.UpdateObject(gone, revision); err != nil {
		return true, err
	}
	return true, assign(gone, out)
}

// proposalsAtOnce limits the number of records that are written concurrently. etcd batches them
// into one disk write.
const proposalsAtOnce = 16

// Proposal is a change of one key. The caller must hold the key's lock.
type Proposal struct {
	Key string
	// Expect is the revision of the Entry of the key, or 0 if there is none.
	Expect uint64
	// Object is nil to delete the key. The Table owns it from then on.
	Object Object
	// Natural is the name that is derived from the current names in Coder. It is empty if there is
	// none.
	Natural string
}

// UnwrittenError has the reasons why some proposals were not written, by their keys: ErrChanged if
// the proposal was based on an outdated state, or an error for which IsRefused is true.
type UnwrittenError struct {
	Reasons map[string]error
}

func (e *UnwrittenError) Error() string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(e.Reasons)) {
		all = append(all, fmt.Sprintf("%s: %v", key, e.Reasons[key]))
	}
	return strings.Join(all, "; ")
}

// Unwrap returns the reasons.
func (e *UnwrittenError) Unwrap() []error { return slices.Collect(maps.Values(e.Reasons)) }

// TryLock acquires the lock of a key, unless this or another replica is writing it.
func (s *Store) TryLock(key string) (unlock func(), ok bool) {
	if s.Claimed(key) {
		return nil, false
	}
	return s.Table.locks.tryLock(key)
}

// Claimed reports whether another replica is writing the record of a key.
func (s *Store) Claimed(key string) bool {
	busy, _ := s.Table.foreign(key, s.mine)
	return busy
}

// Abandoned reports whether the record of a key has a claim although no replica is writing it any more.
func (s *Store) Abandoned(key string) bool {
	h := s.Table.get(key)
	return h != nil && h.spec.Claim != "" && !s.Claimed(key)
}

// Settle calls a function that changes an object in Coder as a Writer does, with the kept metadata of
// the object. The caller holds the lock of the key. If the record has changed in the meantime, the
// change is not sent to Coder, and the error is ErrChanged.
func (s *Store) Settle(ctx context.Context, key string, f func(ctx context.Context, kept *metadata.Record) error) error {
	known := s.Table.get(key)
	if known == nil {
		return ErrChanged
	}
	w := s.newSession(key, known)
	err := f(w.inside(ctx), w.next.kept)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		err = w.failed
	}
	if w.claimed || w.dirty || w.failed != nil {
		if failed := w.finish(ctx); err == nil {
			err = failed
		}
	}
	return err
}

// Propose writes objects that were read from the system of record. If a record is not as expected, or
// kube-apiserver does not accept it, the error is an UnwrittenError, and the other proposals are
// written nevertheless. After any other error, some of them may be written too.
func (s *Store) Propose(ctx context.Context, proposals ...Proposal) error {
	reasons := make([]error, len(proposals))
	var group errgroup.Group
	group.SetLimit(proposalsAtOnce)
	for i := range proposals {
		group.Go(func() error {
			err := s.propose(ctx, &proposals[i])
			if errors.Is(err, ErrChanged) || IsRefused(err) {
				reasons[i] = err
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	unwritten := &UnwrittenError{Reasons: map[string]error{}}
	for i, err := range reasons {
		if err != nil {
			unwritten.Reasons[proposals[i].Key] = err
		}
	}
	switch {
	case len(unwritten.Reasons) == 0:
		return nil
	case IsRefused(unwritten):
		// If kube-apiserver does not accept a heartbeat either, the cause is not the object.
		if _, err := s.heartbeat.now(ctx); err != nil {
			return err
		}
	}
	return unwritten
}

func (s *Store) propose(ctx context.Context, p *Proposal) error {
	current := s.Table.get(p.Key)
	revision := uint64(0)
	if current != nil && current.entry != nil {
		revision = current.entry.Revision
	}
	switch {
	case revision != p.Expect:
		return ErrChanged
	case p.Object == nil && current == nil:
		return nil
	case p.Object == nil:
		return s.remove(ctx, current)
	}
	_, err := s.put(ctx, p.Key, current, p.Object, p.Natural)
	return err
}
