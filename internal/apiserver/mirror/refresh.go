package mirror

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// refreshGap is the minimum time between two reads of due objects. Objects that become due within
// it are read together.
const refreshGap = 200 * time.Millisecond

func (f *feed[Item]) tasks() []*task {
	p := f.plane
	var earliest time.Time
	refresh := newTask("refresh "+f.kind(), func(ctx context.Context) time.Time {
		now := p.config.Clock.Now()
		connection, live := p.live()
		switch {
		case !live:
			return p.after(idle)
		case now.Before(earliest):
			return earliest
		}
		if ids := f.queue.take(now, f.source.batch); len(ids) > 0 {
			p.note(ctx, "reading the changed objects", f.read(ctx, connection, ids, true))
			now = p.config.Clock.Now()
			earliest = now.Add(refreshGap)
		}
		return maxTime(earliest, f.queue.next(now.Add(idle)))
	})
	settle := newTask("settle "+f.kind(), func(ctx context.Context) time.Time {
		for ctx.Err() == nil {
			id, next, ok := f.settle.pop()
			if !ok {
				break
			}
			f.settle.settle(ctx, id, next)
		}
		return p.after(idle)
	})
	f.queue.stir, f.settle.wake = refresh.wake, settle.wake
	return []*task{refresh, settle}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// ask requests items by their ids. If the response is too large, it requests each half of them.
func (f *feed[Item]) ask(ctx context.Context, coder Coder, ids []uuid.UUID) ([]Item, error) {
	items, err := ask(ctx, f.plane, f.source.call, func(ctx context.Context) ([]Item, error) {
		return f.source.read(coder, ctx, ids)
	}, nil)
	// Kinds with a list are requested as a whole, or one by one.
	if f.source.list != nil || len(ids) == 1 || !coderd.IsTooLarge(err) {
		return items, err
	}
	half := len(ids) / 2
	items, err = f.ask(ctx, coder, ids[:half])
	if err != nil {
		return nil, err
	}
	others, err := f.ask(ctx, coder, ids[half:])
	return append(items, others...), err
}

// read reads objects and writes them into the records. If hot is true, they are settled too.
func (f *feed[Item]) read(ctx context.Context, connection connections.Connection, ids []uuid.UUID, hot bool) error {
	coder := f.plane.config.Open(connection)
	began := f.moment()
	items, err := f.ask(ctx, coder, ids)
	if err != nil {
		f.markAll(ctx, ids, err)
		return err
	}
	absent := absentFrom(ids, items, f.source.id)
	if err := f.apply(ctx, connection, items, began, hot); err != nil {
		f.markAll(ctx, ids, nil)
		return err
	}
	return f.missing(ctx, connection, coder, absent)
}

// absentFrom returns the ids that no item has.
func absentFrom[Item any](ids []uuid.UUID, items []Item, idOf func(Item) uuid.UUID) []uuid.UUID {
	there := make(map[uuid.UUID]bool, len(items))
	for _, item := range items {
		there[idOf(item)] = true
	}
	var absent []uuid.UUID
	for _, id := range ids {
		if !there[id] {
			absent = append(absent, id)
		}
	}
	return absent
}

// newListTask returns a task that reads all items of a kind periodically.
func newListTask[Item any](p *plane, f *feed[Item], every time.Duration) *task {
	return newLiveTask(p, f.source.call, time.Time{}, func(ctx context.Context, connection connections.Connection, _ bool) time.Time {
		next := p.after(every)
		if err := f.readList(ctx, connection, false); err != nil {
			p.note(ctx, "reading the "+f.source.call, err)
			next = p.after(p.config.Timing.Probe)
		}
		return next
	})
}

// readList reads all items into the records. If hot is true, they are settled too.
func (f *feed[Item]) readList(ctx context.Context, connection connections.Connection, hot bool) error {
	coder := f.plane.config.Open(connection)
	began := f.moment()
	var known []uuid.UUID
	for _, entry := range f.Store.Table.Of(f.plane.name) {
		known = append(known, idOf(entry.Object))
	}
	items, err := f.source.list(ctx, f.plane, coder)
	if err != nil {
		return err
	}
	absent := absentFrom(known, items, f.source.id)
	if err := f.apply(ctx, connection, items, began, hot); err != nil {
		return err
	}
	return f.missing(ctx, connection, coder, absent)
}
