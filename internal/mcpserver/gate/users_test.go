package gate

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func as(name string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+name) }
}

func TestEachUserHasARate(t *testing.T) {
	w := newWorld(func(c *Config) { c.Limits.RatePerUser, c.Limits.Burst = 2, 3 })
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
	if w.counts.rateLimited != 1 {
		t.Errorf("%d are counted, want 1", w.counts.rateLimited)
	}
	// A rejected request does not count against the rate limit.
	w.clock.SetTime(w.clock.Now().Add(500 * time.Millisecond))
	if answered := ask(handler, as("alice")); answered.Code != http.StatusOK {
		t.Errorf("after half a second the answer is %d", answered.Code)
	}
}

func TestTheTimeToWaitIsRight(t *testing.T) {
	w := newWorld(func(c *Config) { c.Limits.RatePerUser, c.Limits.Burst = 0.1, 1 })
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
	w := newWorld(func(c *Config) { c.Limits.Burst = 1 })
	handler := w.handler(func(http.ResponseWriter, *http.Request) {})
	for range 100 {
		if answered := ask(handler, nil); answered.Code != http.StatusOK {
			t.Fatalf("the answer is %d", answered.Code)
		}
	}
}

func TestUsersTakeBoundedMemory(t *testing.T) {
	u := newUsers(Limits{RatePerUser: 1, Burst: 1}, &counts{}, newWorld().clock)
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
	w := newWorld(func(c *Config) { c.Limits.InFlight = 8 })
	free := w.handler(func(http.ResponseWriter, *http.Request) {})
	leave := busy(w.handler, 2, as("alice"))
	answered := ask(free, as("alice"))
	if answered.Code != http.StatusTooManyRequests || !strings.Contains(answered.Body.String(), `user "alice" has 2 calls`) {
		t.Errorf("the third call of a user gets %d %q", answered.Code, answered.Body)
	}
	if answered := ask(free, as("bob")); answered.Code != http.StatusOK {
		t.Errorf("another user gets %d", answered.Code)
	}
	leave()
	if answered := ask(free, as("alice")); answered.Code != http.StatusOK {
		t.Errorf("when the calls ended, the answer is %d", answered.Code)
	}
	if left := w.gate.users.calls.Of("alice"); left != 0 {
		t.Errorf("%d calls that ended are counted", left)
	}
}
