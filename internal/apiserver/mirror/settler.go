package mirror

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// settleWithin is how old an item may be when it is settled. Older ones are read
// again first.
const settleWithin = 10 * time.Second

// settler has the kind bring on what is to be done, one object after the other,
// so that reading does not wait for it.
type settler[Item any] struct {
	feed *feed[Item]

	mu    sync.Mutex
	items map[uuid.UUID]settling[Item]
	order []uuid.UUID
	// last is for each object the count when it was settled last.
	last map[uuid.UUID]uint64
	// wake has what waits settled.
	wake func()
	// count is how many objects were settled.
	count atomic.Uint64
}

type settling[Item any] struct {
	item Item
	// revision is that of the log's entry when the item was read.
	revision uint64
	read     time.Time
}

func newSettler[Item any](f *feed[Item]) *settler[Item] {
	return &settler[Item]{feed: f, items: map[uuid.UUID]settling[Item]{}, last: map[uuid.UUID]uint64{}}
}

// push has an item settled. The key's lock is held.
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

// step settles what waits.
func (t *settler[Item]) step(ctx context.Context) {
	for ctx.Err() == nil {
		id, next, ok := t.pop()
		if !ok {
			return
		}
		t.settle(ctx, id, next)
	}
}

// settled notes that what was read of an object until now is old. Where that was
// about to be settled, it waits no more, and again says that it is to be read again.
// The key's lock is held.
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

// settledSince says that an object was settled after a count was taken.
func (t *settler[Item]) settledSince(id uuid.UUID, count uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last[id] > count
}

func (t *settler[Item]) forget(id uuid.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, id)
}

func (t *settler[Item]) settle(ctx context.Context, id uuid.UUID, next settling[Item]) {
	f := t.feed
	config := f.plane.config
	connection, live := f.plane.live()
	entry, revision := f.Store.Table.Find(f.plane.name, uidOf(id))
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
	if revision != next.revision || config.Clock.Since(next.read) > settleWithin {
		f.mark(id, soon)
		return
	}
	if !config.Held() {
		// Another replica may be doing the same.
		f.mark(id, soon)
		return
	}
	record, _ := config.Records.Get(f.plane.name, uidOf(id))
	again, err := f.Kind.Settle(coderd.WithBeforeChange(ctx, f.plane.certain), connection, next.item, record)
	if t.settled(id) {
		f.mark(id, soon)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		log.FromContext(ctx).Error(err, "Settling an object", "kind", f.kind, "name", entry.Object.GetName())
		f.queue.retry(id, config.Clock.Now())
	default:
		f.queue.worked(id)
		if again {
			f.queue.setBusy(id, true, config.Clock.Now())
		}
	}
}
