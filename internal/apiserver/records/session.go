package records

import (
	"context"
	"crypto/rand"
	"sync"

	"k8s.io/klog/v2"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// session is one write of a record through the Writer. What is to be kept is collected,
// and written before Coder is told something, together with the claim; what comes after
// that is written with the object. So most writes are two of the record, and one where
// Coder is told nothing.
type session struct {
	store *Store
	key   string
	claim string

	mu sync.Mutex
	// next is the record as it is to be. Its revision is the one that there is, 0 where
	// there is none.
	next *held
	// dirty says that next has more than the record, claimed that the record has the
	// claim.
	dirty, claimed bool
	// failed is why Coder could not be told.
	failed error
}

type sessionKey struct{}

// newSession begins a write that is decided on what is known.
func (s *Store) newSession(key string, known *held) *session {
	if known == nil {
		known = &held{key: key}
	}
	return &session{store: s, key: key, next: known, claim: s.config.Replica + "/" + rand.Text()}
}

// sessionOf is the session of a context, where it is one of this record.
func (s *Store) sessionOf(ctx context.Context, key string) *session {
	if w, _ := ctx.Value(sessionKey{}).(*session); w != nil && w.store == s && w.key == key {
		return w
	}
	return nil
}

// write has the Writer do its part.
func (w *session) write(ctx context.Context, current, wanted Object) (Object, error) {
	inside := coderd.WithBeforeChange(context.WithValue(ctx, sessionKey{}, w), w.tell)
	object, err := w.store.writer.Write(inside, w.key, current, wanted)
	if err == nil {
		return object, nil
	}
	w.release(ctx)
	if w.failed != nil {
		return nil, w.failed
	}
	return nil, err
}

// tell says in the record that this write changes something in Coder now, and what is
// to be kept by then. It is ErrChanged where the record is not what the write was
// decided on: then Coder is told nothing.
func (w *session) tell(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Before a creation has something to keep, it only uploads files.
	if w.claimed && !w.dirty || w.next.revision == 0 && !w.dirty {
		return w.failed
	}
	next := *w.next
	next.spec.Claim = w.claim
	h, err := w.store.update(ctx, &next, nil)
	if err != nil {
		w.failed = err
		return err
	}
	w.next, w.claimed, w.dirty = h, true, false
	return nil
}

// keep collects what is to be kept.
func (w *session) keep(wanted *metadata.Record) (*metadata.Record, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := *w.next
	switch {
	case next.controlPlane.Namespace != "" && next.controlPlane != wanted.ControlPlane:
		return nil, kept(wanted, "belongs to another control plane")
	case next.kept != nil && metadata.Same(next.kept, wanted):
		return next.kept, nil
	}
	text, err := wanted.Text()
	if err != nil {
		return nil, err
	}
	next.controlPlane, next.spec.ControlPlane = wanted.ControlPlane, wanted.ControlPlane.Name
	next.spec.Kept, next.spec.ID = text, string(wanted.UID)
	// It is of this write until that ends.
	wanted.Version = w.claim
	next.kept = wanted
	w.next, w.dirty = &next, true
	return wanted, nil
}

// forget keeps nothing any more. The record of a creation that was refused goes.
func (w *session) forget(ctx context.Context, record *metadata.Record) error {
	w.mu.Lock()
	if w.next.entry == nil {
		defer w.mu.Unlock()
		last := w.next
		w.next, w.dirty, w.claimed = &held{key: w.key}, false, false
		if last.revision == 0 {
			return nil
		}
		return w.store.remove(ctx, last)
	}
	w.mu.Unlock()
	_, err := w.keep(&metadata.Record{ControlPlane: record.ControlPlane, Kind: record.Kind, Name: record.Name, UID: record.UID})
	return err
}

// release takes the claim off after a write that came to nothing, and writes what is to
// be kept of it. Where that fails, the others wait for a minute.
func (w *session) release(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.claimed {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	free := *w.next
	free.spec.Claim = ""
	if _, err := w.store.update(ctx, &free, nil); err != nil {
		klog.FromContext(ctx).Error(err, "Leaving a claim in a record", "key", w.key)
	}
}
