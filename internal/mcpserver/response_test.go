package mcpserver

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/protocol"
)

const event = "event: message\ndata: {}\n\n"

func stream(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
}

// waited returns the body of a response after these writes.
func waited(handler func(w http.ResponseWriter)) string {
	recorder := httptest.NewRecorder()
	a := newResponseWriter(recorder)
	handler(a)
	a.end()
	return recorder.Body.String()
}

func TestSilentStreamsAreKeptAlive(t *testing.T) {
	pause := func(d time.Duration) { <-time.After(d) }
	tests := map[string]struct {
		handler func(w http.ResponseWriter)
		want    string
	}{
		"for as long as it is silent": {func(w http.ResponseWriter) {
			stream(w)
			pause(46 * time.Second)
		}, strings.Repeat(keepAlive, 3)},
		"a type with a charset": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			w.WriteHeader(http.StatusOK)
			pause(16 * time.Second)
		}, keepAlive},
		"a stream that begins with an event": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, event)
			pause(31 * time.Second)
		}, event + keepAlive},
		"a stream that begins with a flush": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			pause(16 * time.Second)
		}, keepAlive},
		"not while it speaks": {func(w http.ResponseWriter) {
			stream(w)
			for range 5 {
				pause(10 * time.Second)
				fmt.Fprint(w, event)
			}
		}, strings.Repeat(event, 5)},
		"not before it begins": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			pause(time.Minute)
		}, ""},
		"before its first event, if it is kept open": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			end := w.(protocol.StreamKeeper).KeepOpen()
			pause(46 * time.Second)
			end()
			fmt.Fprint(w, event)
		}, strings.Repeat(keepAlive, 3) + event},
		"not after the end of that": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(protocol.StreamKeeper).KeepOpen()()
			pause(time.Minute)
		}, ""},
		"not an answer of another type": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{")
			pause(time.Minute)
		}, "{"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := waited(tc.handler); got != tc.want {
					t.Errorf("the stream has %q, want %q", got, tc.want)
				}
			})
		})
	}
}

func TestNothingIsWrittenAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := httptest.NewRecorder()
		a := newResponseWriter(recorder)
		stream(a)
		a.end()
		<-time.After(time.Hour)
		if got := recorder.Body.String(); got != "" {
			t.Errorf("net/http has the response back, and %q was written", got)
		}
	})
}

// broken is a connection whose client has disconnected.
type broken struct {
	*httptest.ResponseRecorder
	writes int
}

func (b *broken) Write([]byte) (int, error) {
	b.writes++
	return 0, errors.New("broken pipe")
}

func TestAClientThatIsGoneIsNotKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &broken{ResponseRecorder: httptest.NewRecorder()}
		a := newResponseWriter(w)
		stream(a)
		<-time.After(time.Hour)
		a.end()
		if w.writes != 1 {
			t.Errorf("wrote %d times to a client that is gone", w.writes)
		}
	})
}

// torn detects concurrent writes to a response.
type torn struct {
	*httptest.ResponseRecorder
	inside bool
	twice  bool
}

func (o *torn) Write(p []byte) (int, error) {
	if o.inside {
		o.twice = true
	}
	o.inside = true
	runtime.Gosched()
	o.inside = false
	return o.ResponseRecorder.Write(p)
}

func TestCommentsStandBetweenEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &torn{ResponseRecorder: httptest.NewRecorder()}
		a := newResponseWriter(w)
		stream(a)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for range 20 {
					<-time.After(keepAliveInterval)
					fmt.Fprint(a, event)
					_ = http.NewResponseController(a).Flush()
					<-time.After(2 * keepAliveInterval)
				}
			})
		}
		group.Wait()
		a.end()
		body := w.Body.String()
		rest := strings.ReplaceAll(strings.ReplaceAll(body, event, ""), keepAlive, "")
		if w.twice || rest != "" || !strings.Contains(body, keepAlive) {
			t.Errorf("two wrote at once: %v; the stream has, besides events and comments, %q", w.twice, rest)
		}
	})
}

func TestEachWriteHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		a := newResponseWriter(w)
		stream(a)
		for range 3 {
			<-time.After(time.Minute)
			fmt.Fprint(a, event)
			if last := w.lastWrite(); time.Until(last) != writeTimeout {
				t.Errorf("a write may take %s, want %s", time.Until(last), writeTimeout)
			}
		}
		a.end()
	})
}

func TestTheStatusIsRemembered(t *testing.T) {
	tests := map[string]struct {
		handler func(w http.ResponseWriter)
		want    int
	}{
		"none":             {func(http.ResponseWriter) {}, http.StatusOK},
		"a body alone":     {func(w http.ResponseWriter) { fmt.Fprint(w, "x") }, http.StatusOK},
		"one":              {func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) }, http.StatusAccepted},
		"an interim first": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints); w.WriteHeader(http.StatusTeapot) }, http.StatusTeapot},
		"the first of two": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot); w.WriteHeader(http.StatusOK) }, http.StatusTeapot},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := newResponseWriter(httptest.NewRecorder())
			tc.handler(a)
			if got := a.end(); got != tc.want {
				t.Errorf("the status is %d, want %d", got, tc.want)
			}
		})
	}
}
