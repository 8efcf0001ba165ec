package mirror

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// settleWithin is the maximum age of an item that is settled. Older items are read again first.
const settleWithin = 10 * time.Second

// settler calls the kind's Settle, one object after the other, so that reads do not wait for it.
type settler[Item any] struct {
	feed *feed[Item]

	mu    sync.Mutex
	items map[uuid.UUID]settling[Item]
	order []uuid.UUID
	// last maps an object to the value of count when it was last settled.
	last map[uuid.UUID]uint64
	// wake wakes the task that settles the pending objects.
	wake func()
	// count is the number of objects that were settled.
	count atomic.Uint64
}

type settling[Item any] struct {
	item Item
	// revision is the revision of the stored entry when the item was read.
	revision uint64
	read     time.Time
}

// push queues an item to be settled. The caller holds the key's lock.
func (t *settler[Item]) push(s *seen[Item], now time.Time) {
	_, revision := t.feed.Store.Table.Find(t.feed.plane.name, uidOf(s.id))
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.items[s.id]; !ok {
		t.order = append(t.order, s.id)
	}
	t.items[s.id] = settling[Item]{item: s.item, revision: revision, read: now}
	t.wake()
}

func (t *settler[Item]) pop() (id uuid.UUID, next settling[Item], ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) == 0 {
		return uuid.Nil, settling[Item]{}, false
	}
	id, t.order = t.order[0], t.order[1:]
	next = t.items[id]
	delete(t.items, id)
	return id, next, true
}

// settled records that items of an object that were read until now are outdated. If one of them is
// queued, it is removed, and again reports that the object must be read again. The caller holds the
// key's lock.
func (t *settler[Item]) settled(id uuid.UUID) (again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last[id] = t.count.Add(1)
	if _, again = t.items[id]; again {
		delete(t.items, id)
		t.order = slices.DeleteFunc(t.order, func(other uuid.UUID) bool { return other == id })
	}
	return again
}

// forget removes an object that is gone.
func (t *settler[Item]) forget(id uuid.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, id)
}

func (t *settler[Item]) settle(ctx context.Context, id uuid.UUID, next settling[Item]) {
	f := t.feed
	config := f.plane.config
	connection, live := f.plane.live()
	entry, _ := f.Store.Table.Find(f.plane.name, uidOf(id))
	if entry == nil {
		t.forget(id)
	}
	if !live || entry == nil {
		return
	}
	unlock, ok := f.Store.TryLock(entry.Key)
	if !ok {
		f.mark(id, soon)
		return
	}
	defer unlock()
	// If the Lease is not held, another replica may be settling the same object.
	if _, revision := f.Store.Table.Find(f.plane.name, uidOf(id)); revision != next.revision || config.Clock.Since(next.read) > settleWithin || !config.Held() {
		f.mark(id, soon)
		return
	}
	var again bool
	err := f.Store.Settle(coderd.WithBeforeChange(ctx, f.plane.certain), entry.Key, func(ctx context.Context, record *metadata.Record) (err error) {
		again, err = f.Kind.Settle(ctx, connection, next.item, record)
		return err
	})
	if t.settled(id) {
		f.mark(id, soon)
	}
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, records.ErrChanged):
		// A request changed the object.
		f.mark(id, soon)
	case err != nil:
		log.FromContext(ctx).Error(err, "Could not apply the spec of an object to Coder", "kind", f.kind(), "name", entry.Object.GetName())
		f.queue.again(f.queue.failed, id, config.Clock.Now())
	default:
		f.queue.worked(f.queue.failed, id)
		if again {
			f.queue.setBusy(id, true, config.Clock.Now())
		}
	}
}
