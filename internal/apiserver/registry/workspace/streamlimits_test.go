package workspace

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// TestSessionsEnd checks that a session ends after its longest duration, and before that if it has no
// data, although the client sends pings.
func TestSessionsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		handler  http.Handler
		protocol string
		header   string
		// streams are the streams that the client opens. The first one is for errors.
		streams []string
	}{
		"portforward": {
			portForwardProtocol{Dial: dialEcho}, portforward.ProtocolV1Name, portforward.StreamType,
			[]string{portforward.StreamTypeError, portforward.StreamTypeData},
		},
		"exec": {
			execProtocol{Stdin: true, Stdout: true, Run: echo}, remotecommand.StreamProtocolV4Name, "streamType",
			[]string{"error", "stdin", "stdout"},
		},
	} {
		for use, want := range map[time.Duration]time.Duration{0: streamIdleTimeout, time.Hour: maxAccess} {
			t.Run(name+" with data every "+use.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					begun := time.Now()
					server, end := net.Pipe()
					req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
					req.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
					req.Header.Set(httpstream.HeaderUpgrade, spdy.HeaderSpdy31)
					req.Header.Set(httpstream.HeaderProtocolVersion, c.protocol)
					ended := make(chan time.Duration, 1)
					go func() {
						c.handler.ServeHTTP(hijackable{httptest.NewRecorder(), server}, req)
						ended <- time.Since(begun)
					}()
					conn, err := spdy.NewClientConnectionWithPings(end, time.Minute)
					if err != nil {
						t.Fatal(err)
					}
					var using sync.WaitGroup
					defer using.Wait()
					defer func() { _ = conn.Close() }()
					var streams []httpstream.Stream
					for _, kind := range c.streams {
						stream, err := conn.CreateStream(http.Header{
							c.header: {kind}, portforward.PortHeader: {"80"}, portforward.PortForwardRequestIDHeader: {"1"},
						})
						if err != nil {
							t.Fatal(err)
						}
						streams = append(streams, stream)
					}
					if use > 0 {
						using.Go(func() { keepUsing(streams[1], streams[len(streams)-1], use) })
					}
					select {
					case got := <-ended:
						if got < want || got > want+time.Minute {
							t.Errorf("the session ended after %s, want %s", got, want)
						}
					case <-time.After(2 * maxAccess):
						t.Error("the session does not end")
					}
				})
			})
		}
	}
}

// keepUsing sends a byte each time and waits until it comes back, until that fails.
func keepUsing(in io.Writer, out io.Reader, every time.Duration) {
	for p := make([]byte, 1); ; time.Sleep(every) { //nolint:forbidigo // The clock is that of synctest.
		if _, err := in.Write(p); err != nil {
			return
		}
		if _, err := io.ReadFull(out, p); err != nil {
			return
		}
	}
}

// dialEcho connects to a port that returns what it receives.
func dialEcho(context.Context, uint16) (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		_, _ = io.Copy(far, far)
		_ = far.Close()
	}()
	return near, nil
}

// echo is a command that returns what it receives until it is stopped.
func echo(ctx context.Context, stdin io.Reader, stdout, _ io.Writer, _ <-chan remotecommand.TerminalSize) error {
	go func() { _, _ = io.Copy(stdout, stdin) }()
	<-ctx.Done()
	return context.Cause(ctx)
}

// hijackable is a response with a connection.
type hijackable struct {
	http.ResponseWriter
	conn net.Conn
}

// Hijack implements http.Hijacker.
func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}
