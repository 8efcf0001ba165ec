package gate

import (
	"net/http"
	"runtime/debug"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// recovered turns a panic of an inner step into an answer, or cuts the connection
// where the answer has begun, so that nobody takes a part for the whole. The tools
// run on goroutines of their own and are guarded again in the protocol.
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
