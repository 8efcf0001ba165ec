package mirror

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

func TestLimiter(t *testing.T) {
	start := time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	c := simClock{clocktesting.NewFakeClock(start)}
	l := newLimiter(c, func() float64 { return 1 }, 6)
	for range 60 {
		if err := l.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.note(nil)
	}
	if took := c.Since(start); took < 8900*time.Millisecond || took > 9200*time.Millisecond {
		t.Errorf("60 requests took %v", took)
	}
	next := func() time.Duration {
		began := c.Now()
		if err := l.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		return c.Since(began)
	}
	l.note(&coderd.Error{StatusCode: 429, RetryAfter: 7 * time.Second})
	if d := next(); d < 7*time.Second || d > 8*time.Second {
		t.Errorf("after Retry-After of 7s the next request waits %v", d)
	}
	l.note(&coderd.Error{StatusCode: 503, RetryAfter: 24 * time.Hour})
	if d := next(); d < time.Minute || d > 2*time.Minute {
		t.Errorf("after Retry-After of a day the next request waits %v", d)
	}
	last := time.Duration(0)
	for range 10 {
		l.note(&coderd.Error{StatusCode: 503})
		if d := next(); d < min(last, 2*time.Second) || d > 6*time.Second {
			t.Errorf("the next request waits %v after %v", d, last)
		} else {
			last = d
		}
	}
	l.note(nil)
	for range 200 {
		next()
		l.note(nil)
	}
	began := c.Now()
	for range 60 {
		next()
	}
	if took := c.Since(began); took > 11*time.Second {
		t.Errorf("it did not recover: 60 requests take %v", took)
	}
}
