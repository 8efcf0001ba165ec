package mirror

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

const (
	// slowest is the rate to which trouble brings a limiter at most.
	slowest = 0.5
	// firstBackoff doubles with each failure in a row, up to lastBackoff.
	firstBackoff = 250 * time.Millisecond
	lastBackoff  = 5 * time.Second
)

// limiter paces the requests to one Coder: not more than a rate, less when Coder
// asks for it or is in trouble, slowly more again afterwards.
type limiter struct {
	clock  clock.WithTicker
	jitter func() float64
	max    float64

	mu     sync.Mutex
	rate   float64
	tokens float64
	filled time.Time
	// blocked is before when nothing is sent.
	blocked time.Time
	// failures are those in a row.
	failures int
}

func newLimiter(c clock.WithTicker, jitter func() float64, rate float64) *limiter {
	return &limiter{clock: c, jitter: jitter, max: rate, rate: rate, tokens: rate, filled: c.Now()}
}

// wait returns when a request may be sent.
func (l *limiter) wait(ctx context.Context) error {
	for {
		delay := l.reserve(l.clock.Now())
		if delay <= 0 {
			return ctx.Err()
		}
		if err := sleep(ctx, l.clock, delay); err != nil {
			return err
		}
	}
}

// reserve takes a token, or says after when to ask again.
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

// note takes in how a request ended.
func (l *limiter) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case coderd.IsRateLimited(err), coderd.IsUnreachable(err):
		l.failures++
		l.rate = max(slowest, l.rate/2)
		l.tokens = min(l.tokens, 1)
		delay := max(l.backoff(), coderd.RetryAfter(err))
		if until := l.clock.Now().Add(delay); until.After(l.blocked) {
			l.blocked = until
		}
	default:
		l.failures = 0
		l.rate = min(l.max, l.rate+l.max/20)
	}
}

// backoff is between half of and the whole exponential delay.
func (l *limiter) backoff() time.Duration {
	delay := lastBackoff
	if l.failures < 8 {
		delay = min(lastBackoff, firstBackoff<<(l.failures-1))
	}
	return delay/2 + time.Duration(l.jitter()*float64(delay/2))
}

// reset forgets the trouble, for another connection.
func (l *limiter) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures, l.blocked = 0, time.Time{}
}

// sleep waits on a clock.
func sleep(ctx context.Context, c clock.WithTicker, d time.Duration) error {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C():
		return nil
	}
}
