package mcpserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// MiddlewareConfig configures a Middleware.
type MiddlewareConfig struct {
	Limits RequestLimits
	// Names are the host names and origins that clients use.
	Names AllowedNames
	// Authenticate accepts only authenticated callers with permission to use the server,
	// and adds the caller to the request's context (request.WithUser). It calls noteUser,
	// also for rejected callers.
	Authenticate func(http.Handler) http.Handler
	Metrics      requestMetrics
	Clock        clock.PassiveClock
	Logger       logr.Logger
}

// RequestLimits limit the load that clients can cause. Zero means no limit.
type RequestLimits struct {
	// RatePerUser is the number of requests per second for each user, and Burst is the
	// maximum number of requests at once.
	RatePerUser float64
	Burst       int
	// InFlight is the maximum number of concurrent requests, without open streams. One user
	// may have a quarter of it.
	InFlight int
}

// requestMetrics counts requests.
type requestMetrics interface {
	// Answered counts a response by the request's HTTP method and the status.
	Answered(method string, status int)
	// AddInFlight adds n to the number of requests in flight.
	AddInFlight(n int)
	// RateLimited counts a request that was rejected because of its user's limits.
	RateLimited()
}

// Middleware checks, limits and logs the HTTP requests to the server.
type Middleware struct {
	cfg      MiddlewareConfig
	names    *nameCheck
	inFlight *inFlightLimit
	users    *userLimits
}

// NewMiddleware creates a Middleware.
func NewMiddleware(cfg MiddlewareConfig) *Middleware {
	return &Middleware{
		cfg:      cfg,
		names:    newNameCheck(cfg.Names),
		inFlight: newInFlightLimit(cfg.Limits.InFlight, cfg.Metrics),
		users:    newUserLimits(cfg.Limits, cfg.Metrics, cfg.Clock),
	}
}

// Requests wraps the handler of all paths, including public ones.
func (m *Middleware) Requests(next http.Handler) http.Handler {
	return logged(m.cfg, uuid.NewString, recovered(limited(m.names.checkHost(next))))
}

// Calls wraps a handler that requires authentication. It must be inside of Requests.
func (m *Middleware) Calls(next http.Handler) http.Handler {
	return m.names.checkOrigin(m.inFlight.wrap(m.cfg.Authenticate(m.users.wrap(next))))
}

// requestRecord contains the data of one request for the access log. Inner handlers fill
// it in.
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
		logger := cfg.Logger.WithValues(tracing.RequestIDLogKey, id)
		ctx := context.WithValue(r.Context(), requestRecordKey{}, rec)
		r = r.WithContext(log.IntoContext(ctx, logger))
		r.Header.Set(tracing.RequestIDHeader, id)
		a := newResponseWriter(w)
		a.Header().Set(tracing.RequestIDHeader, id)
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
			logger.V(level).Info("Handled a request", "method", cut(r.Method), "path", cut(r.URL.Path),
				"status", status, "user", rec.user, "durationMs", cfg.Clock.Since(start).Milliseconds())
		}()
		next.ServeHTTP(a, r)
	})
}

// maxLogged limits the size of a client's text in one value of a log line, in bytes.
const maxLogged = 256 + len(redaction.Ellipsis)

func cut(s string) string { return redaction.Truncate(s, maxLogged) }

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
			http.Error(w, "internal error; see the log of the server for details", http.StatusInternalServerError)
		}()
		next.ServeHTTP(w, r)
	})
}

const (
	// maxBodyBytes is larger than any valid call of a tool.
	maxBodyBytes = 1 << 20
	// bodyReadTimeout is the time that a client has to send the body.
	bodyReadTimeout = 30 * time.Second
)

var (
	errSlowBody   = errors.New("the body of the request did not arrive within 30 seconds; send it again")
	errBrokenBody = errors.New("the body of the request is incomplete; send it again")
)

// limited rejects bodies above the limit with 413, and sets a deadline for reading the
// body.
func limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > maxBodyBytes {
			http.Error(w, "the request is larger than 1 MiB; send less at once", http.StatusRequestEntityTooLarge)
			return
		}
		if r.Body != nil && r.Body != http.NoBody {
			controller := http.NewResponseController(w)
			// Writers without deadlines, as in tests, return an error, which is ignored.
			_ = controller.SetReadDeadline(time.Now().Add(bodyReadTimeout))
			r.Body = &deadlineBody{ReadCloser: http.MaxBytesReader(w, r.Body, maxBodyBytes), controller: controller}
		}
		next.ServeHTTP(w, r)
	})
}

// deadlineBody is a request's body with a deadline.
type deadlineBody struct {
	io.ReadCloser
	controller *http.ResponseController
}

// Read implements io.Reader.
func (b *deadlineBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil, errors.As(err, &tooLarge):
		return n, err
	case errors.Is(err, io.EOF):
		// net/http continues to read in the background to detect that the client
		// disconnected. It would treat the deadline as a disconnect.
		_ = b.controller.SetReadDeadline(time.Time{})
		return n, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, errSlowBody
	default:
		// The connection's error contains addresses, and the SDK sends the error to the
		// client.
		return n, errBrokenBody
	}
}
