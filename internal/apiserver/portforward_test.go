package apiserver

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"

	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// TestPortForwardOpensNoShell checks that a user cannot reach the agent's own SSH server, which
// needs no password there.
func TestPortForwardOpensNoShell(t *testing.T) {
	f := newFixture(t)
	enterable(t, f)
	for _, port := range []int{1, 22} {
		local, stop := f.forward(t, f.portForwarders(t)["WebSocket"], port)
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", local)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := overSSH(conn, "echo in"); err == nil {
			t.Errorf("port %d runs commands without the permission exec: %q", port, out)
		}
		_ = conn.Close()
		stop()
	}
}

// portForwarders returns a dialer for each protocol of portforward.
func (f *fixture) portForwarders(t *testing.T) map[string]httpstream.Dialer {
	t.Helper()
	to, err := url.Parse(f.config.Host + f.path("coderworkspaces/coder.ada.dev/portforward"))
	if err != nil {
		t.Fatal(err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(f.config)
	if err != nil {
		t.Fatal(err)
	}
	socket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(to, f.config)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]httpstream.Dialer{
		"WebSocket": socket, "SPDY": spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, to),
	}
}

// forward forwards a local address to a port of the workspace. stop ends it and waits for the end.
func (f *fixture) forward(t *testing.T, dialer httpstream.Dialer, port int) (local string, stop func()) {
	t.Helper()
	done, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, done, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), func() { close(done); <-ended }
}

func TestPortForward(t *testing.T) {
	f := newFixture(t)
	enterable(t, f)
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = echo.Close() }()
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	port := echo.Addr().(*net.TCPAddr).Port
	for protocol, dialer := range f.portForwarders(t) {
		t.Run(protocol, func(t *testing.T) {
			local, stop := f.forward(t, dialer, port)
			defer stop()
			sent := make([]byte, 1<<20)
			_, _ = rand.Read(sent)
			// The second one is a new connection through the same forward.
			for range 2 {
				conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", local)
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					_, _ = conn.Write(sent)
					_ = conn.(*net.TCPConn).CloseWrite()
				}()
				got, err := io.ReadAll(conn)
				if err != nil || !bytes.Equal(got, sent) {
					t.Errorf("%d of %d bytes came back: %v", len(got), len(sent), err)
				}
				_ = conn.Close()
			}
		})
	}
}

// TestPortForwardClientGone checks that the connection to a port ends when that of the user has ended,
// even if the program at the port ignores the end of its input.
func TestPortForwardClientGone(t *testing.T) {
	f := newFixture(t)
	enterable(t, f)
	chatter, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = chatter.Close() }()
	ended := make(chan error, 1)
	go func() {
		conn, err := chatter.Accept()
		for err == nil {
			_, err = conn.Write(make([]byte, 1<<10))
		}
		ended <- err
	}()
	to, err := url.Parse(f.config.Host + f.path("coderworkspaces/coder.ada.dev/portforward"))
	if err != nil {
		t.Fatal(err)
	}
	read, out := io.Pipe()
	port := fmt.Sprintf("0:%d", chatter.Addr().(*net.TCPAddr).Port)
	go func() {
		_ = remoteexec.Forward(t.Context(), f.config, to, []string{"localhost"}, []string{port}, out, io.Discard)
	}()
	var local int
	if _, err := fmt.Fscanf(read, "Forwarding from 127.0.0.1:%d", &local); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", local))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	// The end of the input reaches the port before the failure of writing to this connection.
	_ = conn.(*net.TCPConn).CloseWrite()
	_ = conn.Close()
	select {
	case <-ended:
	case <-polltest.Context(t).Done():
		t.Error("the connection to the port is still open")
	}
}
