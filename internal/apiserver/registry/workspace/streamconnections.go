package workspace

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
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
type lingering struct{ http.ResponseWriter }

// Hijack implements http.Hijacker.
func (l lingering) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(l.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return lingeringConn{conn}, buffers, nil
}

// lingerTimeout limits the wait for the client to close its end.
const lingerTimeout = 5 * time.Second

// lingeringConn is a connection that is closed after the client has closed its end, or after
// lingerTimeout. Until then it discards unread input: kube-apiserver closes a connection in both
// directions as soon as it cannot forward input, and the client would lose the last message, which
// contains the exit status.
type lingeringConn struct{ net.Conn }

// Close implements net.Conn.
func (c lingeringConn) Close() error {
	_ = c.SetReadDeadline(time.Now().Add(lingerTimeout))
	_, _ = io.Copy(io.Discard, c.Conn)
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
