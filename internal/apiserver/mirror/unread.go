package mirror

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// unreadable records that an object could not be read, built or stored. If that lasts twice as long as Coder may be
// unreachable, it sets the condition Synced of the object to False. The condition becomes True again when the object is
// brought up to date. It does nothing if the cause concerns the whole control plane, as in an outage.
func (f *feed[Item]) unreadable(ctx context.Context, id uuid.UUID, cause error) {
	entry, _ := f.Store.Table.Find(f.plane.name, uidOf(id))
	if entry == nil || ctx.Err() != nil || coderd.IsRateLimited(cause) ||
		errors.Is(cause, errBlind) || errors.Is(cause, errNotHeld) || errors.Is(cause, errReleased) {
		return
	}
	if _, _, outage := f.plane.outage(); outage {
		// The objects show that Coder is not available.
		return
	}
	now := f.plane.config.Clock.Now()
	f.queue.mu.Lock()
	since, known := f.queue.unread[id]
	if !known {
		since = now
		f.queue.unread[id] = now
	}
	f.queue.mu.Unlock()
	if now.Sub(since) < 2*f.plane.config.Timing.StaleAfter {
		return
	}
	object := f.Kind.Unreadable(entry.Object, since, cause.Error())
	if object == nil {
		return
	}
	unlock, ok := f.Store.TryLock(entry.Key)
	if !ok {
		return
	}
	defer unlock()
	conflicts, err := f.propose(ctx, records.Proposal{Key: entry.Key, Expect: entry.Revision, Object: object, Natural: entry.Natural})
	switch {
	case err != nil:
		log.FromContext(ctx).Info("Could not report in the condition Synced that an object is out of date", "kind", f.kind(), "id", id, "error", err.Error())
	case len(conflicts) == 0:
		f.plane.config.Metrics.commits.WithLabelValues(f.kind()).Inc()
	}
}
