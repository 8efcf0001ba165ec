package workspace

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// TestForwardedConnectionIsClosed checks that the connection to a port is closed when the workspace
// has closed its side, although the client has not, and that what the client still sends is read.
// The SPDY library would block other connections.
func TestForwardedConnectionIsClosed(t *testing.T) {
	near, far := net.Pipe()
	p := portForwardProtocol{Dial: func(context.Context, uint16) (net.Conn, error) { return halfClosed{near}, nil }, active: func() {}}
	stream, client := net.Pipe()
	defer func() { _ = client.Close() }()
	if err := p.forward(t.Context(), 80, stream); err != nil {
		t.Error(err)
	}
	_ = far.SetWriteDeadline(time.Unix(1, 0))
	if _, err := far.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the connection is not closed: %v", err)
	}
	_ = client.SetWriteDeadline(time.Now().Add(polltest.Timeout()))
	for range 2 {
		if _, err := client.Write([]byte("x")); err != nil {
			t.Errorf("what the client sends is not read: %v", err)
		}
	}
}

// halfClosed is a connection from which nothing more can be read.
type halfClosed struct{ net.Conn }

func (halfClosed) Read([]byte) (int, error) { return 0, io.EOF }
