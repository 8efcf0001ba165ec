package gate

import (
	"net/http"
	"sync"
)

// The header values that identify a stream of revision 2026-07-28. The SDK rejects a
// request whose body does not match its headers.
const (
	versionHeader    = "Mcp-Protocol-Version"
	methodHeader     = "Mcp-Method"
	firstOfModernEra = "2026-07-28"
	methodListen     = "subscriptions/listen"
)

// inFlight limits the number of concurrent requests, including unauthenticated ones,
// because checking their tokens takes resources too.
type inFlight struct {
	places  chan struct{}
	metrics Metrics
}

func newInFlight(limit int, metrics Metrics) *inFlight {
	f := &inFlight{metrics: metrics}
	if limit > 0 {
		f.places = make(chan struct{}, limit)
	}
	return f
}

func (f *inFlight) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !f.enter() {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "the server is busy with other requests; try again in a second", http.StatusServiceUnavailable)
			return
		}
		leave := sync.OnceFunc(f.leave)
		defer leave()
		recordOf(r.Context()).leave = leave
		next.ServeHTTP(w, r)
	})
}

func (f *inFlight) enter() bool {
	if f.places != nil {
		select {
		case f.places <- struct{}{}:
		default:
			return false
		}
	}
	f.metrics.AddInFlight(1)
	return true
}

func (f *inFlight) leave() {
	f.metrics.AddInFlight(-1)
	if f.places != nil {
		<-f.places
	}
}

// isStream reports whether the request opens a stream. A stream stays open for as long as
// the client wants, does no work meanwhile, and is counted by package protocol.
func isStream(r *http.Request) bool {
	return r.Method == http.MethodGet ||
		(r.Header.Get(versionHeader) >= firstOfModernEra && r.Header.Get(methodHeader) == methodListen)
}
