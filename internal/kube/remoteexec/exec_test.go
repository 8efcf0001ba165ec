package remoteexec

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	protocol "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// TestEndOfInputAfterPause checks that the command sees the end of its input although the last input
// was written so long ago that the deadline of that write is over.
func TestEndOfInputAfterPause(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(serveCat))
	t.Cleanup(server.Close)
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	paused := &pausedInput{left: "all of it"}
	var out strings.Builder
	err = Run(polltest.Context(t), &rest.Config{Host: server.URL, WrapTransport: paused.wrap}, to, Command{
		Args: []string{"cat"}, Stdin: paused, Stdout: &out,
	})
	if err != nil || out.String() != "all of it" {
		t.Errorf("it ended with %v and wrote %q", err, out.String())
	}
}

// serveCat serves a command over a WebSocket that returns its input.
func serveCat(w http.ResponseWriter, r *http.Request) {
	channels := make([]wsstream.ChannelType, protocol.StreamResize+1)
	channels[protocol.StreamStdIn], channels[protocol.StreamStdOut], channels[protocol.StreamErr] =
		wsstream.ReadChannel, wsstream.WriteChannel, wsstream.WriteChannel
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{
		protocol.StreamProtocolV5Name: {Binary: true, Channels: channels},
	})
	_, streams, err := conn.Open(w, r)
	if err != nil {
		return
	}
	defer conn.Close()
	if _, err := io.Copy(streams[protocol.StreamStdOut], streams[protocol.StreamStdIn]); err == nil {
		_, _ = io.WriteString(streams[protocol.StreamErr], `{"status":"Success"}`)
	}
}

// pausedInput is input whose end comes after the deadline of the last write to the connection.
type pausedInput struct {
	left      string
	transport *websocket.RoundTripper
}

func (p *pausedInput) wrap(next http.RoundTripper) http.RoundTripper {
	if transport, ok := next.(*websocket.RoundTripper); ok {
		p.transport = transport
	}
	return next
}

func (p *pausedInput) Read(to []byte) (int, error) {
	if p.left == "" {
		return 0, p.end()
	}
	n := copy(to, p.left)
	p.left = p.left[n:]
	return n, nil
}

func (p *pausedInput) end() error {
	if err := p.transport.Conn.SetWriteDeadline(time.Unix(1, 0)); err != nil {
		return err
	}
	return io.EOF
}
