package gate

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

// answer is a response writer that records the status, sends keep-alive comments on an
// event stream, and sets write deadlines, so that a client that does not read is
// disconnected.
//
// A timer writes the keep-alive comments between the writes of the handler. So each write
// of the handler must be a complete event, as it is in the SDK.
type answer struct {
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

func newAnswer(w http.ResponseWriter) *answer {
	return &answer{ResponseWriter: w, controller: http.NewResponseController(w)}
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writeHeader(status)
}

func (a *answer) writeHeader(status int) {
	a.allowTime()
	// 1xx statuses are informational and precede the response.
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
		if a.isEventStream() && !a.ended {
			a.timer = time.AfterFunc(keepAliveInterval, a.beat)
		}
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (a *answer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.status == 0 {
		a.writeHeader(http.StatusOK)
	}
	a.spoke = true
	a.allowTime()
	return a.ResponseWriter.Write(p)
}

// FlushError implements flushing for http.ResponseController. It does not interleave with a
// keep-alive comment.
func (a *answer) FlushError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.status == 0 {
		a.writeHeader(http.StatusOK)
	}
	a.allowTime()
	return a.controller.Flush()
}

// Unwrap returns the wrapped writer, through which http.ResponseController sets deadlines.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// beat writes a keep-alive comment if nothing was written since the last check, and
// schedules the next check.
func (a *answer) beat() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return
	}
	if !a.spoke {
		a.allowTime()
		// If the client is gone, net/http cancels the request's context, which ends the
		// stream.
		_, err := a.ResponseWriter.Write([]byte(keepAlive))
		if err == nil {
			err = a.controller.Flush()
		}
		if err != nil {
			return
		}
	}
	a.spoke = false
	a.timer.Reset(keepAliveInterval)
}

// allowTime sets the deadline of the next write. Writers without deadlines, as in tests,
// return an error, which is ignored.
func (a *answer) allowTime() {
	_ = a.controller.SetWriteDeadline(time.Now().Add(writeTimeout))
}

// end stops the keep-alive and returns the status. Nothing may be written after it, because
// net/http reuses the response when the handler returns.
func (a *answer) end() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.status == 0 {
		return http.StatusOK
	}
	return a.status
}

// begun reports whether the client may have received a part of the response.
func (a *answer) begun() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status != 0
}

func (a *answer) isEventStream() bool {
	return strings.HasPrefix(a.Header().Get("Content-Type"), "text/event-stream")
}
