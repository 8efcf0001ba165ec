package replication

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// revisions is a hybrid clock: microseconds where the clock runs on, counted up
// where it stands still or goes back.
type revisions struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	last uint64
	// ceiling is up to where the Lease reserves numbers.
	ceiling uint64
}

// Next gives a number greater than head and than all that were given before. The
// clock alone never carries it above the reserve: where the clock jumps ahead, the
// numbers follow with the next renewal of the Lease.
func (r *revisions) Next(head uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = max(r.last+1, head+1, min(micros(r.clock.Now()), r.ceiling))
	return r.last
}

// reached gives a number that none that was given exceeds.
func (r *revisions) reached() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// atLeast makes what is given from now on greater than floor.
func (r *revisions) atLeast(floor uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = max(r.last, floor)
}

// reserve tells up to where the Lease reserves.
func (r *revisions) reserve(ceiling uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ceiling = ceiling
}

// micros gives a time as a revision, 0 where it lies before 1970.
func micros(t time.Time) uint64 { return uint64(max(t.UnixMicro(), 0)) }
