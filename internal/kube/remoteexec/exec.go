package remoteexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
)

// Command is the command that the server runs.
type Command struct {
	// Args are the program and its arguments.
	Args []string
	// Stdin, Stdout and Stderr may be nil, but not all of them. The writers may be written to until
	// Run has returned, and for a moment after that if its context is done.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// TTY runs the command in a terminal. Its errors then go to Stdout. Sizes provides the sizes of
	// the local terminal, and may be nil.
	TTY   bool
	Sizes remotecommand.TerminalSizeQueue
}

// query returns the URL with the parameters of the command added.
func (c Command) query(to *url.URL) *url.URL {
	query := to.Query()
	query["command"] = c.Args
	for name, wanted := range map[string]bool{
		"stdin": c.Stdin != nil, "stdout": c.Stdout != nil, "stderr": c.Stderr != nil && !c.TTY, "tty": c.TTY,
	} {
		if wanted {
			query.Set(name, strconv.FormatBool(true))
		}
	}
	with := *to
	with.RawQuery = query.Encode()
	return &with
}

// Run runs a command through the subresource at this URL until it ends or the context is done. The
// error is a utilexec.ExitError if the command ended with an exit code other than 0, and an API
// status if the server rejected it. If the request reached no server, Run retries for a few
// seconds. So a command never runs twice.
func Run(ctx context.Context, cfg *rest.Config, subresource *url.URL, c Command) error {
	err := Retry(ctx, unreached, func() error { return run(ctx, cfg, subresource, c) })
	if err != nil && unreached(err) {
		return fmt.Errorf("no replica of the aggregated API was reached within %s, and nothing ran; try again: %w",
			patience, message(err))
	}
	return message(err)
}

func run(ctx context.Context, cfg *rest.Config, subresource *url.URL, c Command) error {
	to := c.query(subresource)
	// The executor does not return its connection, but its transport has it.
	var transport *websocket.RoundTripper
	own := rest.CopyConfig(cfg)
	own.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		transport, _ = next.(*websocket.RoundTripper)
		if cfg.WrapTransport != nil {
			return cfg.WrapTransport(next)
		}
		return next
	}
	socket, err := remotecommand.NewWebSocketExecutor(own, http.MethodGet, to.String())
	if err != nil {
		return err
	}
	spdy, err := remotecommand.NewSPDYExecutor(cfg, http.MethodPost, to)
	if err != nil {
		return err
	}
	// The server's response is a status for a WebSocket, and only a text for SPDY.
	var refusal error
	executor, err := remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		refusal = statusOf(err)
		return MayFallBack(err)
	})
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	// Each write to a WebSocket has a deadline of a minute. The library sends the end of the input with
	// the deadline of the last write. If that is over, the end is not sent, and the connection fails.
	// Nothing else may write meanwhile: with a terminal, sizes are written. The library also sends the
	// end when the connection is lost, and then this returns.
	atEnd := func() {
		if ctx.Err() == nil && !c.TTY && transport != nil && transport.Conn != nil {
			_ = transport.Conn.SetWriteDeadline(time.Time{})
		}
	}
	options := remotecommand.StreamOptions{Stdout: checked(c.Stdout, fail), Tty: c.TTY, TerminalSizeQueue: c.Sizes}
	if c.Stdin != nil {
		options.Stdin = &checkedReader{c.Stdin, fail, atEnd}
	}
	if !c.TTY {
		options.Stderr = checked(c.Stderr, fail)
	}
	// The library logs what went wrong with a stream, and returns nothing about it.
	err = executor.StreamWithContext(klog.NewContext(ctx, logr.Discard()), options)
	if cause := context.Cause(ctx); errors.As(cause, new(*localError)) {
		return cause
	}
	if err != nil && lost(err) {
		return fmt.Errorf("the connection to the aggregated API ended before an answer came, so the command may run: %w", err)
	}
	if err != nil && refusal != nil && strings.HasPrefix(err.Error(), refusedSPDY) {
		return refusal
	}
	return err
}

// statusOf returns the API status with which a WebSocket was rejected, or nil.
func statusOf(err error) error {
	var failure *httpstream.UpgradeFailureError
	var status *apierrors.StatusError
	if errors.As(err, &failure) && errors.As(failure.Cause, &status) {
		return status
	}
	return nil
}

// MayFallBack reports whether SPDY may work if a WebSocket does not.
func MayFallBack(err error) bool {
	return httpstream.IsUpgradeFailure(err) && !lost(err) || httpstream.IsHTTPSProxyError(err)
}

// localError means that a stream of this machine could not be read or written.
type localError struct {
	doing string
	err   error
}

// Unwrap returns the error of the stream.
func (e *localError) Unwrap() error { return e.err }

func (e *localError) Error() string { return fmt.Sprintf("%s of the command: %v", e.doing, e.err) }

// checked returns a writer that calls fail if it cannot write. It returns nil for a nil writer.
func checked(to io.Writer, fail context.CancelCauseFunc) io.Writer {
	if to == nil {
		return nil
	}
	return &checkedWriter{to, fail}
}

type checkedWriter struct {
	io.Writer
	fail context.CancelCauseFunc
}

func (w *checkedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		w.fail(&localError{"writing the output", err})
	}
	return n, err
}

// checkedReader calls fail if it cannot read, and atEnd at the end of the input.
type checkedReader struct {
	io.Reader
	fail  context.CancelCauseFunc
	atEnd func()
}

func (r *checkedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		r.atEnd()
	case err != nil:
		r.fail(&localError{"reading the input", err})
	}
	return n, err
}

const (
	attempts   = 7
	firstDelay = 100 * time.Millisecond
	// patience is how long all attempts take if each fails immediately, because each delay is twice the one before.
	patience = (1<<(attempts-1) - 1) * firstDelay
)

// Retry calls try repeatedly, for a few seconds, as long as again returns true for its error. For a moment after a
// replica was killed, its Service still routes to it.
func Retry(ctx context.Context, again func(error) bool, try func() error) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, wait.Backoff{Duration: firstDelay, Factor: 2, Steps: attempts}, func(context.Context) (bool, error) {
		last = try()
		return last == nil || !again(last), nil
	})
	if last == nil {
		return err
	}
	return last
}

// kube-apiserver returns 503 with a plain text if it cannot proxy a request. The text begins with
// dialError if nothing was sent, including a failed TLS handshake. It is noEndpoint if there is no
// address to dial.
const (
	refusedSocket = "(503 Service Unavailable): "
	refusedSPDY   = "unable to upgrade connection: "
	refusedPod    = "error upgrading connection: "
	noEndpoint    = "service unavailable"
	dialError     = "error dialing backend: "
)

// unreached reports whether kube-apiserver could not connect to the aggregated API, so that no
// session can have started.
func unreached(err error) bool {
	text := strings.ToLower(err.Error())
	return slices.ContainsFunc([]string{refusedSocket, refusedSPDY}, func(prefix string) bool {
		prefix = strings.ToLower(prefix)
		return strings.Contains(text, prefix+noEndpoint) || strings.Contains(text, prefix+dialError)
	})
}

// lost reports whether kube-apiserver connected to the aggregated API but got no response, so that
// the command may run.
func lost(err error) bool {
	var status *apierrors.StatusError
	if errors.As(statusOf(err), &status) && status.ErrStatus.Status == "" {
		// client-go parsed a text like "error sending request: EOF" as the YAML of an empty status.
		return true
	}
	return strings.Contains(err.Error(), refusedSocket) && !unreached(err)
}

// message returns an error with the server's message only, without what client-go writes before it.
func message(err error) error {
	if err == nil {
		return nil
	}
	if text, found := strings.CutPrefix(strings.TrimPrefix(err.Error(), refusedPod), refusedSPDY); found {
		return errors.New(text)
	}
	return err
}
