package mirror

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// maxStrangers limits the reads of objects that are not in the records: Coder chooses their ids. Those that are ignored are
// found by the drift check.
const maxStrangers = 10_000

// queue holds the objects of a control plane that must be read again, each with its time. It has at most maxStrangers
// objects that are not in the records: see feed.surplus.
type queue struct {
	timing *Timing

	mu sync.Mutex
	// due maps an object to the time of its next read.
	due map[uuid.UUID]time.Time
	// busy maps an object to the time since which it has been changing.
	busy map[uuid.UUID]time.Time
	// failed maps an object to its number of consecutive failures to settle it, unbuilt to those to
	// build it from its item, and refused to those to store it because kube-apiserver does not accept it.
	failed, unbuilt, refused map[uuid.UUID]int
	// keys maps an object that was built but could not be locked to its key in the records. They do not have the key of a new
	// object.
	keys map[uuid.UUID]string
	// unread maps a known object that could not be read, built or stored the last time to the time since which it has failed.
	unread map[uuid.UUID]time.Time
	// stir is called when the next read becomes due earlier. It must not block.
	stir func()
}

func newQueue(timing *Timing) *queue {
	return &queue{
		timing: timing, due: map[uuid.UUID]time.Time{}, busy: map[uuid.UUID]time.Time{},
		failed: map[uuid.UUID]int{}, unbuilt: map[uuid.UUID]int{}, refused: map[uuid.UUID]int{}, keys: map[uuid.UUID]string{},
		unread: map[uuid.UUID]time.Time{},
	}
}

// mark schedules a read of an object at the given time, unless an earlier read is scheduled.
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

// setBusy schedules another read of an object that is changing, or stops these reads.
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

// upToDate records that the object in the records is up to date.
func (q *queue) upToDate(id uuid.UUID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.unread, id)
}

// worked resets the failures of an object. failures is failed, unbuilt or refused of the queue.
func (q *queue) worked(failures map[uuid.UUID]int, id uuid.UUID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(failures, id)
}

// again schedules another attempt with exponential backoff, and returns the number of failures before. failures is failed,
// unbuilt or refused of the queue.
func (q *queue) again(failures map[uuid.UUID]int, id uuid.UUID, now time.Time) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	failed := failures[id]
	failures[id] = min(failed+1, 7)
	q.markLocked(id, now.Add(q.timing.Busy<<failed))
	return failed
}

// built resets the failures to build an object.
func (q *queue) built(id uuid.UUID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.unbuilt, id)
	delete(q.keys, id)
}

// blocked records that an object was built but could not be locked.
func (q *queue) blocked(id uuid.UUID, key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.keys[id] = key
}

// keyOf returns the key of an object that could not be locked, or "".
func (q *queue) keyOf(id uuid.UUID) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.keys[id]
}

// failing reports whether the last attempt to settle an object failed, so that a retry is scheduled.
func (q *queue) failing(id uuid.UUID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed[id] > 0
}

// forget removes an object that is gone.
func (q *queue) forget(id uuid.UUID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.due, id)
	delete(q.busy, id)
	delete(q.failed, id)
	delete(q.unbuilt, id)
	delete(q.refused, id)
	delete(q.keys, id)
	delete(q.unread, id)
}

// full reports whether so many reads are scheduled that no further id of an unknown object is added.
func (q *queue) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.due) >= maxStrangers
}

// take returns up to limit objects that are due and removes them from the queue. Those that have
// waited longest come first.
func (q *queue) take(now time.Time, limit int) []uuid.UUID {
	type read struct {
		id uuid.UUID
		at time.Time
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var reads []read
	for id, at := range q.due {
		if !at.After(now) {
			reads = append(reads, read{id, at})
		}
	}
	slices.SortFunc(reads, func(a, b read) int { return cmp.Or(a.at.Compare(b.at), slices.Compare(a.id[:], b.id[:])) })
	reads = reads[:min(limit, len(reads))]
	ids := make([]uuid.UUID, len(reads))
	for i, read := range reads {
		ids[i] = read.id
		delete(q.due, read.id)
	}
	return ids
}

// next returns the time when the next object is due, or fallback if that is earlier.
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

// batch is a set of objects that are committed together. It holds the locks of their keys.
type batch[Item any] struct {
	feed      *feed[Item]
	unlocks   []func()
	proposals []records.Proposal
	// waiting holds the items of the proposals. done holds the items whose object is in the records.
	waiting, done []*seen[Item]
}

// lock takes the lock of an object's key and checks that the object is still up to date. It never
// waits: a client's write has priority. The error is ErrChanged then.
func (b *batch[Item]) lock(ctx context.Context, connection connections.Connection, s *seen[Item]) error {
	unlock, ok := b.feed.Store.TryLock(s.key)
	if !ok {
		return records.ErrChanged
	}
	if !b.feed.unchanged(s) {
		unlock()
		return records.ErrChanged
	}
	key := s.key
	err := b.feed.adopt(ctx, connection, s)
	if err == nil && s.key != key {
		err = fmt.Errorf("bug: the name of the %s %q changed with its own metadata", b.feed.kind(), s.object.GetName())
	}
	if err == nil {
		err = b.feed.keepGeneration(ctx, s)
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Could not store the metadata of an object", "kind", b.feed.kind(), "id", s.id)
		unlock()
		b.feed.unreadable(ctx, s.id, err)
		return err
	}
	b.unlocks = append(b.unlocks, unlock)
	return nil
}

// add proposes the object if it differs from the records, or to remove an abandoned claim: each replica that starts later
// would respect the claim again.
func (b *batch[Item]) add(s *seen[Item]) {
	if s.entry != nil && b.stays(s) && !b.feed.Store.Abandoned(s.key) {
		b.feed.queue.worked(b.feed.queue.refused, s.id)
		b.done = append(b.done, s)
		return
	}
	b.proposals = append(b.proposals, records.Proposal{Key: s.key, Expect: revisionOf(s.entry), Object: s.object, Natural: s.natural})
	b.waiting = append(b.waiting, s)
}

// stays reports whether the object in the records stays as it is. While Coder is unstable, the end of an outage alone is no
// change.
func (b *batch[Item]) stays(s *seen[Item]) bool {
	if same(s.entry, s.object, s.natural) {
		return true
	}
	p := b.feed.plane
	p.mu.Lock()
	recovered := !p.config.Clock.Now().Before(p.health.recovers())
	p.mu.Unlock()
	if recovered {
		return false
	}
	before := b.feed.Kind.Unrecovered(s.entry.Object, s.object)
	return before != nil && same(s.entry, before, s.natural)
}

// commit commits all proposals to the records.
func (b *batch[Item]) commit(ctx context.Context) error {
	unwritten, err := b.feed.propose(ctx, b.proposals...)
	for _, s := range b.waiting {
		if reason := cmp.Or(err, unwritten[s.key]); reason != nil {
			b.feed.again(ctx, s.id, s.key, reason)
		} else {
			b.feed.queue.worked(b.feed.queue.refused, s.id)
			b.done = append(b.done, s)
		}
	}
	if err != nil {
		return fmt.Errorf("committing %d objects of kind %s: %w", len(b.proposals), b.feed.kind(), err)
	}
	b.feed.plane.config.Metrics.commits.WithLabelValues(b.feed.kind()).Add(float64(len(b.proposals) - len(unwritten)))
	return nil
}
