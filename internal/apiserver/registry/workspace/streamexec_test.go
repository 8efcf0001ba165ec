package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	utilproxy "k8s.io/apimachinery/pkg/util/proxy"
	protocol "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/rest"
	client "k8s.io/client-go/tools/remotecommand"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// TestExitCodeWithUnreadInput checks that the exit code of a command that did not read its input
// reaches the client through kube-apiserver, which closes both directions if it cannot send.
func TestExitCodeWithUnreadInput(t *testing.T) {
	backend := httptest.NewServer(execProtocol{Stdin: true, Stdout: true, Stderr: true, Run: func(
		_ context.Context, _ io.Reader, _, stderr io.Writer, _ <-chan remotecommand.TerminalSize,
	) error {
		_, _ = io.WriteString(stderr, "full\n")
		return utilexec.CodeExitError{Err: errors.New("full"), Code: 3}
	}})
	defer backend.Close()
	to, err := url.Parse(backend.URL)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(utilproxy.NewUpgradeAwareHandler(to, http.DefaultTransport, false, true, responder{t}))
	defer front.Close()
	executor, err := client.NewWebSocketExecutor(&rest.Config{Host: front.URL}, http.MethodGet, front.URL)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		var stderr bytes.Buffer
		err := executor.StreamWithContext(polltest.Context(t), client.StreamOptions{
			Stdin: endless{}, Stdout: io.Discard, Stderr: &stderr,
		})
		var exit utilexec.ExitError
		if !errors.As(err, &exit) || exit.ExitStatus() != 3 || stderr.String() != "full\n" {
			t.Fatalf("ended with %v and wrote %q, want exit code 3", err, stderr.String())
		}
	}
}

// TestConnectionOutlivesCommand checks that the server does not close the connection before the client
// has read the end of the output, for a limited time.
func TestConnectionOutlivesCommand(t *testing.T) {
	exec := execProtocol{Stdin: true, Stdout: true, Run: func(
		context.Context, io.Reader, io.Writer, io.Writer, <-chan remotecommand.TerminalSize,
	) error {
		return utilexec.CodeExitError{Err: errors.New("full"), Code: 3}
	}}
	for answer, want := range map[time.Duration]time.Duration{
		0: 0, 30 * time.Second: 30 * time.Second, 2 * time.Minute: time.Minute,
	} {
		t.Run("the client answers after "+answer.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, end := net.Pipe()
				defer func() { _ = end.Close() }()
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					req, err := http.ReadRequest(bufio.NewReader(server))
					if err != nil {
						t.Error(err)
						return
					}
					exec.ServeHTTP(hijackable{httptest.NewRecorder(), server}, req.WithContext(t.Context()))
				}()
				dialer := websocket.Dialer{
					NetDialContext: func(context.Context, string, string) (net.Conn, error) { return end, nil },
					Subprotocols:   []string{protocol.StreamProtocolV5Name},
				}
				conn, response, err := dialer.DialContext(t.Context(), "ws://operator", nil)
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
				conn.SetCloseHandler(func(int, string) error { return nil })
				var last []byte
				for err == nil {
					var message []byte
					if _, message, err = conn.ReadMessage(); err == nil {
						last = message
					}
				}
				if !websocket.IsCloseError(err, websocket.CloseNormalClosure) || !bytes.Contains(last, []byte("exit code 3")) {
					t.Fatalf("ended with %v after %q, want exit code 3", err, last)
				}
				go func() { _, _ = io.Copy(io.Discard, end) }()
				begun := time.Now()
				go func() {
					<-time.After(answer)
					_ = conn.WriteControl(websocket.PingMessage, nil, time.Time{})
					_ = conn.WriteControl(websocket.CloseMessage, nil, time.Time{})
				}()
				<-ended
				if took := time.Since(begun); took != want {
					t.Errorf("the connection was closed after %s, want %s", took, want)
				}
				<-time.After(answer)
			})
		})
	}
}

// endless is input that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return min(len(p), 100), nil }

// responder fails the test on an error.
type responder struct{ t *testing.T }

// Error implements utilproxy.ErrorResponder.
func (r responder) Error(w http.ResponseWriter, _ *http.Request, err error) {
	r.t.Error(err)
	w.WriteHeader(http.StatusBadGateway)
}
