package mcpserver

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func as(name string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+name) }
}

func TestEachUserHasARate(t *testing.T) {
	w := newWorld(func(c *MiddlewareConfig) { c.Options.RateLimit, c.Options.RateBurst = 2, 3 })
	handler := w.handler(func(http.ResponseWriter, *http.Request) {})
	for i := range 3 {
		if answered := ask(handler, as("alice")); answered.Code != http.StatusOK {
			t.Fatalf("request %d of the burst gets %d", i, answered.Code)
		}
	}
	answered := ask(handler, as("alice"))
	if answered.Code != http.StatusTooManyRequests || answered.Header().Get("Retry-After") != "1" ||
		!strings.Contains(answered.Body.String(), `user "alice" makes too many requests: 2 a second are allowed; try again in 1 s`) {
		t.Errorf("above the burst the answer is %d %q, Retry-After %q", answered.Code, answered.Body, answered.Header().Get("Retry-After"))
	}
	if answered := ask(handler, as("bob")); answered.Code != http.StatusOK {
		t.Errorf("another user gets %d", answered.Code)
	}
	if got := testutil.ToFloat64(w.metrics.RateLimited); got != 1 {
		t.Errorf("%g are counted, want 1", got)
	}
	// A rejected request does not count against the rate limit.
	w.clock.SetTime(w.clock.Now().Add(500 * time.Millisecond))
	if answered := ask(handler, as("alice")); answered.Code != http.StatusOK {
		t.Errorf("after half a second the answer is %d", answered.Code)
	}
}

func TestTheTimeToWaitIsRight(t *testing.T) {
	w := newWorld(func(c *MiddlewareConfig) { c.Options.RateLimit, c.Options.RateBurst = 0.1, 1 })
	handler := w.handler(func(http.ResponseWriter, *http.Request) {})
	ask(handler, nil)
	if got := ask(handler, nil).Header().Get("Retry-After"); got != "10" {
		t.Fatalf("Retry-After is %q, want 10", got)
	}
	w.clock.SetTime(w.clock.Now().Add(10 * time.Second))
	if answered := ask(handler, nil); answered.Code != http.StatusOK {
		t.Errorf("after that time the answer is %d", answered.Code)
	}
}

func TestARateOfNoneIsOff(t *testing.T) {
	w := newWorld(func(c *MiddlewareConfig) { c.Options.RateBurst = 1 })
	handler := w.handler(func(http.ResponseWriter, *http.Request) {})
	for range 100 {
		if answered := ask(handler, nil); answered.Code != http.StatusOK {
			t.Fatalf("the answer is %d", answered.Code)
		}
	}
}

func TestUsersTakeBoundedMemory(t *testing.T) {
	u := newWorld(func(c *MiddlewareConfig) { c.Options.RateLimit, c.Options.RateBurst = 1, 1 }).middleware.users
	for i := range 2 * maxUsers {
		u.take(fmt.Sprint("user-", i))
	}
	if got := u.buckets.Len(); got != maxUsers {
		t.Errorf("%d users are kept, want %d", got, maxUsers)
	}
	if u.take(fmt.Sprint("user-", 2*maxUsers-1)) == 0 {
		t.Error("the newest user was forgotten")
	}
}

func TestOneUserCannotTakeAllPlaces(t *testing.T) {
	w := newWorld(func(c *MiddlewareConfig) { c.Options.MaxInFlight = 8 })
	free := w.handler(func(http.ResponseWriter, *http.Request) {})
	leave := busy(w.handler, 2, as("alice"))
	answered := ask(free, as("alice"))
	if answered.Code != http.StatusTooManyRequests || !strings.Contains(answered.Body.String(), `user "alice" already has 2 calls in progress, which is the maximum`) {
		t.Errorf("the third call of a user gets %d %q", answered.Code, answered.Body)
	}
	if answered := ask(free, as("bob")); answered.Code != http.StatusOK {
		t.Errorf("another user gets %d", answered.Code)
	}
	leave()
	if answered := ask(free, as("alice")); answered.Code != http.StatusOK {
		t.Errorf("when the calls ended, the answer is %d", answered.Code)
	}
	if left := w.middleware.users.calls.Total(); left != 0 {
		t.Errorf("%d calls that ended are counted", left)
	}
}

// busy holds n requests inside of the middleware, each of another user, until leave is called.
// change modifies the requests.
func busy(handler func(next http.HandlerFunc) http.Handler, n int, change func(*http.Request)) (leave func()) {
	var inside, ended sync.WaitGroup
	open := make(chan struct{})
	held := handler(func(http.ResponseWriter, *http.Request) {
		inside.Done()
		<-open
	})
	inside.Add(n)
	for i := range n {
		ended.Go(func() {
			ask(held, func(r *http.Request) {
				r.Header.Set("Authorization", "Bearer user-"+string(rune('a'+i)))
				if change != nil {
					change(r)
				}
			})
		})
	}
	inside.Wait()
	return func() { close(open); ended.Wait() }
}

func TestRequestsInFlightHaveALimit(t *testing.T) {
	w := newWorld(func(c *MiddlewareConfig) { c.Options.MaxInFlight = 3 })
	free := w.handler(func(http.ResponseWriter, *http.Request) {})
	leave := busy(w.handler, 3, nil)
	answered := ask(free, nil)
	if answered.Code != http.StatusServiceUnavailable || answered.Header().Get("Retry-After") != "1" {
		t.Errorf("the fourth gets %d with Retry-After %q, want 503 with 1", answered.Code, answered.Header().Get("Retry-After"))
	}
	if stranger := ask(free, func(r *http.Request) { r.Header.Del("Authorization") }); stranger.Code != http.StatusServiceUnavailable {
		t.Errorf("a stranger gets %d while the server is busy, want 503", stranger.Code)
	}
	if got := w.inFlight(); got != 3 {
		t.Errorf("%d are counted, want 3", got)
	}
	leave()
	if answered := ask(free, nil); answered.Code != http.StatusOK || w.inFlight() != 0 {
		t.Errorf("when all left, the answer is %d and %d are counted", answered.Code, w.inFlight())
	}
}

func TestNoLimitOfRequestsInFlight(t *testing.T) {
	w := newWorld()
	leave := busy(w.handler, 20, nil)
	defer leave()
	if got := w.inFlight(); got != 20 {
		t.Errorf("%d are counted, want 20", got)
	}
}
