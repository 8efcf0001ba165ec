package mcpserver

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/protocol"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// MiddlewareConfig configures a Middleware.
type MiddlewareConfig struct {
	Options Options
	// Namespace is the namespace of Service coder-k8s, and ClusterDomain is the DNS domain
	// of the cluster, such as cluster.local. Without a namespace, no names of the Service
	// are allowed.
	Namespace, ClusterDomain string
	// Authenticate accepts only authenticated callers with permission to use the server,
	// and adds the caller to the request's context (request.WithUser). It calls noteUser,
	// also for rejected callers.
	Authenticate func(http.Handler) http.Handler
	Metrics      *protocol.Metrics
	Clock        clock.PassiveClock
	Logger       logr.Logger
}

// Middleware checks, limits and logs the HTTP requests to the server.
type Middleware struct {
	cfg      MiddlewareConfig
	names    *nameCheck
	inFlight *callers.Quota
	users    *userLimits
}

// NewMiddleware creates a Middleware.
func NewMiddleware(cfg MiddlewareConfig) *Middleware {
	return &Middleware{
		cfg:      cfg,
		names:    newNameCheck(cfg),
		inFlight: callers.NewQuota(0, cfg.Options.MaxInFlight),
		users:    newUserLimits(cfg),
	}
}

// Requests wraps the handler of all paths, including public ones.
func (m *Middleware) Requests(next http.Handler) http.Handler {
	return logged(m.cfg, recovered(limited(m.names.checkHost(next))))
}

// Calls wraps a handler that requires authentication. It must be inside of Requests.
func (m *Middleware) Calls(next http.Handler) http.Handler {
	return m.names.checkOrigin(m.limitInFlight(m.cfg.Authenticate(m.users.wrap(next))))
}

// requestRecord contains the data of one request for the access log. Inner handlers fill
// it in.
type requestRecord struct{ user string }

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
func logged(cfg MiddlewareConfig, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, rec := uuid.NewString(), &requestRecord{}
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
			logger.V(level).Info("Handled a request", "method", protocol.Cut(r.Method), "path", protocol.Cut(r.URL.Path),
				"status", status, "user", rec.user, "durationMs", cfg.Clock.Since(start).Milliseconds())
		}()
		next.ServeHTTP(a, r)
	})
}

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
	// keepAliveInterval is the maximum time without a write on a stream. Proxies commonly
	// close a connection after 30 or 60 seconds without data.
	keepAliveInterval = 15 * time.Second
	// writeTimeout is the time that a client has to read what was written.
	writeTimeout = 30 * time.Second
	// keepAlive is a comment, which clients of an event stream ignore.
	keepAlive = ": keep-alive\n\n"
)

// responseWriter is a response writer that records the status, sends keep-alive comments on an
// event stream, and sets write deadlines, so that a client that does not read is
// disconnected.
//
// A timer writes the keep-alive comments between the writes of the handler. So each write
// of the handler must be a complete event, as it is in the SDK.
type responseWriter struct {
	http.ResponseWriter
	controller *http.ResponseController

	mu     sync.Mutex
	status int
	ended  bool
	// spoke reports that something was written since the last keep-alive check.
	spoke bool
	// timer is set while the response is an open event stream, or is kept open.
	timer *time.Timer
	// opened reports that a comment sent the header, and failed that an error came after it.
	opened, failed bool
}

func newResponseWriter(w http.ResponseWriter) *responseWriter {
	return &responseWriter{ResponseWriter: w, controller: http.NewResponseController(w)}
}

func (w *responseWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(status)
}

func (w *responseWriter) writeHeader(status int) {
	if w.opened {
		w.failed = status >= http.StatusBadRequest
		return
	}
	w.allowTime()
	// 1xx statuses are informational and precede the response.
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
		w.startTimer()
	}
	w.ResponseWriter.WriteHeader(status)
}

// startTimer starts the keep-alive of an event stream.
func (w *responseWriter) startTimer() {
	if w.timer == nil && !w.ended && strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
		w.timer = time.AfterFunc(keepAliveInterval, w.beat)
	}
}

// KeepOpen implements protocol.StreamKeeper.
func (w *responseWriter) KeepOpen() (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.startTimer()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.status == 0 && w.timer != nil {
			// The response may be of another type.
			w.timer.Stop()
			w.timer = nil
		}
	}
}

func (w *responseWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status == 0 {
		w.writeHeader(http.StatusOK)
	}
	w.spoke = true
	w.allowTime()
	if w.failed {
		// The SDK sends errors as plain JSON with a status, for which it is too late.
		_, err := fmt.Fprintf(w.ResponseWriter, "event: message\ndata: %s\n\n", p)
		return len(p), err
	}
	return w.ResponseWriter.Write(p)
}

// FlushError implements flushing for http.ResponseController. It does not interleave with a
// keep-alive comment.
func (w *responseWriter) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status == 0 {
		w.writeHeader(http.StatusOK)
	}
	w.allowTime()
	return w.controller.Flush()
}

// Unwrap returns the wrapped writer, through which http.ResponseController sets deadlines.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// beat writes a keep-alive comment if nothing was written since the last check, and
// schedules the next check.
func (w *responseWriter) beat() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || w.timer == nil {
		return
	}
	if w.status == 0 {
		w.writeHeader(http.StatusOK)
		w.opened = true
	}
	if !w.spoke {
		w.allowTime()
		// If the client disconnected, net/http cancels the request's context, which ends the
		// stream.
		_, err := w.ResponseWriter.Write([]byte(keepAlive))
		if err == nil {
			err = w.controller.Flush()
		}
		if err != nil {
			return
		}
	}
	w.spoke = false
	w.timer.Reset(keepAliveInterval)
}

// allowTime sets the deadline of the next write. Writers without deadlines, as in tests,
// return an error, which is ignored.
func (w *responseWriter) allowTime() {
	_ = w.controller.SetWriteDeadline(time.Now().Add(writeTimeout))
}

// end stops the keep-alive and returns the status. Nothing may be written after it, because
// net/http reuses the response when the handler returns.
func (w *responseWriter) end() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.status == 0 {
		return http.StatusOK
	}
	return w.status
}

// begun reports whether the client may have received a part of the response.
func (w *responseWriter) begun() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status != 0
}
