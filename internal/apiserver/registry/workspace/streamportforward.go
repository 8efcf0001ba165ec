package workspace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// portForwardProtocol connects a client to the ports that it requests. Each connection of the client
// gets its own connection to the port.
type portForwardProtocol struct {
	// Dial connects to a port.
	Dial func(ctx context.Context, port uint16) (net.Conn, error)
	// active is called for all data.
	active func()
}

// ServeHTTP implements http.Handler.
func (p portForwardProtocol) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, active, cancel := limitSession(r.Context())
	defer cancel()
	w, r, p.active = closing{w, ctx}, r.WithContext(ctx), active
	proxy.NewTranslatingHandler(http.HandlerFunc(p.serve), proxy.NewTunnelingHandler(http.HandlerFunc(p.serveTunnel)),
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

func (p portForwardProtocol) serveTunnel(w http.ResponseWriter, r *http.Request) {
	p.serve(&tunnel{ResponseWriter: w}, r)
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
		_, _ = io.Copy(conn, activeReader{stream, p.active})
		// The other direction stays open: a request can end before its response begins.
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		// Data that the port no longer takes must be read too: the SPDY library waits for the reader of
		// a stream, and other streams of the session would wait with it.
		_, _ = io.Copy(io.Discard, stream)
	}()
	_, err = io.Copy(openWriter{stream}, activeReader{conn, p.active})
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
