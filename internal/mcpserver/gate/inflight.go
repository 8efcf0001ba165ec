package gate

import (
	"net/http"
	"sync"
)

// The header values by which a stream of the protocol 2026-07-28 is known. The SDK
// refuses a request whose body says otherwise.
const (
	versionHeader    = "Mcp-Protocol-Version"
	methodHeader     = "Mcp-Method"
	firstOfModernEra = "2026-07-28"
	methodListen     = "subscriptions/listen"
)

// inFlight bounds how many requests are in work at once, those of strangers
// included, whose tokens take work too.
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

// isStream says whether the request is for a stream, which stays open as long as
// the client likes, does no work meanwhile, and is counted by the protocol.
func isStream(r *http.Request) bool {
	return r.Method == http.MethodGet ||
		(r.Header.Get(versionHeader) >= firstOfModernEra && r.Header.Get(methodHeader) == methodListen)
}
