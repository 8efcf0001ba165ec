package gate

import (
	"context"
	"net/http"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/requestid"
)

// record contains the data of one request for the access log. Inner handlers fill it in.
type record struct {
	user string
	// leave releases the request's place among those in flight.
	leave func()
}

type recordKey struct{}

func recordOf(ctx context.Context) *record {
	if rec, ok := ctx.Value(recordKey{}).(*record); ok {
		return rec
	}
	return &record{}
}

// NoteUser sets the user of a request for the access log.
func NoteUser(ctx context.Context, name string) { recordOf(ctx).user = name }

// logged adds a request ID and a logger to the request, and the ID to the response. It logs
// each request. It logs neither headers nor the query, because both may contain a token.
func logged(cfg Config, newID func() string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, rec := newID(), &record{}
		logger := cfg.Logger.WithValues(requestid.LogKey, id)
		ctx := context.WithValue(r.Context(), recordKey{}, rec)
		r = r.WithContext(log.IntoContext(ctx, logger))
		r.Header.Set(requestid.Header, id)
		a := newAnswer(w)
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
const maxLogged = 256

func cut(s string) string {
	if len(s) <= maxLogged {
		return s
	}
	return strings.ToValidUTF8(s[:maxLogged], "") + "…"
}
