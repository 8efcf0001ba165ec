package mcpserver

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

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
	// timer is set while the response is an open event stream.
	timer *time.Timer
}

func newResponseWriter(w http.ResponseWriter) *responseWriter {
	return &responseWriter{ResponseWriter: w, controller: http.NewResponseController(w)}
}

// WriteHeader implements http.ResponseWriter.
func (w *responseWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(status)
}

func (w *responseWriter) writeHeader(status int) {
	w.allowTime()
	// 1xx statuses are informational and precede the response.
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
		if w.isEventStream() && !w.ended {
			w.timer = time.AfterFunc(keepAliveInterval, w.beat)
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *responseWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status == 0 {
		w.writeHeader(http.StatusOK)
	}
	w.spoke = true
	w.allowTime()
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
	if w.ended {
		return
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

func (w *responseWriter) isEventStream() bool {
	return strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream")
}
