package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	protocol "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
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
	w = closing{w, latest}
	if wsstream.IsWebSocketRequest(r) {
		e.serveWebSocket(w, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	remotecommand.ServeExec(hangup{w, cancel}, r.WithContext(ctx), e.Run, "", "", "", nil,
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
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{
		protocol.StreamProtocolV5Name: {Binary: true, Channels: e.channels()},
	})
	conn.SetIdleTimeout(streamIdleTimeout + closeTimeout)
	var linger atomic.Bool
	_, streams, err := conn.Open(lingering{w, &linger}, r.WithContext(quiet(r.Context())))
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

func (e execProtocol) channels() []wsstream.ChannelType {
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
	return channels
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
