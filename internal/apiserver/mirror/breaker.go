package mirror

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// fewDeletions are believed at once, whatever part of all they are.
	fewDeletions = 1
	// manyDeletions, or more than one in partDeletions, are looked at again.
	manyDeletions = 50
	partDeletions = 5
	// deletionWindow is the time in which deletions count together.
	deletionWindow = 10 * time.Minute
)

// breaker holds deletions back that are too many to be believed at once. Those
// that it holds must be proven a second time, some time later.
type breaker struct {
	confirmAfter time.Duration

	mu sync.Mutex
	// suspects is when an object was first found to be gone.
	suspects map[uuid.UUID]time.Time
	// done is when unexpected deletions were let through.
	done []time.Time
}

func newBreaker(confirmAfter time.Duration) *breaker {
	return &breaker{confirmAfter: confirmAfter, suspects: map[uuid.UUID]time.Time{}}
}

// admit takes deletions that were just proven and that nobody announced, of so many
// known objects. It gives those that may happen, and those that must be proven again
// at the given time.
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

// acquit takes note that an object is there, or that it went in another way.
func (b *breaker) acquit(id uuid.UUID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.suspects, id)
}

// held is how many deletions are held back.
func (b *breaker) held() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.suspects)
}
