package workspace

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// hangup is a response that reports when the client closes the connection. The SPDY server does not
// report it: the input of a command ends in the same way when the client has sent everything.
type hangup struct {
	http.ResponseWriter
	gone func()
}

// Hijack implements http.Hijacker.
func (h hangup) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	read, write := io.Pipe()
	go func() {
		_, err := io.Copy(write, buffered.Reader)
		_ = write.CloseWithError(err)
		h.gone()
	}()
	return unblocking{conn, read}, bufio.NewReadWriter(bufio.NewReader(read), bufio.NewWriter(conn)), nil
}

// unblocking is a connection whose Close also stops the copying of unread input.
type unblocking struct {
	net.Conn
	read *io.PipeReader
}

// Close implements net.Conn.
func (u unblocking) Close() error {
	_ = u.read.Close()
	return u.Conn.Close()
}

// lingering is a response whose connection is a lingeringConn.
type lingering struct {
	http.ResponseWriter
	linger *atomic.Bool
}

// Hijack implements http.Hijacker.
func (l lingering) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(l.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return &lingeringConn{Conn: conn, linger: l.linger, closed: make(chan struct{})}, buffers, nil
}

// lingerTimeout limits the wait for the client to close its end. client-go fails if it reads nothing
// for that long.
const lingerTimeout = time.Minute

// lingeringConn is a connection for wsstream. wsstream closes it after a command has ended, and again
// when the client has closed its end. If linger is set, Close waits for the second call, or for
// lingerTimeout. Until then wsstream reads and drops input. Input that reaches a closed connection,
// such as a ping, resets it, and the client loses what it has not read yet: the rest of the output and
// the exit status.
type lingeringConn struct {
	net.Conn
	linger *atomic.Bool
	once   sync.Once
	closed chan struct{}
}

// Close implements net.Conn.
func (c *lingeringConn) Close() error {
	if c.linger.CompareAndSwap(true, false) {
		select {
		case <-c.closed:
		case <-time.After(lingerTimeout):
		}
	}
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// detailLevel is the log verbosity of events that a client causes on its own connection.
const detailLevel = 4

// quiet returns a context whose logger logs errors at detailLevel. The WebSocket server logs an
// error for each client that closes its connection.
func quiet(ctx context.Context) context.Context {
	logger := klog.FromContext(ctx)
	if logger.GetSink() == nil {
		return ctx
	}
	return klog.NewContext(ctx, logger.WithSink(details{logger.GetSink()}))
}

type details struct{ logr.LogSink }

// Error implements logr.LogSink.
func (d details) Error(err error, message string, values ...any) {
	if d.Enabled(detailLevel) {
		d.Info(detailLevel, message, append(values, "error", err)...)
	}
}
