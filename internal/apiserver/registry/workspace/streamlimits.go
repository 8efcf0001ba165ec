package workspace

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

const (
	// maxAccess limits the duration of a session.
	maxAccess = 24 * time.Hour
	// streamIdleTimeout ends a session without data. It is the same as in the kubelet. The libraries
	// cannot do this: a SPDY client that sends pings is never idle for them.
	streamIdleTimeout = 4 * time.Hour
	// closeTimeout limits the last message of a session whose context has ended. After that, its
	// connection is closed: the client may not read.
	closeTimeout = 10 * time.Second
)

// limitSession returns a context that ends after maxAccess, or after streamIdleTimeout without a call
// of active.
func limitSession(ctx context.Context) (limited context.Context, active, cancel func()) {
	ctx, stop := context.WithTimeoutCause(ctx, maxAccess, fmt.Errorf("a session ends after %s", maxAccess))
	ctx, end := context.WithCancelCause(ctx)
	idle := time.AfterFunc(streamIdleTimeout, func() { end(fmt.Errorf("a session ends after %s without data", streamIdleTimeout)) })
	return ctx, func() { idle.Reset(streamIdleTimeout) }, func() {
		idle.Stop()
		end(nil)
		stop()
	}
}

// limited returns a command that is stopped by the limits of a session.
func (run runCommand) limited() runCommand {
	return func(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer, resize <-chan remotecommand.TerminalSize) error {
		ctx, active, cancel := limitSession(ctx)
		defer cancel()
		if stdin != nil {
			stdin = activeReader{stdin, active}
		}
		if stdout != nil {
			stdout = activeWriter{stdout, active}
		}
		if stderr != nil {
			stderr = activeWriter{stderr, active}
		}
		return run(ctx, stdin, stdout, stderr, resize)
	}
}

// activeReader calls active for all data.
type activeReader struct {
	io.Reader
	active func()
}

// Read implements io.Reader.
func (r activeReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.active()
	}
	return n, err
}

// activeWriter calls active for all data.
type activeWriter struct {
	io.Writer
	active func()
}

// Write implements io.Writer.
func (w activeWriter) Write(p []byte) (int, error) {
	w.active()
	return w.Writer.Write(p)
}

// closing is a response whose connection is closed when a context ends.
type closing struct {
	http.ResponseWriter
	ctx context.Context //nolint:containedctx // It is that of the request.
}

// Hijack implements http.Hijacker.
func (c closing) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err == nil {
		context.AfterFunc(c.ctx, func() { _ = conn.Close() })
	}
	return conn, buffers, err
}
