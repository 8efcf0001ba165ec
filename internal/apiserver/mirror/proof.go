package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// errBlind reports that Coder may hide objects that it has, so its answer proves no deletion.
var errBlind = errors.New("the objects keep their last known state")

// blind returns an error that wraps errBlind.
func blind(kind string, because error) error {
	return fmt.Errorf("objects of kind %s are missing in the answers of Coder, but may exist: %w; %w", kind, because, errBlind)
}

// missing handles known objects that are absent from Coder's answer. Objects whose deletion is proven are removed
// from the records: if Coder knows that it deleted them (410 Gone), or if it does not find them although the operator's
// account may see everything, before and after the request.
func (f *feed[Item]) missing(ctx context.Context, connection connections.Connection, coder Coder, ids []uuid.UUID) error {
	gone, err := f.absent(ctx, connection, coder, ids)
	if slices.ContainsFunc(gone, func(d deletion) bool { return !d.proven }) {
		if failed := f.seesAll(ctx, coder); failed != nil {
			err = failed
			gone = slices.DeleteFunc(gone, func(d deletion) bool {
				if !d.proven {
					f.mark(d.id, f.plane.config.Timing.Busy)
				}
				return !d.proven
			})
		}
	}
	return errors.Join(err, f.remove(ctx, gone))
}

// maxFailures is the number of objects that cannot be read after which the others are read later, because Coder may be down.
const maxFailures = 3

// absent requests objects one by one, and returns those that Coder does not have, or did not show although the account could
// see everything before the request.
func (f *feed[Item]) absent(ctx context.Context, connection connections.Connection, coder Coder, ids []uuid.UUID) ([]deletion, error) {
	var gone []deletion
	checked, failures := false, 0
	for i, id := range ids {
		if entry, _ := f.Store.Table.Find(f.plane.name, uidOf(id)); entry == nil {
			f.forget(id)
			continue
		}
		d, err := f.readOne(ctx, connection, coder, id)
		if err == nil && d != nil && !d.proven && !checked {
			if err = f.seesAll(ctx, coder); err == nil {
				checked = true
				d, err = f.readOne(ctx, connection, coder, id)
			}
		}
		switch {
		case err != nil:
			f.markAll(ctx, ids[i:i+1], err)
			if failures++; failures == maxFailures || !coderd.IsUnreachable(err) {
				f.markAll(ctx, ids[i+1:], nil)
				return gone, err
			}
			log.FromContext(ctx).Info("Could not read an object; trying again", "kind", f.kind(), "id", id, "error", err.Error())
		case d != nil:
			gone = append(gone, *d)
		}
	}
	return gone, nil
}

// forget drops the state of an object that is gone.
func (f *feed[Item]) forget(id uuid.UUID) {
	f.queue.forget(id)
	f.breaker.clear(id)
	f.settle.forget(id)
}

// refusal wraps 401 Unauthorized and 403 Forbidden in errBlind.
func (f *feed[Item]) refusal(err error) error {
	if coderd.IsForbidden(err) || coderd.IsUnauthorized(err) {
		return blind(f.kind(), err)
	}
	return err
}

// deletion is an object that Coder reports as absent.
type deletion struct {
	id uuid.UUID
	// began is the newest sequence number of the records before the request.
	began uint64
	// proven is true if Coder knows that it deleted the object.
	proven bool
}

// readOne reads one object that is absent from the list. It returns nil if the object exists.
func (f *feed[Item]) readOne(ctx context.Context, connection connections.Connection, coder Coder, id uuid.UUID) (*deletion, error) {
	began := f.moment()
	item, err := ask(ctx, f.plane, f.source.call, func(ctx context.Context) (Item, error) {
		return f.source.one(coder, ctx, id)
	}, coderd.IsNotFound)
	switch {
	case err == nil:
		return nil, f.apply(ctx, connection, []Item{item}, began, true)
	case coderd.IsNotFound(err):
		return &deletion{id: id, began: began.head, proven: coderd.IsGone(err)}, nil
	default:
		return nil, f.refusal(err)
	}
}

// seesAll returns nil if Coder has the database that the objects were read from, and the operator's account may see all
// objects of the kind.
func (f *feed[Item]) seesAll(ctx context.Context, coder Coder) error {
	if err := f.plane.sameDatabase(ctx, coder, f.kind()); err != nil {
		return f.refusal(err)
	}
	_, err := ask(ctx, f.plane, callUser, func(ctx context.Context) (any, error) {
		return nil, coderd.SeesAll(ctx, coder, f.source.resource)
	}, coderd.IsForbidden)
	return f.refusal(err)
}

// remove removes objects from the records, unless the breaker holds their deletions back.
func (f *feed[Item]) remove(ctx context.Context, gone []deletion) error {
	now := f.plane.config.Clock.Now()
	var surprising []uuid.UUID
	allowed := map[uuid.UUID]bool{}
	for _, d := range gone {
		entry, _ := f.Store.Table.Find(f.plane.name, uidOf(d.id))
		if entry != nil && f.Store.Claimed(entry.Key) {
			// The replica that is deleting it may have been killed. The breaker must not count each attempt.
			f.mark(d.id, f.plane.config.Timing.Busy)
			continue
		}
		if entry != nil && entry.Object.GetDeletionTimestamp() == nil {
			surprising = append(surprising, d.id)
			continue
		}
		allowed[d.id] = true
	}
	let, held, again := f.breaker.admit(now, surprising, f.Store.Table.Count(f.plane.name))
	for _, id := range let {
		allowed[id] = true
	}
	if len(held) > 0 {
		log.FromContext(ctx).Info("The circuit breaker holds back deletions until they are confirmed", "kind", f.kind(), "objects", len(held), "confirmedAt", again)
	}
	for _, id := range held {
		f.queue.setBusy(id, false, now)
		f.queue.mark(id, again)
	}
	for _, d := range gone {
		if !allowed[d.id] {
			continue
		}
		if err := f.removeOne(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

func (f *feed[Item]) removeOne(ctx context.Context, d deletion) error {
	entry, since := f.Store.Table.Find(f.plane.name, uidOf(d.id))
	if entry == nil {
		return nil
	}
	unlock, ok := f.Store.TryLock(entry.Key)
	if !ok || since > d.began {
		if ok {
			unlock()
		}
		f.mark(d.id, soon)
		return nil
	}
	defer unlock()
	unwritten, err := f.propose(ctx, records.Proposal{Key: entry.Key, Expect: entry.Revision})
	if reason := cmp.Or(err, unwritten[entry.Key]); reason != nil {
		f.again(ctx, d.id, entry.Key, reason)
		return err
	}
	f.plane.config.Metrics.commits.WithLabelValues(f.kind()).Inc()
	f.forget(d.id)
	if f.source.removed != nil {
		f.source.removed(f.plane.name, d.id)
	}
	return nil
}

// markAll schedules another read of objects. cause is the error if it is not known whether they changed, or nil.
func (f *feed[Item]) markAll(ctx context.Context, ids []uuid.UUID, cause error) {
	for _, id := range ids {
		if cause == nil {
			f.mark(id, f.plane.config.Timing.Busy)
			continue
		}
		f.rebuild(id)
		f.unreadable(ctx, id, cause)
	}
}
