package gate

import (
	"context"
	"net/http"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/requestid"
)

// record is what is known about one request. The inner steps fill in what they
// learn.
type record struct {
	user string
	// leave gives the request's place among those in flight back.
	leave func()
}

type recordKey struct{}

func recordOf(ctx context.Context) *record {
	if rec, ok := ctx.Value(recordKey{}).(*record); ok {
		return rec
	}
	return &record{}
}

// NoteUser tells the access log whose request it is.
func NoteUser(ctx context.Context, name string) { recordOf(ctx).user = name }

// logged gives the request an id, to the client and to the steps within, and a logger and writes one line about it. No
// header and no query is logged, because both may hold a token.
func logged(cfg Config, newID func() string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, rec := newID(), &record{}
		logger := cfg.Logger.WithValues(requestid.LogKey, id)
		ctx := context.WithValue(r.Context(), recordKey{}, rec)
		r = r.WithContext(log.IntoContext(ctx, logger))
		r.Header.Set(requestid.Header, id)
		a := newAnswer(w)
		a.Header().Set(requestid.Header, id)
		// Proxies must pass the parts of a stream on as they come.
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

// maxLogged bounds what a stranger can put into one value of a log line, in bytes.
const maxLogged = 256

func cut(s string) string {
	if len(s) <= maxLogged {
		return s
	}
	return strings.ToValidUTF8(s[:maxLogged], "") + "…"
}
