package remoteexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
)

// Forward forwards ports of local addresses to the ports that the subresource at this address serves,
// until the context is done. An address is an IP address, or localhost for 127.0.0.1 and ::1, of which
// one must be available. Each port is PORT, LOCAL:PORT or :PORT for any free local port. If a
// connection fails, for example because no process listens on the port, only this connection ends, and
// the error is written to errOut. The error is portforward.ErrLostConnectionToPod if the connection to
// the server ended. If no server answers, Forward retries for a few seconds.
func Forward(ctx context.Context, cfg *rest.Config, subresource *url.URL, addresses, ports []string, out, errOut io.Writer) error {
	plain, err := newForwardDialer(cfg, subresource)
	if err != nil {
		return err
	}
	dialer := &lasting{ctx: ctx, Dialer: plain}
	ctx = klog.NewContext(ctx, logr.New(&failures{to: errOut}))
	forwarder, err := portforward.NewOnAddressesForStreamingWithContext(ctx, dialer, addresses, ports, make(chan struct{}), out, errOut)
	if err != nil {
		return err
	}
	err = forwarder.ForwardPorts()
	if dialer.conn != nil {
		_ = dialer.conn.Close()
	}
	if dialer.err != nil {
		return dialer.err
	}
	return err
}

// ForwardPod forwards a local port to a port of a pod through its subresource portforward at this
// address, until the context is done. Local 0 selects a free port. ready is called once with the
// local port. The error is portforward.ErrLostConnectionToPod if the connection to the server ended.
func ForwardPod(ctx context.Context, cfg *rest.Config, subresource *url.URL, local, port int, ready func(local int)) error {
	dialer, err := newForwardDialer(cfg, subresource)
	if err != nil {
		return err
	}
	isReady := make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{"localhost"}, []string{fmt.Sprintf("%d:%d", local, port)},
		ctx.Done(), isReady, io.Discard, io.Discard)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case err := <-ended:
		// It ends without an error if the context is done.
		return errors.Join(message(err), ctx.Err())
	case <-ctx.Done():
		// A dial that hangs cannot be interrupted.
		return ctx.Err()
	case <-isReady:
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return err
	}
	ready(int(ports[0].Local))
	return <-ended
}

// newForwardDialer returns a dialer for the subresource portforward at this address. It uses
// WebSocket, and falls back to SPDY for older servers.
func newForwardDialer(cfg *rest.Config, subresource *url.URL) (httpstream.Dialer, error) {
	transport, upgrader, err := spdy.RoundTripperFor(cfg)
	if err != nil {
		return nil, err
	}
	socket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(subresource, cfg)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(socket,
		spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, subresource), MayFallBack), nil
}

// lasting is a dialer whose connections client-go cannot close. It would close the connection as
// soon as one of the forwarded connections fails, which would end all others.
type lasting struct {
	httpstream.Dialer
	ctx  context.Context //nolint:containedctx // Dial has none.
	conn httpstream.Connection
	err  error
}

func (l *lasting) Dial(protocols ...string) (httpstream.Connection, string, error) {
	var protocol string
	// A port-forward that started without an answer has done nothing yet.
	unanswered := func(err error) bool { return unreached(err) || lost(err) }
	l.err = Retry(l.ctx, unanswered, func() (err error) {
		l.conn, protocol, err = l.Dialer.Dial(protocols...)
		return err
	})
	if l.err != nil && unanswered(l.err) {
		l.err = fmt.Errorf("no replica of the aggregated API answered within %s; try again: %w", patience, message(l.err))
	}
	if l.err != nil {
		l.err = message(l.err)
		return nil, "", l.err
	}
	return unclosed{l.conn}, protocol, nil
}

// unclosed is a connection whose Close does nothing.
type unclosed struct{ httpstream.Connection }

func (unclosed) Close() error { return nil }

func (u unclosed) CreateStream(headers http.Header) (httpstream.Stream, error) {
	stream, err := u.Connection.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	return canceling{stream}, nil
}

// canceling is a stream whose Reset always reaches the server. The library sends nothing if the
// stream was closed before, and the server would continue to send data.
type canceling struct{ httpstream.Stream }

func (c canceling) Reset() error {
	err := c.Stream.Reset()
	if stream, ok := c.Stream.(interface{ Cancel() error }); ok {
		return errors.Join(err, stream.Cancel())
	}
	return err
}

// failures is a log sink that writes a line for each failed connection.
type failures struct {
	mu sync.Mutex
	to io.Writer
}

// forwardPrefix is the end of the text that the protocol's server writes before the cause.
const forwardPrefix = ", uid : "

func (f *failures) Error(err error, message string, keysAndValues ...any) {
	text := fmt.Sprintf("%s: %v", message, err)
	if _, cause, found := strings.Cut(text, forwardPrefix); found {
		text = cause
	}
	ports := map[string]any{}
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		ports[fmt.Sprint(keysAndValues[i])] = keysAndValues[i+1]
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _ = fmt.Fprintf(f.to, "A connection from local port %v to port %v failed: %s\n", ports["localPort"], ports["remotePort"], text)
}

func (*failures) Init(logr.RuntimeInfo) {}

func (*failures) Enabled(int) bool { return false }

func (*failures) Info(int, string, ...any) {}

func (f *failures) WithValues(...any) logr.LogSink { return f }

func (f *failures) WithName(string) logr.LogSink { return f }
