package workspace

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	protocol "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	utilexec "k8s.io/utils/exec"
)

// execProtocol serves one command.
type execProtocol struct {
	// Stdin, Stdout, Stderr and TTY are the streams that the client requested.
	Stdin, Stdout, Stderr, TTY bool
	// Run runs the command.
	Run runCommand
}

// runCommand runs a command. Streams that the client did not request are nil. Resize is closed when
// the client disconnects. An error that is a utilexec.ExitError is sent to the client as the exit
// code.
type runCommand func(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer, resize <-chan remotecommand.TerminalSize) error

// ServeHTTP implements http.Handler.
func (e execProtocol) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.Run = e.Run.limited()
	latest, stop := context.WithTimeout(r.Context(), maxAccess+closeTimeout)
	defer stop()
	w = closeWith(latest, w)
	if wsstream.IsWebSocketRequest(r) {
		e.serveWebSocket(w, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	remotecommand.ServeExec(reportHangup(w, cancel), r.WithContext(ctx), e.Run, "", "", "", nil,
		&remotecommand.Options{Stdin: e.Stdin, Stdout: e.Stdout, Stderr: e.Stderr && !e.TTY, TTY: e.TTY},
		streamIdleTimeout+closeTimeout, remotecommand.DefaultStreamCreationTimeout, []string{remotecommand.StreamProtocolV4Name})
}

// ExecInContainer implements remotecommand.Executor.
func (run runCommand) ExecInContainer(
	ctx context.Context, _, _, _ string, _ []string, in io.Reader, out, errs io.WriteCloser, _ bool,
	resize <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	if err := run(ctx, in, writer(out), writer(errs), resize); ctx.Err() == nil {
		return err
	}
	// The client is gone. The library would only log the error.
	return nil
}

// writer converts a nil WriteCloser to a nil Writer.
func writer(w io.WriteCloser) io.Writer {
	if w == nil {
		return nil
	}
	return w
}

func (e execProtocol) serveWebSocket(w http.ResponseWriter, r *http.Request) {
	channels := make([]wsstream.ChannelType, protocol.StreamResize+1)
	channels[protocol.StreamErr], channels[protocol.StreamResize] = wsstream.WriteChannel, wsstream.ReadChannel
	if e.Stdin {
		channels[protocol.StreamStdIn] = wsstream.ReadChannel
	}
	if e.Stdout {
		channels[protocol.StreamStdOut] = wsstream.WriteChannel
	}
	if e.Stderr {
		channels[protocol.StreamStdErr] = wsstream.WriteChannel
	}
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{
		protocol.StreamProtocolV5Name: {Binary: true, Channels: channels},
	})
	conn.SetIdleTimeout(streamIdleTimeout + closeTimeout)
	var linger atomic.Bool
	w = hijacked{w, func(conn net.Conn, buffered *bufio.ReadWriter) (net.Conn, *bufio.ReadWriter) {
		return &lingeringConn{Conn: conn, linger: &linger, closed: make(chan struct{})}, buffered
	}}
	_, streams, err := conn.Open(w, r.WithContext(quiet(r.Context())))
	if err != nil {
		// Open has already sent an error response.
		return
	}
	defer func() {
		linger.Store(true)
		_ = conn.Close()
	}()
	// The client waits for a first message before it sends data.
	first := protocol.StreamErr
	if e.Stdout {
		first = protocol.StreamStdOut
	}
	if _, err := streams[first].Write(nil); err != nil {
		return
	}
	resize := make(chan remotecommand.TerminalSize)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go readSizes(ctx, streams[protocol.StreamResize], resize)
	var stdin io.Reader
	var stdout, stderr io.Writer
	if e.Stdin {
		stdin = streams[protocol.StreamStdIn]
	}
	if e.Stdout {
		stdout = streams[protocol.StreamStdOut]
	}
	if e.Stderr && !e.TTY {
		stderr = streams[protocol.StreamStdErr]
	}
	ended := e.Run(ctx, stdin, stdout, stderr, resize)
	if message, err := json.Marshal(statusOfCommand(ended)); err == nil {
		_, _ = streams[protocol.StreamErr].Write(message)
	}
}

// readSizes forwards the sizes of the client's terminal. It returns, and closes sizes, when the
// client disconnects.
func readSizes(ctx context.Context, stream io.Reader, sizes chan<- remotecommand.TerminalSize) {
	defer close(sizes)
	decoder := json.NewDecoder(stream)
	for {
		var size remotecommand.TerminalSize
		if decoder.Decode(&size) != nil {
			return
		}
		select {
		case sizes <- size:
		case <-ctx.Done():
			return
		}
	}
}

// statusOfCommand returns the result of a command in the form that pods/exec uses.
func statusOfCommand(err error) metav1.Status {
	var exit utilexec.ExitError
	switch {
	case err == nil:
		return metav1.Status{Status: metav1.StatusSuccess}
	case errors.As(err, &exit) && exit.Exited():
		return metav1.Status{
			Status: metav1.StatusFailure, Reason: protocol.NonZeroExitCodeReason,
			Message: fmt.Sprintf("command terminated with exit code %d", exit.ExitStatus()),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
				{Type: protocol.ExitCodeCauseType, Message: strconv.Itoa(exit.ExitStatus())},
			}},
		}
	}
	return apierrors.NewInternalError(err).Status()
}

// hijacked is a response whose connection is wrapped when it is hijacked.
type hijacked struct {
	http.ResponseWriter
	wrap func(conn net.Conn, buffered *bufio.ReadWriter) (net.Conn, *bufio.ReadWriter)
}

// Hijack implements http.Hijacker.
func (h hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	conn, buffered = h.wrap(conn, buffered)
	return conn, buffered, nil
}

// closeWith returns a response whose connection is closed when the context ends.
func closeWith(ctx context.Context, w http.ResponseWriter) http.ResponseWriter {
	return hijacked{w, func(conn net.Conn, buffered *bufio.ReadWriter) (net.Conn, *bufio.ReadWriter) {
		context.AfterFunc(ctx, func() { _ = conn.Close() })
		return conn, buffered
	}}
}

// reportHangup returns a response that calls gone when the client closes the connection. The SPDY server does not
// report it: the input of a command ends in the same way when the client has sent everything.
func reportHangup(w http.ResponseWriter, gone func()) http.ResponseWriter {
	return hijacked{w, func(conn net.Conn, buffered *bufio.ReadWriter) (net.Conn, *bufio.ReadWriter) {
		read, write := io.Pipe()
		go func() {
			_, err := io.Copy(write, buffered.Reader)
			_ = write.CloseWithError(err)
			gone()
		}()
		return unblocking{conn, read}, bufio.NewReadWriter(bufio.NewReader(read), bufio.NewWriter(conn))
	}}
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
func limitSession(ctx context.Context) (limited context.Context, active touch, cancel func()) {
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
			stdin = io.TeeReader(stdin, active)
		}
		if stdout != nil {
			stdout = io.MultiWriter(active, stdout)
		}
		if stderr != nil {
			stderr = io.MultiWriter(active, stderr)
		}
		return run(ctx, stdin, stdout, stderr, resize)
	}
}

// touch is a writer that calls the function for all data.
type touch func()

// Write implements io.Writer.
func (t touch) Write(p []byte) (int, error) {
	t()
	return len(p), nil
}

// portForwardProtocol connects a client to the ports that it requests. Each connection of the client
// gets its own connection to the port.
type portForwardProtocol struct {
	// Dial connects to a port.
	Dial func(ctx context.Context, port uint16) (net.Conn, error)
	// active is called for all data.
	active touch
}

// ServeHTTP implements http.Handler.
func (p portForwardProtocol) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, active, cancel := limitSession(r.Context())
	defer cancel()
	w, r, p.active = closeWith(ctx, w), r.WithContext(ctx), active
	tunneled := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(&tunnel{w}, r) })
	proxy.NewTranslatingHandler(http.HandlerFunc(p.serve), proxy.NewTunnelingHandler(tunneled),
		wsstream.IsWebSocketRequestWithTunnelingProtocol).ServeHTTP(w, r)
}

func (p portForwardProtocol) serve(w http.ResponseWriter, r *http.Request) {
	if wsstream.IsWebSocketRequest(r) {
		// In this protocol, each WebSocket carries one port. client-go never used it.
		http.Error(w, "a WebSocket must use the protocol "+portforward.WebsocketsSPDYTunnelingPortForwardV1, http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	forward := forwarder(func(port uint16, stream io.ReadWriteCloser) error { return p.forward(ctx, port, stream) })
	portforward.ServePortForward(w, r, forward, "", "", nil, streamIdleTimeout, remotecommand.DefaultStreamCreationTimeout,
		portforward.SupportedProtocols)
}

// forward copies in both directions until the port closes the connection, or until the client has
// reset the stream and the port sends data.
func (p portForwardProtocol) forward(ctx context.Context, port uint16, stream io.ReadWriteCloser) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := p.Dial(ctx, port)
	if err != nil {
		return fmt.Errorf("connecting to port %d: %w", port, err)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	go func() {
		_, _ = io.Copy(conn, io.TeeReader(stream, p.active))
		// The other direction stays open: a request can end before its response begins.
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		// Data that the port no longer takes must be read too: the SPDY library waits for the reader of
		// a stream, and other streams of the session would wait with it.
		_, _ = io.Copy(io.Discard, stream)
	}()
	_, err = io.Copy(openWriter{stream}, io.TeeReader(conn, p.active))
	if errors.Is(err, errReset) {
		return nil
	}
	return err
}

// openWriter writes to a stream until the client resets it. The SPDY library discards data for such
// a stream without an error, and the connection to the port would stay open while it sends data.
type openWriter struct{ io.Writer }

var errReset = errors.New("the client has reset the stream")

// Write implements io.Writer.
func (w openWriter) Write(p []byte) (int, error) {
	if stream, ok := w.Writer.(interface{ IsFinished() bool }); ok && stream.IsFinished() {
		return 0, errReset
	}
	return w.Writer.Write(p)
}

// forwarder adapts a function to portforward.PortForwarder.
type forwarder func(port uint16, stream io.ReadWriteCloser) error

// PortForward implements portforward.PortForwarder. Its context is never canceled, so the function
// uses its own.
func (f forwarder) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	return f(uint16(port), stream)
}

// tunnel is the response for the tunneling handler of k8s.io/apiserver. The handler expects the
// response of another server: as the bytes of an HTTP response on the connection.
type tunnel struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter. It ignores the status of an upgrade, whose response
// Hijack writes.
func (t *tunnel) WriteHeader(status int) {
	if status != http.StatusSwitchingProtocols {
		t.ResponseWriter.WriteHeader(status)
	}
}

// Hijack implements http.Hijacker.
func (t *tunnel) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, _, err := http.NewResponseController(t.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	response := http.Response{StatusCode: http.StatusSwitchingProtocols, ProtoMajor: 1, ProtoMinor: 1, Header: t.Header()}
	if err := response.Write(conn); err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return conn, bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn)), nil
}
