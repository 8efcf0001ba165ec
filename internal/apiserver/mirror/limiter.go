package mirror

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

const (
	// slowest is the minimum rate after failures, in requests per second.
	slowest = 0.5
	// firstBackoff is the delay after the first failure. It doubles with each further one, up to
	// lastBackoff.
	firstBackoff = 250 * time.Millisecond
	lastBackoff  = 5 * time.Second
	// longestWait is the longest time that Coder, or a proxy in front of it, can ask to wait. The
	// page of a proxy during maintenance may ask for a day, and Coder be back after a minute.
	longestWait = time.Minute
)

// limiter limits the rate of requests to one Coder. It halves the rate when Coder limits requests
// or cannot be reached, and raises it slowly after successes.
type limiter struct {
	clock  clock.WithTicker
	jitter func() float64
	max    float64

	mu     sync.Mutex
	rate   float64
	tokens float64
	filled time.Time
	// blocked is the time before which no request is sent.
	blocked time.Time
	// failures counts consecutive failures.
	failures int
}

func newLimiter(c clock.WithTicker, jitter func() float64, rate float64) *limiter {
	return &limiter{clock: c, jitter: jitter, max: rate, rate: rate, tokens: rate, filled: c.Now()}
}

// wait waits until a request may be sent.
func (l *limiter) wait(ctx context.Context) error {
	for {
		delay := l.reserve(l.clock.Now())
		if delay <= 0 {
			return ctx.Err()
		}
		timer := l.clock.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C():
		}
	}
}

// reserve takes a token, or returns the delay before the next attempt.
func (l *limiter) reserve(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.blocked) {
		return l.blocked.Sub(now)
	}
	if elapsed := now.Sub(l.filled).Seconds(); elapsed > 0 {
		l.tokens = min(max(l.rate, 1), l.tokens+elapsed*l.rate)
		l.filled = now
	}
	if l.tokens >= 1 {
		l.tokens--
		return 0
	}
	return max(time.Millisecond, time.Duration((1-l.tokens)/l.rate*float64(time.Second)))
}

// note adapts the rate to the result of a request.
func (l *limiter) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case coderd.IsTooLarge(err):
		// Coder is not overloaded. A smaller request follows.
	case coderd.IsRateLimited(err), coderd.IsUnreachable(err):
		l.failures++
		l.rate = max(slowest, l.rate/2)
		l.tokens = min(l.tokens, 1)
		backoff := lastBackoff
		if l.failures < 8 {
			backoff = min(lastBackoff, firstBackoff<<(l.failures-1))
		}
		// A random delay between half of and the full exponential delay.
		backoff = backoff/2 + time.Duration(l.jitter()*float64(backoff/2))
		delay := max(backoff, min(coderd.RetryAfter(err), longestWait))
		if until := l.clock.Now().Add(delay); until.After(l.blocked) {
			l.blocked = until
		}
	default:
		l.failures = 0
		l.rate = min(l.max, l.rate+l.max/20)
	}
}

// reset resets the backoff for a new connection.
func (l *limiter) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures, l.blocked = 0, time.Time{}
}

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

// admit takes the ids of deletions that were just proven and that were not announced. known is the
// number of known objects. It returns the deletions that are admitted, the ones that are held back,
// and the time at which these must be proven again.
func (b *breaker) admit(now time.Time, ids []uuid.UUID, known int) (allowed, held []uuid.UUID, again time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.done) > 0 && now.Sub(b.done[0]) >= deletionWindow {
		b.done = b.done[1:]
	}
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

// clear removes an object from the suspects, because it exists or was deleted in another way.
func (b *breaker) clear(id uuid.UUID) {
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
