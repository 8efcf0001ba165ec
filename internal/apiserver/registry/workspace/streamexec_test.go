package workspace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	utilproxy "k8s.io/apimachinery/pkg/util/proxy"
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
