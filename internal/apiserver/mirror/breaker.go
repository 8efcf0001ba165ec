package mirror

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// fewDeletions is the number of deletions that are always admitted at once.
	fewDeletions = 1
	// More than manyDeletions, or more than one in partDeletions of the known objects, must be
	// confirmed.
	manyDeletions = 50
	partDeletions = 5
	// deletionWindow is the period over which deletions are counted together.
	deletionWindow = 10 * time.Minute
)

// breaker holds back deletions if there are too many at once. A deletion that it holds back must be
// proven again after confirmAfter.
type breaker struct {
	confirmAfter time.Duration

	mu sync.Mutex
	// suspects maps an object to the time at which it was first found to be gone.
	suspects map[uuid.UUID]time.Time
	// done holds the times of the unexpected deletions that were admitted.
	done []time.Time
}

func newBreaker(confirmAfter time.Duration) *breaker {
	return &breaker{confirmAfter: confirmAfter, suspects: map[uuid.UUID]time.Time{}}
}

// admit takes the ids of deletions that were just proven and that were not announced. known is the
// number of known objects. It returns the deletions that are admitted, the ones that are held back,
// and the time at which these must be proven again.
func (b *breaker) admit(now time.Time, ids []uuid.UUID, known int) (allowed, held []uuid.UUID, again time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expireLocked(now)
	again = now.Add(b.confirmAfter)
	var fresh []uuid.UUID
	for _, id := range ids {
		first, suspect := b.suspects[id]
		switch {
		case !suspect:
			fresh = append(fresh, id)
		case now.Sub(first) >= b.confirmAfter:
			delete(b.suspects, id)
			allowed = append(allowed, id)
		default:
			held = append(held, id)
			if at := first.Add(b.confirmAfter); at.Before(again) {
				again = at
			}
		}
	}
	total := len(fresh) + len(b.done)
	if len(b.suspects) > 0 || total > fewDeletions && (total > manyDeletions || total*partDeletions > known+len(b.done)) {
		for _, id := range fresh {
			b.suspects[id] = now
		}
		return allowed, append(held, fresh...), again
	}
	for range fresh {
		b.done = append(b.done, now)
	}
	return append(allowed, fresh...), held, again
}

func (b *breaker) expireLocked(now time.Time) {
	for len(b.done) > 0 && now.Sub(b.done[0]) >= deletionWindow {
		b.done = b.done[1:]
	}
}

// acquit removes an object from the suspects, because it exists or was deleted in another way.
func (b *breaker) acquit(id uuid.UUID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.suspects, id)
}

// held returns the number of deletions that are held back.
func (b *breaker) held() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.suspects)
}
