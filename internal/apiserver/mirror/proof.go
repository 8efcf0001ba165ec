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

const (
	// probed is how many other objects the visibility probe requests.
	probed = 20
	// samples is how many missing objects are requested one by one before the visibility probe.
	samples = 3
)

// errBlind reports that Coder hides objects that it has, so its answer proves no deletion.
var errBlind = errors.New("Coder no longer returns objects that still exist, as if the operator's token had lost permissions; " +
	"the objects keep their last known state; give the operator's user the role owner again; if Coder's database was replaced, " +
	"set spec.operatorAccess.disabled to true until the objects of the old database are gone, and then to false")

// blindError returns errBlind for a number of objects.
func blindError(kind string, n int) error {
	return fmt.Errorf("%d objects of kind %s are missing: %w", n, kind, errBlind)
}

// missing handles known objects that are absent from Coder's answer. returned is the number of
// items in that answer. Objects whose deletion is proven are removed from the records.
func (f *feed[Item]) missing(ctx context.Context, connection connections.Connection, coder Coder, ids []uuid.UUID, returned int) error {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool {
		entry, _ := f.Store.Table.Find(f.plane.name, uidOf(id))
		if entry == nil {
			f.queue.forget(id)
			f.breaker.clear(id)
		}
		return entry == nil
	})
	seeing := returned > 0
	var gone []deletion
	for i, id := range ids {
		if !seeing && i >= samples && !slices.ContainsFunc(gone, func(d deletion) bool { return d.proven }) {
			if err := f.visible(ctx, coder, ids); err != nil {
				f.markAll(ids)
				return err
			}
			seeing = true
		}
		d, err := f.readOne(ctx, connection, coder, id)
		if err != nil {
			f.markAll(ids)
			return refusal(err)
		}
		if d != nil {
			gone = append(gone, *d)
		}
	}
	if !seeing && slices.ContainsFunc(gone, func(d deletion) bool { return !d.proven }) {
		if err := f.visible(ctx, coder, ids); err != nil {
			f.markAll(ids)
			return err
		}
	}
	return f.remove(ctx, gone)
}

// refusal wraps 401 Unauthorized and 403 Forbidden in errBlind.
func refusal(err error) error {
	if coderd.IsForbidden(err) || coderd.IsUnauthorized(err) {
		return fmt.Errorf("%w: %w", errBlind, err)
	}
	return err
}

// deletion is an object that Coder reports as absent.
type deletion struct {
	id uuid.UUID
	// began is the newest sequence number of the records before the request.
	began uint64
	// proven is true if missing permissions cannot cause the answer.
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
		return &deletion{id: id, began: began.head, proven: isGone(err)}, nil
	default:
		return nil, err
	}
}

// visible is the visibility probe. It requests other objects of the records and returns errBlind if
// Coder shows none of them. If the records have no other object, the operator's user must have the role
// owner. Without ownerSeesAll that is not enough for more than one absent object: if they were
// deleted, Coder would answer 410 Gone.
func (f *feed[Item]) visible(ctx context.Context, coder Coder, absent []uuid.UUID) error {
	lost := make(map[uuid.UUID]bool, len(absent))
	for _, id := range absent {
		lost[id] = true
	}
	var others []uuid.UUID
	for _, entry := range f.Store.Table.Of(f.plane.name) {
		if id := idOf(entry.Object); !lost[id] && len(others) < probed {
			others = append(others, id)
		}
	}
	if len(others) > 0 {
		items, err := f.ask(ctx, coder, others)
		if err == nil && len(items) == 0 {
			return blindError(f.kind(), len(absent))
		}
		return err
	}
	if !f.source.ownerSeesAll && len(absent) > 1 {
		return blindError(f.kind(), len(absent))
	}
	user, err := ask(ctx, f.plane, callUser, coder.Me, nil)
	if err == nil && !user.IsOwner() {
		return blindError(f.kind(), len(absent))
	}
	return err
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
	f.queue.forget(d.id)
	f.breaker.clear(d.id)
	if f.source.removed != nil {
		f.source.removed(f.plane.name, d.id)
	}
	return nil
}

func (f *feed[Item]) markAll(ids []uuid.UUID) {
	for _, id := range ids {
		f.mark(id, f.plane.config.Timing.Busy)
	}
}
