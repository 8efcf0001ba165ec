package mirror

import (
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// queue knows which objects of a control plane must be read again, and when.
type queue struct {
	timing *Timing

	mu sync.Mutex
	// due is when an object must be read.
	due map[uuid.UUID]time.Time
	// busy is since when an object has been changing.
	busy map[uuid.UUID]time.Time
	// failed counts the failures in a row of an object.
	failed map[uuid.UUID]int
	// stir is called when something becomes due earlier. It must not block.
	stir func()
}

func newQueue(timing *Timing) *queue {
	return &queue{timing: timing, due: map[uuid.UUID]time.Time{}, busy: map[uuid.UUID]time.Time{}, failed: map[uuid.UUID]int{}}
}

// mark has an object read at a time, or earlier where that is wanted already.
func (q *queue) mark(id uuid.UUID, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.markLocked(id, at)
}

func (q *queue) markLocked(id uuid.UUID, at time.Time) {
	if known, ok := q.due[id]; !ok || at.Before(known) {
		q.due[id] = at
		if q.stir != nil {
			q.stir()
		}
	}
}

// setBusy has an object read again soon for as long as it changes.
func (q *queue) setBusy(id uuid.UUID, busy bool, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !busy {
		delete(q.busy, id)
		return
	}
	since, ok := q.busy[id]
	if !ok {
		since = now
		q.busy[id] = now
	}
	interval := q.timing.Busy
	if now.Sub(since) >= q.timing.Patience {
		interval = q.timing.Drowsy
	}
	q.markLocked(id, now.Add(interval))
}

// retry has an object read again that something went wrong with, each time later.
func (q *queue) retry(id uuid.UUID, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	failed := q.failed[id]
	q.failed[id] = min(failed+1, 7)
	q.markLocked(id, now.Add(q.timing.Busy<<failed))
}

// failing says that something went wrong with an object, which is why it will be read
// again at its time.
func (q *queue) failing(id uuid.UUID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed[id] > 0
}

// worked forgets what went wrong with an object.
func (q *queue) worked(id uuid.UUID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.failed, id)
}

// forget drops an object that is gone.
func (q *queue) forget(id uuid.UUID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.due, id)
	delete(q.busy, id)
	delete(q.failed, id)
}

// take gives up to limit objects that are due, those that have waited longest
// first. They are no longer due.
func (q *queue) take(now time.Time, limit int) []uuid.UUID {
	q.mu.Lock()
	defer q.mu.Unlock()
	var ids []uuid.UUID
	for id, at := range q.due {
		if !at.After(now) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int {
		if order := q.due[a].Compare(q.due[b]); order != 0 {
			return order
		}
		return slices.Compare(a[:], b[:])
	})
	ids = ids[:min(limit, len(ids))]
	for _, id := range ids {
		delete(q.due, id)
	}
	return ids
}

// next is when something is due, or fallback where that is earlier.
func (q *queue) next(fallback time.Time) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, at := range q.due {
		if at.Before(fallback) {
			fallback = at
		}
	}
	return fallback
}
