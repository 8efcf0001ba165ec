package gate

import (
	"net/http"
	"runtime/debug"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// recovered responds with 500 after a panic of an inner handler. If the response has begun,
// it closes the connection instead, so that the client does not take a part for the whole.
// Tools run on other goroutines; package protocol recovers from their panics.
func recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares the panic value itself.
				panic(p)
			}
			log.FromContext(r.Context()).Error(nil, "Recovered from a panic in an HTTP handler", "panic", p, "stack", string(debug.Stack()))
			if a, ok := w.(*answer); ok && a.begun() {
				panic(http.ErrAbortHandler)
			}
			http.Error(w, "internal error; the log of the server has the details", http.StatusInternalServerError)
		}()
		next.ServeHTTP(w, r)
	})
}
