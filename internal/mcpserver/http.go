package mcpserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// maxBodyBytes is far above any call of a tool.
	maxBodyBytes = 1 << 20
	// bodyReadTimeout bounds how slowly a client may send its body.
	bodyReadTimeout = 30 * time.Second

	requestIDHeader = "X-Request-Id"
)

// requestRecord is what the access log says about one request. The inner steps
// fill in what they learn.
type requestRecord struct {
	id   string
	user string
}

type requestRecordKey struct{}

func recordOf(ctx context.Context) *requestRecord {
	if rec, ok := ctx.Value(requestRecordKey{}).(*requestRecord); ok {
		return rec
	}
	return &requestRecord{}
}

// recovered turns a panic of an inner step into an answer. The tools run on
// goroutines of their own and are guarded again in the protocol's middleware.
func recovered(logger logr.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares the panic value itself.
				panic(p)
			}
			logger.Error(nil, "Recovered from a panic in an HTTP handler", "panic", p, "stack", string(debug.Stack()))
			http.Error(w, "internal error", http.StatusInternalServerError)
		}()
		next.ServeHTTP(w, r)
	})
}

// logged gives the request an id and a logger and writes one line about it. No
// header and no query is logged, because both may hold a token.
func logged(logger logr.Logger, clk clock.PassiveClock, newID func() string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &requestRecord{id: newID()}
		reqLogger := logger.WithValues("requestID", rec.id)
		ctx := context.WithValue(r.Context(), requestRecordKey{}, rec)
		ctx = log.IntoContext(ctx, reqLogger)
		sw := &statusWriter{ResponseWriter: w}
		w.Header().Set(requestIDHeader, rec.id)
		// Proxies must pass the parts of a stream on as they come.
		w.Header().Set("X-Accel-Buffering", "no")

		start := clk.Now()
		next.ServeHTTP(sw, r.WithContext(ctx))

		level := 1
		if sw.status >= http.StatusBadRequest {
			level = 0
		}
		reqLogger.V(level).Info("Answered a request", "method", r.Method, "path", r.URL.Path,
			"status", sw.status, "user", rec.user, "duration", clk.Since(start).String())
	})
}

// limited refuses bodies above the limit with 413 and bounds the time that a
// client may take to send one.
func limited(clk clock.PassiveClock, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > maxBodyBytes {
			http.Error(w, "the request is larger than 1 MiB", http.StatusRequestEntityTooLarge)
			return
		}
		if r.Body != nil && r.Body != http.NoBody {
			rc := http.NewResponseController(w)
			// An error means that the writer has no deadlines, as in tests.
			if err := rc.SetReadDeadline(clk.Now().Add(bodyReadTimeout)); err == nil {
				r.Body = &timedBody{ReadCloser: http.MaxBytesReader(w, r.Body, maxBodyBytes), controller: rc}
			} else {
				r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// timedBody lifts the read deadline when the body has been read: net/http keeps
// reading in the background to notice that the client went away, and would take
// the deadline for that.
type timedBody struct {
	io.ReadCloser
	controller *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		if derr := b.controller.SetReadDeadline(time.Time{}); derr != nil {
			return n, derr
		}
	}
	return n, err
}

// statusWriter remembers the status code.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(code int) {
	if w.status == 0 {
		w.status = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController flush and set deadlines.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
