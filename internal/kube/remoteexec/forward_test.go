package remoteexec

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	forward "k8s.io/client-go/tools/portforward"
	"k8s.io/cri-streaming/pkg/streaming/portforward"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// ports serves port-forwards, after some refusals in the format of kube-apiserver. Port 7 echoes,
// and no other port is open.
type ports struct {
	mu       sync.Mutex
	refusals []string
}

func (p *ports) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	left := p.refusals
	if len(left) > 0 {
		p.refusals = left[1:]
	}
	p.mu.Unlock()
	switch {
	case len(left) > 0:
		http.Error(w, left[0], http.StatusServiceUnavailable)
	case r.Method == http.MethodGet:
		http.Error(w, "no WebSockets here", http.StatusBadRequest)
	default:
		portforward.ServePortForward(w, r, p, "", "", nil, time.Minute, time.Minute, portforward.SupportedProtocols)
	}
}

func (p *ports) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	if port != 7 {
		// A server that refuses a stream before it has confirmed it resets the stream, and the cause is lost. A real server
		// first tries to connect.
		if _, err := io.ReadFull(stream, make([]byte, 1)); err != nil {
			return err
		}
		return fmt.Errorf("connecting to port %d: connection refused", port)
	}
	_, err := io.Copy(stream, stream)
	return err
}

// lines collects the written text.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// forwarding forwards the ports of localhost and 127.0.0.2 until the test ends. addresses are those of
// localhost.
func forwarding(t *testing.T, host string, remote ...string) (addresses []string, errOut *lines, ended <-chan error) {
	t.Helper()
	to, err := url.Parse(host)
	if err != nil {
		t.Fatal(err)
	}
	read, out := io.Pipe()
	errOut = &lines{}
	done := make(chan error, 1)
	go func() {
		done <- Forward(t.Context(), &rest.Config{Host: host}, to, []string{"localhost", "127.0.0.2"}, remote, out, errOut)
		_ = out.Close()
	}()
	scanner := bufio.NewScanner(read)
	for len(addresses) < len(remote) && scanner.Scan() {
		if _, after, found := strings.Cut(scanner.Text(), "Forwarding from 127.0.0.1:"); found {
			port, _, _ := strings.Cut(after, " ")
			addresses = append(addresses, "127.0.0.1:"+port)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	return addresses, errOut, done
}

// connect opens a connection whose deadline is the limit of a test.
func connect(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(polltest.Context(t), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(polltest.Timeout()))
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func echo(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	_, err := io.WriteString(conn, text)
	if err == nil {
		_, err = io.ReadFull(conn, got)
	}
	if err != nil || string(got) != text {
		t.Errorf("wrote %q and read %q: %v", text, got, err)
	}
}

// TestRefusedPort checks that a refused connection ends alone.
func TestRefusedPort(t *testing.T) {
	server := httptest.NewUnstartedServer(&ports{})
	sessions := make(chan net.Conn, 1)
	server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateHijacked {
			sessions <- conn
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	addresses, errOut, ended := forwarding(t, server.URL, "0:7", "0:9")
	if len(addresses) != 2 {
		t.Fatalf("it forwards %q: %v", addresses, <-ended)
	}
	before := connect(t, addresses[0])
	echo(t, before, "before")
	for range 3 {
		closed := connect(t, addresses[1])
		if _, err := io.WriteString(closed, "x"); err != nil {
			t.Error(err)
		}
		if n, err := closed.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a refused port sent %d bytes, %v", n, err)
		}
	}
	echo(t, before, "still there")
	echo(t, connect(t, addresses[0]), "after")
	_, port, _ := net.SplitHostPort(addresses[1])
	want := "A connection from local port " + port + " to port 9 failed: connecting to port 9: connection refused\n"
	polltest.Eventually(t, "each failure is reported", func() error {
		if got := errOut.String(); got != strings.Repeat(want, 3) {
			return fmt.Errorf("it says %q, want three times %q", got, want)
		}
		return nil
	})
	_ = (<-sessions).Close()
	if err := <-ended; !errors.Is(err, forward.ErrLostConnectionToPod) {
		t.Errorf("after the connection to the server is lost: %v", err)
	}
}

// TestForwardAddresses checks that it listens on the same free port of each address.
func TestForwardAddresses(t *testing.T) {
	server := httptest.NewServer(&ports{})
	t.Cleanup(server.Close)
	addresses, _, ended := forwarding(t, server.URL, ":7")
	if len(addresses) != 1 {
		t.Fatalf("it ended: %v", <-ended)
	}
	_, port, _ := net.SplitHostPort(addresses[0])
	for _, host := range []string{"127.0.0.1", "127.0.0.2"} {
		echo(t, connect(t, net.JoinHostPort(host, port)), "hello")
	}
}

func TestForwardPod(t *testing.T) {
	server := httptest.NewServer(&ports{})
	t.Cleanup(server.Close)
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err = ForwardPod(ctx, &rest.Config{Host: server.URL}, to, 0, 7, func(local int) {
		echo(t, connect(t, fmt.Sprintf("localhost:%d", local)), "hello")
		cancel()
	})
	if err != nil || ctx.Err() == nil {
		t.Errorf("after %v it ended: %v", ctx.Err(), err)
	}
}

// TestForwardPodInterrupted checks that the end of the context ends a dial that hangs.
func TestForwardPodInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		cancel()
		<-t.Context().Done()
	}))
	t.Cleanup(server.Close)
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	err = ForwardPod(ctx, &rest.Config{Host: server.URL}, to, 0, 7, func(int) { t.Error("it is ready") })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ended: %v", err)
	}
}

// TestForwardWhileReplicaGone forwards while the Service still routes to a replica that was
// killed.
func TestForwardWhileReplicaGone(t *testing.T) {
	for _, refusals := range [][]string{{refused, refused, refused}, {"error sending request: EOF", "error dialing backend: EOF"}} {
		server := httptest.NewServer(&ports{refusals: refusals})
		t.Cleanup(server.Close)
		addresses, _, ended := forwarding(t, server.URL, "0:7")
		if len(addresses) != 1 {
			t.Fatalf("after %q it ended: %v", refusals, <-ended)
		}
		echo(t, connect(t, addresses[0]), "hello")
	}
}
