package gate

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

func listen(r *http.Request) {
	r.Header.Set(versionHeader, "2026-07-28")
	r.Header.Set(methodHeader, methodListen)
}

func get(r *http.Request) { r.Method = http.MethodGet }

// busy holds n requests inside of the gate, each of another user, until leave is called.
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
	w := newWorld(func(c *Config) { c.Limits.InFlight = 3 })
	free := w.handler(func(http.ResponseWriter, *http.Request) {})
	leave := busy(w.handler, 3, nil)
	answered := ask(free, nil)
	if answered.Code != http.StatusServiceUnavailable || answered.Header().Get("Retry-After") != "1" {
		t.Errorf("the fourth gets %d with Retry-After %q, want 503 with 1", answered.Code, answered.Header().Get("Retry-After"))
	}
	if stranger := ask(free, func(r *http.Request) { r.Header.Del("Authorization") }); stranger.Code != http.StatusServiceUnavailable {
		t.Errorf("a stranger gets %d while the server is busy, want 503", stranger.Code)
	}
	if got := w.counts.inWork(); got != 3 {
		t.Errorf("%d are counted, want 3", got)
	}
	leave()
	if answered := ask(free, nil); answered.Code != http.StatusOK || w.counts.inWork() != 0 {
		t.Errorf("when all left, the answer is %d and %d are counted", answered.Code, w.counts.inWork())
	}
}

func TestOpenStreamsTakeNoPlace(t *testing.T) {
	for name, kind := range map[string]func(*http.Request){"GET": get, "subscriptions/listen": listen} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(func(c *Config) { c.Limits.InFlight = 2 })
			leave := busy(w.handler, 5, kind)
			defer leave()
			if answered := ask(w.handler(func(http.ResponseWriter, *http.Request) {}), nil); answered.Code != http.StatusOK {
				t.Errorf("with open streams a call gets %d", answered.Code)
			}
			if got := w.counts.inWork(); got != 0 {
				t.Errorf("%d are counted in flight, want 0", got)
			}
		})
	}
}

// Many such bodies could be read concurrently, because streams do not occupy places.
func TestWhatAsksForAStreamIsSmall(t *testing.T) {
	w := newWorld()
	var read int64
	var failed error
	handler := w.handler(func(_ http.ResponseWriter, r *http.Request) { read, failed = io.Copy(io.Discard, r.Body) })
	body := strings.Repeat(" ", maxStreamBodyBytes+1)
	with := func(change func(*http.Request)) func(*http.Request) {
		return func(r *http.Request) { change(r); r.Body = io.NopCloser(strings.NewReader(body)) }
	}
	ask(handler, with(listen))
	var tooLarge *http.MaxBytesError
	if !errors.As(failed, &tooLarge) || read != maxStreamBodyBytes {
		t.Errorf("of a stream's body %d bytes are read: %v", read, failed)
	}
	ask(handler, with(func(*http.Request) {}))
	if failed != nil || read != int64(len(body)) {
		t.Errorf("of a call's body %d bytes are read: %v", read, failed)
	}
}

func TestWhoOnlySaysThatItIsAStreamTakesAPlace(t *testing.T) {
	w := newWorld(func(c *Config) { c.Limits.InFlight = 1 })
	// For older protocol revisions, nothing checks this header.
	leave := busy(w.handler, 1, func(r *http.Request) { r.Header.Set(methodHeader, methodListen) })
	defer leave()
	if answered := ask(w.handler(func(http.ResponseWriter, *http.Request) {}), nil); answered.Code != http.StatusServiceUnavailable {
		t.Errorf("the answer is %d, want 503", answered.Code)
	}
}

func TestNoLimitOfRequestsInFlight(t *testing.T) {
	w := newWorld()
	leave := busy(w.handler, 20, nil)
	defer leave()
	if got := w.counts.inWork(); got != 20 {
		t.Errorf("%d are counted, want 20", got)
	}
}
