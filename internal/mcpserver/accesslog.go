package mcpserver

import (
	"context"
	"net/http"
	"runtime/debug"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/requestid"
	"github.com/coder-k8s/coder-k8s/internal/truncate"
)

// requestRecord contains the data of one request for the access log. Inner handlers fill it in.
type requestRecord struct {
	user string
	// leave releases the request's place among those in flight.
	leave func()
}

type requestRecordKey struct{}

func requestRecordOf(ctx context.Context) *requestRecord {
	if rec, ok := ctx.Value(requestRecordKey{}).(*requestRecord); ok {
		return rec
	}
	return &requestRecord{}
}

// noteUser sets the user of a request for the access log.
func noteUser(ctx context.Context, name string) { requestRecordOf(ctx).user = name }

// logged adds a request ID and a logger to the request, and the ID to the response. It logs
// each request. It logs neither headers nor the query, because both may contain a token.
func logged(cfg MiddlewareConfig, newID func() string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, rec := newID(), &requestRecord{}
		logger := cfg.Logger.WithValues(requestid.LogKey, id)
		ctx := context.WithValue(r.Context(), requestRecordKey{}, rec)
		r = r.WithContext(log.IntoContext(ctx, logger))
		r.Header.Set(requestid.Header, id)
		a := newResponseWriter(w)
		a.Header().Set(requestid.Header, id)
		// Proxies must not buffer a stream.
		a.Header().Set("X-Accel-Buffering", "no")

		start := cfg.Clock.Now()
		defer func() {
			status := a.end()
			cfg.Metrics.Answered(r.Method, status)
			level := 1
			if status >= http.StatusBadRequest {
				level = 0
			}
			logger.V(level).Info("Answered a request", "method", cut(r.Method), "path", cut(r.URL.Path),
				"status", status, "user", rec.user, "durationMs", cfg.Clock.Since(start).Milliseconds())
		}()
		next.ServeHTTP(a, r)
	})
}

// maxLogged limits the size of a client's text in one value of a log line, in bytes.
const maxLogged = 256 + len(truncate.Ellipsis)

func cut(s string) string { return truncate.String(s, maxLogged) }

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
			if a, ok := w.(*responseWriter); ok && a.begun() {
				panic(http.ErrAbortHandler)
			}
			http.Error(w, "internal error; the log of the server has the details", http.StatusInternalServerError)
		}()
		next.ServeHTTP(w, r)
	})
}
