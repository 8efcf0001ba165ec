package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// syncBuffer is a buffer that is safe for concurrent use.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// cluster returns the kubeconfig of an API server that serves only its version and token
// reviews, which reject all tokens.
func cluster(t *testing.T) string {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/version":
			fmt.Fprintln(w, `{"major":"1","minor":"37"}`)
		case "/apis/authentication.k8s.io/v1/tokenreviews":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintln(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{}}`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(api.Close)
	return kubeconfigOf(t, api.URL)
}

// kubeconfigOf returns the path of a kubeconfig for an API server.
func kubeconfigOf(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: server}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c"}},
		CurrentContext: "c",
	}
	if err := clientcmd.WriteToFile(config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// anyAddress makes a process listen on a free port, which its log contains.
const anyAddress = "127.0.0.1:0"

func status(url string) int {
	response, err := http.Get(url)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// childEnv makes the test binary run as the process itself. Some settings of a process,
// such as its logger, can be set only once.
const childEnv = "CODER_K8S_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		os.Exit(Run(ctx, os.Args[1:], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}))
	}
	os.Exit(m.Run())
}

// process is a running coder-k8s.
type process struct {
	cmd    *exec.Cmd
	stderr syncBuffer
	// exited receives the exit code.
	exited chan int
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{cmd: exec.CommandContext(ctx, os.Args[0], args...), exited: make(chan int, 1)}
	p.cmd.Env = append(os.Environ(), childEnv+"=1")
	p.cmd.Stderr = &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.cmd.Wait()
		p.exited <- p.cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() { cancel(); <-done })
	return p
}

// eventually polls until is returns true.
func (p *process) eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	polltest.Eventually(t, what, func() error {
		if is() {
			return nil
		}
		select {
		case code := <-p.exited:
			t.Fatalf("the process ended with %d:\n%s", code, p.stderr.String())
		default:
		}
		return errors.New(p.stderr.String())
	})
}

// told returns the value of a key in the log line with this message, or "" if there is none
// yet.
func (p *process) told(t *testing.T, message, key string) string {
	t.Helper()
	for line := range strings.Lines(p.stderr.String()) {
		if !strings.HasSuffix(line, "\n") {
			break // The rest of it is being written.
		}
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("a line of the log is not JSON: %s", line)
		}
		if value, _ := entry[key].(string); entry["msg"] == message && value != "" {
			return value
		}
	}
	return ""
}

// exitCode waits for the end of the process.
func (p *process) exitCode(t *testing.T) int {
	t.Helper()
	select {
	case code := <-p.exited:
		return code
	case <-polltest.Context(t).Done():
		t.Fatalf("the process did not end:\n%s", p.stderr.String())
		return 0
	}
}

func TestTheProcessServesUntilItIsToldToEnd(t *testing.T) {
	t.Run("IPv4", func(t *testing.T) { servesUntilItIsToldToEnd(t, anyAddress) })
	t.Run("IPv6", func(t *testing.T) {
		const anyIPv6Address = "[::1]:0"
		listener, err := net.Listen("tcp", anyIPv6Address)
		if err != nil {
			t.Skipf("this machine has no IPv6: %v", err)
		}
		_ = listener.Close()
		servesUntilItIsToldToEnd(t, anyIPv6Address)
	})
}

func servesUntilItIsToldToEnd(t *testing.T, anyAddress string) {
	t.Helper()
	p := startProcess(t, "--app=mcp-http", "--kubeconfig="+cluster(t), "--metrics-bind-address=0",
		"--health-probe-bind-address="+anyAddress, "--mcp-bind-address="+anyAddress)
	var probes, mcp string
	p.eventually(t, "it says where it listens", func() bool {
		probes, mcp = p.told(t, "starting server", "addr"), p.told(t, "Serving MCP", "address")
		return probes != "" && mcp != ""
	})
	p.eventually(t, "it is ready", func() bool { return status("http://"+probes+"/readyz") == http.StatusOK })
	if got := status("http://" + probes + "/healthz"); got != http.StatusOK {
		t.Errorf("/healthz gives %d", got)
	}
	if got := status("http://" + mcp + "/mcp"); got != http.StatusUnauthorized {
		t.Errorf("/mcp gives %d without a token, want 401", got)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exitCode(t); code != cli.ExitOK {
		t.Errorf("the exit code is %d:\n%s", code, p.stderr.String())
	}
	for line := range strings.Lines(p.stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line of the log is not JSON: %s", line)
		}
	}
}

func TestAComponentThatFailsEndsTheProcess(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p := startProcess(t, "--app=mcp-http", "--kubeconfig="+cluster(t), "--metrics-bind-address=0",
		"--health-probe-bind-address="+anyAddress, "--mcp-bind-address="+taken.Addr().String())
	code := p.exitCode(t)
	if want := "coder-k8s: mcp: listening on --mcp-bind-address " + taken.Addr().String(); code != cli.ExitFailure || !strings.Contains(p.stderr.String(), want) {
		t.Errorf("the exit code is %d, want 1 and %q:\n%s", code, want, p.stderr.String())
	}
}

func TestAMissingKubeconfigIsAFailure(t *testing.T) {
	p := startProcess(t, "--app=mcp-http", "--kubeconfig=/does/not/exist")
	if code := p.exitCode(t); code != cli.ExitFailure || !strings.Contains(p.stderr.String(), "/does/not/exist") {
		t.Errorf("the exit code is %d: %s", code, p.stderr.String())
	}
}

func TestAllLogsAreOneJSONObjectPerLine(t *testing.T) {
	var out syncBuffer
	o := LogOptions{Format: logFormatJSON, Level: "2"}
	logger, err := o.setup(&out)
	if err != nil {
		t.Fatal(err)
	}
	logger.Info("Said something", "controlPlane", "coder/coder")
	logger.Error(errors.New("broken"), "Doing something")
	klog.V(2).InfoS("Said something in a library")
	klog.V(3).InfoS("Said too much in a library")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("there are %d lines, want 3:\n%s", len(lines), out.String())
	}
	for _, line := range lines {
		var entry struct{ Level, TS, Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Level == "" || entry.TS == "" || entry.Msg == "" {
			t.Errorf("a line is not what it should be (%v): %s", err, line)
		}
	}
}
