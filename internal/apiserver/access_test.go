package apiserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// enterable creates workspace coder.ada.dev with one agent.
func enterable(t *testing.T, f *fixture, agents ...coderdtest.Agent) {
	t.Helper()
	if agents == nil {
		agents = []coderdtest.Agent{{Name: "main", Status: "connected", LifecycleState: "ready"}}
	}
	f.coder.SetAgents(f.addWorkspace(t, "dev"), agents...)
}

// executors returns an executor for each protocol of exec.
func (f *fixture) executors(t *testing.T, config *restclient.Config, query url.Values) map[string]remotecommand.Executor {
	t.Helper()
	to, err := url.Parse(config.Host + f.path("coderworkspaces/coder.ada.dev/exec?"+query.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	socket, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, to.String())
	if err != nil {
		t.Fatal(err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, to)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]remotecommand.Executor{"WebSocket": socket, "SPDY": spdy}
}

func execQuery(command ...string) url.Values {
	return url.Values{"command": command, "stdin": {"true"}, "stdout": {"true"}, "stderr": {"true"}}
}

func terminalQuery(command ...string) url.Values {
	return url.Values{"command": command, "stdin": {"true"}, "stdout": {"true"}, "tty": {"true"}}
}

func TestExec(t *testing.T) {
	f := newFixture(t)
	enterable(t, f)
	binary := make([]byte, 3<<20)
	_, _ = rand.Read(binary)
	for name, c := range map[string]struct {
		command        []string
		shell          bool
		stdin          []byte
		stdout, stderr string
		code           int
	}{
		"output and errors apart": {command: []string{"sh", "-c", "echo out; echo err >&2; exit 7"}, stdout: "out\n", stderr: "err\n", code: 7},
		"arguments as they are":   {command: []string{"printf", "%s|", "a b", "it's", "$HOME", "*", "", `\n`}, stdout: `a b|it's|$HOME|*||\n|`},
		"a line for the shell":    {command: []string{"x='a  b';", `echo "$x"`, "|", "tr", "a", "c"}, shell: true, stdout: "c  b\n"},
		"a shell":                 {stdin: []byte("echo $((6*7))\n"), stdout: "42\n"},
		"bytes both ways":         {command: []string{"cat"}, stdin: binary, stdout: string(binary)},
	} {
		query := execQuery(c.command...)
		query.Set("shell", strconv.FormatBool(c.shell))
		for protocol, executor := range f.executors(t, f.config, query) {
			t.Run(name+"/"+protocol, func(t *testing.T) {
				var stdout, stderr bytes.Buffer
				err := executor.StreamWithContext(polltest.Context(t), remotecommand.StreamOptions{Stdin: bytes.NewReader(c.stdin), Stdout: &stdout, Stderr: &stderr})
				var exit utilexec.ExitError
				switch {
				case c.code == 0 && err != nil:
					t.Fatal(err)
				case c.code != 0 && (!errors.As(err, &exit) || exit.ExitStatus() != c.code):
					t.Errorf("ended with %v, want exit code %d", err, c.code)
				}
				if stdout.String() != c.stdout || stderr.String() != c.stderr {
					t.Errorf("wrote %.100q and %.100q (%d bytes), want %.100q and %.100q", stdout.String(), stderr.String(), stdout.Len(), c.stdout, c.stderr)
				}
			})
		}
	}
}

// oneSize is a terminal whose size never changes.
type oneSize chan remotecommand.TerminalSize

func (s oneSize) Next() *remotecommand.TerminalSize {
	if size, ok := <-s; ok {
		return &size
	}
	return nil
}

func TestExecResizes(t *testing.T) {
	f := newFixture(t)
	enterable(t, f)
	for protocol, executor := range f.executors(t, f.config, terminalQuery(showSize)) {
		t.Run(protocol, func(t *testing.T) {
			sizes := make(oneSize, 1)
			sizes <- remotecommand.TerminalSize{Width: 132, Height: 43}
			defer close(sizes)
			var stdout bytes.Buffer
			if err := executor.StreamWithContext(polltest.Context(t), remotecommand.StreamOptions{
				Stdin: strings.NewReader(""), Stdout: &stdout, Tty: true, TerminalSizeQueue: sizes,
			}); err != nil {
				t.Fatal(err)
			}
			if stdout.String() != "132x43\n" {
				t.Errorf("the terminal is %q, want 132x43", stdout.String())
			}
		})
	}
}

func TestExecRefused(t *testing.T) {
	f := newFixture(t)
	enterable(t, f, coderdtest.Agent{Name: "main", Status: "connected"}, coderdtest.Agent{Name: "gpu", Status: "timeout"},
		coderdtest.Agent{Name: "Main", Status: "timeout"})
	reader := restclient.CopyConfig(f.config)
	reader.BearerToken = readerToken
	for name, c := range map[string]struct {
		config *restclient.Config
		query  string
		code   int
		says   string
	}{
		"get without create":  {reader, "?stdout=true&agent=main", http.StatusForbidden, "the verb create of coderworkspaces/exec is needed"},
		"no stream":           {f.config, "", http.StatusBadRequest, "at least one of stdin, stdout and stderr must be true"},
		"several agents":      {f.config, "?stdout=true", http.StatusBadRequest, "several: main, gpu"},
		"no such agent":       {f.config, "?stdout=true&agent=other", http.StatusBadRequest, "must be one of main, gpu"},
		"one that is away":    {f.config, "?stdout=true&agent=gpu", http.StatusConflict, `agent \"gpu\" is not connected (timeout)`},
		"in other case":       {f.config, "?stdout=true&agent=GPU", http.StatusConflict, `agent \"gpu\" is not connected (timeout)`},
		"in the same case":    {f.config, "?stdout=true&agent=Main", http.StatusConflict, `agent \"Main\" is not connected (timeout)`},
		"stdin is not a bool": {f.config, "?stdin=1x", http.StatusBadRequest, "stdin is"},
	} {
		t.Run(name, func(t *testing.T) {
			got := request(t, c.config, http.MethodGet, f.path("coderworkspaces/coder.ada.dev/exec"+c.query), nil, "")
			if got.status != c.code || !strings.Contains(got.body, c.says) {
				t.Errorf("answers %d %s, want %d with %q", got.status, got.body, c.code, c.says)
			}
		})
	}
	if err := f.act(t, "coder.ada.dev", "stop", http.StatusCreated); err != nil {
		t.Fatal(err)
	}
	f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return at(ws, "status", "phase") == "Stopped" })
	got := f.do(t, http.MethodGet, f.path("coderworkspaces/coder.ada.dev/exec?stdout=true"), nil, "")
	if got.status != http.StatusConflict || !strings.Contains(got.body, "the workspace is stopped, and must be running") {
		t.Errorf("a stopped workspace answers %d %s", got.status, got.body)
	}
}

// startAndDisconnect runs a command that writes "started", and then disconnects its client.
func startAndDisconnect(t *testing.T, executor remotecommand.Executor, options remotecommand.StreamOptions) {
	t.Helper()
	ctx, disconnect := context.WithCancel(t.Context())
	defer disconnect()
	stdin, typed := io.Pipe()
	t.Cleanup(func() { _ = typed.Close() })
	started, stdout := io.Pipe()
	options.Stdin, options.Stdout = stdin, stdout
	go func() { _ = executor.StreamWithContext(ctx, options) }()
	if _, err := io.ReadFull(started, make([]byte, len("started\n"))); err != nil {
		t.Fatal(err)
	}
}

// TestExecEndsWithClient checks that a command ends when its client disconnects, even if it neither
// reads nor writes.
func TestExecEndsWithClient(t *testing.T) {
	for _, protocol := range []string{"WebSocket", "SPDY"} {
		t.Run(protocol, func(t *testing.T) {
			f := newOwnFixture(t)
			enterable(t, f)
			executor := f.executors(t, f.config, execQuery("sh", "-c", "echo started; exec sleep 100"))[protocol]
			startAndDisconnect(t, executor, remotecommand.StreamOptions{Stderr: io.Discard})
			polltest.Eventually(t, "the command is hung up on", func() error {
				if f.agent.Hangups.Load() == 0 {
					return errors.New("it runs")
				}
				return nil
			})
			if noise := logged.having("Error on socket receive"); len(noise) > 0 {
				t.Errorf("a client that is gone is logged as an error: %s", noise[0])
			}
		})
	}
}

// TestHangupWithTerminal checks that a command with a terminal can handle SIGHUP before the agent
// kills it.
func TestHangupWithTerminal(t *testing.T) {
	f := newOwnFixture(t)
	enterable(t, f)
	handled := filepath.Join(t.TempDir(), "handled")
	query := terminalQuery("sh", "-c", `trap 'sleep 0.1; touch "$0"; exit' HUP; echo started; while :; do sleep 0.1; done`, handled)
	startAndDisconnect(t, f.executors(t, f.config, query)["WebSocket"], remotecommand.StreamOptions{Tty: true})
	polltest.Eventually(t, "the command has handled SIGHUP", func() error {
		_, err := os.Stat(handled)
		return err
	})
}

// TestExecThatDoesNotBegin checks that a request without a protocol upgrade leaves nothing behind
// in the connection to the agent, which is shared.
func TestExecThatDoesNotBegin(t *testing.T) {
	f := newOwnFixture(t)
	enterable(t, f)
	if got := f.do(t, http.MethodGet, f.path("coderworkspaces/coder.ada.dev/exec?stdout=true"), nil, ""); got.status < 400 {
		t.Fatalf("answers %d %s", got.status, got.body)
	}
	polltest.Eventually(t, "the SSH client is closed", func() error {
		if n := f.agent.Clients.Load(); n > 0 {
			return fmt.Errorf("%d are open", n)
		}
		return nil
	})
	if open := f.agent.Open.Load(); open != 1 {
		t.Errorf("%d connections to the agent are open, not the one that the next session uses", open)
	}
}

// TestExecEndsWithServer checks that a replica that shuts down notifies its sessions.
func TestExecEndsWithServer(t *testing.T) {
	f := newOwnFixture(t)
	enterable(t, f)
	executor := f.executors(t, f.config, execQuery("sh", "-c", "echo started; exec sleep 100"))["WebSocket"]
	started, stdout := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- executor.StreamWithContext(polltest.Context(t), remotecommand.StreamOptions{Stdin: strings.NewReader(""), Stdout: stdout})
	}()
	if _, err := io.ReadFull(started, make([]byte, len("started\n"))); err != nil {
		t.Fatal(err)
	}
	f.stop()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "ended before the command did") {
		t.Errorf("the session ends with %v", err)
	}
	if open := f.agent.Open.Load(); open != 0 {
		t.Errorf("%d connections to the agent are open", open)
	}
}

// TestExecSSH checks that an SSH client on the user's machine can connect to the agent.
func TestExecSSH(t *testing.T) {
	f := newFixture(t)
	enterable(t, f)
	query := url.Values{"ssh": {"true"}, "stdin": {"true"}, "stdout": {"true"}}
	for protocol, executor := range f.executors(t, f.config, query) {
		t.Run(protocol, func(t *testing.T) {
			mine, theirs := net.Pipe()
			ended := make(chan error, 1)
			go func() {
				ended <- executor.StreamWithContext(polltest.Context(t), remotecommand.StreamOptions{Stdin: theirs, Stdout: theirs})
				_ = theirs.Close()
			}()
			if out, err := overSSH(mine, "echo $((6*7))"); err != nil || out != "42\n" {
				t.Errorf("a command over SSH wrote %q: %v", out, err)
			}
			_ = mine.Close()
			if err := <-ended; err != nil {
				t.Errorf("the session ends with %v", err)
			}
		})
	}
	for name, and := range map[string]string{"no stdin": "&stdin=false", "a command": "&command=true", "a terminal": "&tty=true", "a shell": "&shell=true", "errors": "&stderr=true"} {
		t.Run(name, func(t *testing.T) {
			got := f.do(t, http.MethodGet, f.path("coderworkspaces/coder.ada.dev/exec?ssh=true&stdout=true"+and), nil, "")
			if got.status != http.StatusBadRequest || !strings.Contains(got.body, "ssh needs stdin and stdout, and excludes") {
				t.Errorf("answers %d %s", got.status, got.body)
			}
		})
	}
}

// overSSH runs a command line over SSH.
func overSSH(conn net.Conn, line string) (string, error) {
	made, channels, requests, err := ssh.NewClientConn(conn, "agent", &ssh.ClientConfig{HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	if err != nil {
		return "", err
	}
	client := ssh.NewClient(made, channels, requests)
	defer func() { _ = client.Close() }()
	session, err := client.NewSession()
	if err != nil {
		return "", err
	}
	out, err := session.Output(line)
	return string(out), err
}
