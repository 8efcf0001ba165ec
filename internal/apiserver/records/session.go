package records

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// session is one change of an object through the Writer or by the mirror. Metadata to be kept is
// collected, and is written together with the claim before the first change in Coder. Metadata that
// is set after that is written with the object. So most writes need two writes of the record, and
// one if nothing changes in Coder.
type session struct {
	store *Store
	key   string
	claim string

	mu sync.Mutex
	// next is the record to be written. Its revision is that of the existing record, or 0 if there
	// is none.
	next *held
	// dirty is true if next has data that the record does not have. claimed is true if the record
	// has the claim.
	dirty, claimed bool
	// began is the time before the claim was first written. Other replicas learn of it later.
	began time.Time
	// failed is the error that prevented the change in Coder.
	failed error
}

type sessionKey struct{}

// newSession begins a write that is based on the known state.
func (s *Store) newSession(key string, known *held) *session {
	if known == nil {
		known = &held{key: key}
	}
	return &session{store: s, key: key, next: known, claim: s.config.Replica + "/" + rand.Text()}
}

// sessionOf returns the session of a context if it writes this record, or nil.
func (s *Store) sessionOf(ctx context.Context, key string) *session {
	if w, _ := ctx.Value(sessionKey{}).(*session); w != nil && w.store == s && w.key == key {
		return w
	}
	return nil
}

// write calls the Writer within the session. After an error, it removes the claim.
func (w *session) write(ctx context.Context, current, wanted Object) (Object, error) {
	object, err := w.store.writer.Write(w.inside(ctx), w.key, current, wanted)
	if _, newer := errors.AsType[*NewerError](err); err == nil || newer {
		return object, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.claimed || w.failed != nil {
		if err := w.finish(ctx); err != nil && w.claimed {
			klog.FromContext(ctx).Error(err, "Could not release the claim in a record", "key", w.key)
		}
	}
	switch {
	case w.claimed && errors.Is(w.failed, ErrChanged):
		return nil, overwritten(w.key)
	case w.failed != nil:
		return nil, w.failed
	}
	return nil, err
}

// inside returns the context of a change.
func (w *session) inside(ctx context.Context) context.Context {
	return coderd.WithBeforeChange(context.WithValue(ctx, sessionKey{}, w), func(inner context.Context) error {
		if err := coderd.BeforeChange(ctx); err != nil {
			return err
		}
		if err := w.writeClaim(inner); err != nil {
			return err
		}
		return w.inTime(inner)
	})
}

// inTime returns an error if a request could still be in progress when other replicas no longer respect the claim,
// because this one was paused or the requests before took long. ctx is the context of the request, whose deadline is
// the timeout of the request.
func (w *session) inTime(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.claimed {
		return nil
	}
	timeout := coderd.DefaultTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = time.Until(deadline)
	}
	now := w.store.config.Clock.Now()
	// The monotonic clock does not advance while the machine is suspended.
	held := max(now.Sub(w.began), now.Round(0).Sub(w.began.Round(0)))
	if held+timeout <= claimPatience {
		return nil
	}
	w.failed = uncertain(w.key, "changed", fmt.Errorf(
		"its claim was written %s ago, so the rest of the change is not sent to Coder", held.Round(time.Second)))
	return w.failed
}

// writeClaim writes the claim and the collected metadata to the record before a change in Coder. If the
// record is not the one that the write is based on, it returns ErrChanged, and the change is not
// sent to Coder. The request does not end when the client disconnects, because a claim that is not
// known is not removed.
func (w *session) writeClaim(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	// As long as a creation has nothing to keep, it only uploads files.
	if w.claimed && !w.dirty || w.next.revision == 0 && !w.dirty {
		return w.failed
	}
	if !w.claimed {
		w.began = w.store.config.Clock.Now()
	}
	next := *w.next
	next.spec.Claim = w.claim
	h, err := w.store.update(context.WithoutCancel(ctx), &next, nil)
	if err != nil {
		w.failed = err
		return err
	}
	w.next, w.claimed, w.dirty = h, true, false
	return ctx.Err()
}

// keep collects the metadata to be kept.
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
	// Until the write ends, the claim serves as the version.
	wanted.Version = w.claim
	next.kept = wanted
	w.next, w.dirty = &next, true
	return wanted, nil
}

// forget drops the metadata of an object. It deletes the record of a creation that was refused.
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

// finish removes the claim, and writes the collected metadata. If that fails, other replicas wait
// for claimPatience. The caller holds mu.
func (w *session) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	if w.failed != nil {
		// The record may have the claim although the response to that was an error.
		if err := w.store.Learn(ctx, w.key); err != nil {
			return err
		}
		known := w.store.Table.get(w.key)
		if known == nil || known.spec.Claim != w.claim {
			return nil
		}
		if known.revision != w.next.revision {
			w.next = known
		}
	}
	free := *w.next
	free.spec.Claim = ""
	_, err := w.store.update(ctx, &free, nil)
	return err
}
