package gate

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// keepAliveInterval is how long a stream may be silent. Proxies commonly drop a
	// connection after 30 or 60 seconds without a byte.
	keepAliveInterval = 15 * time.Second
	// writeTimeout is how long a client may take to read what was written.
	writeTimeout = 30 * time.Second
	// keepAlive is a comment, which clients of an event stream skip.
	keepAlive = ": keep-alive\n\n"
)

// answer is a response that remembers its status, keeps an event stream alive, and
// gives up on a client that does not read.
//
// The comments of the keep-alive are written by a timer, between the writes of the
// handler. Each write of the handler must therefore be a whole event, as those of
// the SDK are.
type answer struct {
	http.ResponseWriter
	controller *http.ResponseController

	mu     sync.Mutex
	status int
	ended  bool
	// spoke says that something was written since the timer last looked.
	spoke bool
	// timer runs while the answer is an open event stream.
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
	// Those below 200 come before the answer.
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

// FlushError lets http.ResponseController flush between two comments.
func (a *answer) FlushError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.status == 0 {
		a.writeHeader(http.StatusOK)
	}
	a.allowTime()
	return a.controller.Flush()
}

// Unwrap lets http.ResponseController set deadlines.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// beat writes a comment if the stream was silent, and comes again.
func (a *answer) beat() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return
	}
	if !a.spoke {
		a.allowTime()
		// A client that is gone ends the request's context, and so the stream.
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

// allowTime gives the client its time for the next write. A writer without
// deadlines, as in tests, needs none.
func (a *answer) allowTime() {
	_ = a.controller.SetWriteDeadline(time.Now().Add(writeTimeout))
}

// end stops the keep-alive and returns the status. Nothing is written after it,
// because net/http takes the response back when the handler returns.
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

// begun says whether the client may have seen a part of the answer.
func (a *answer) begun() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status != 0
}

func (a *answer) isEventStream() bool {
	return strings.HasPrefix(a.Header().Get("Content-Type"), "text/event-stream")
}
