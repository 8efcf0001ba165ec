package apiserver

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/agents"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// showSize is a command that waits until the size of its terminal changes, and prints
// it as COLUMNSxROWS.
const showSize = "show-size"

// fakeAgent is an SSH server in this process that runs commands with the shell of this machine. It
// uses no network besides the loopback interface. Its fields may be set before the first session.
type fakeAgent struct {
	// Fail is the error that Dial returns. Nil means that connecting succeeds.
	Fail error

	config *ssh.ServerConfig
	// Dials is the number of connections that were opened, Hangups the number of commands that
	// received a signal, Open the number of open connections, and Clients the number of SSH clients
	// in them.
	Dials, Hangups, Open, Clients atomic.Int32

	mu    sync.Mutex
	conns []*conn
	// dialedAs is the Coder user of each connection.
	dialedAs []string
}

// newFakeAgent returns an agent.
func newFakeAgent(t testing.TB) *fakeAgent {
	t.Helper()
	polltest.KeepHangups()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	a := &fakeAgent{config: &ssh.ServerConfig{NoClientAuth: true}}
	a.config.AddHostKey(signer)
	return a
}

// Dial implements agents.Dialer.
func (a *fakeAgent) Dial(_ context.Context, client *coderd.Client, _ uuid.UUID) (agents.Conn, error) {
	if a.Fail != nil {
		return nil, a.Fail
	}
	a.Dials.Add(1)
	a.Open.Add(1)
	c := &conn{agent: a}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conns = append(a.conns, c)
	if client != nil {
		a.dialedAs = append(a.dialedAs, client.ActsAs())
	}
	return c, nil
}

// DialedAs returns the Coder users of the connections to the agent. An empty name means the
// operator.
func (a *fakeAgent) DialedAs() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.dialedAs)
}

// Cut breaks every open connection, as if the agent had stopped.
func (a *fakeAgent) Cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.conns {
		c.cut()
	}
}

var errCut = errors.New("the agent cannot be reached")

// conn is a connection to the agent.
type conn struct {
	agent *fakeAgent
	once  sync.Once

	mu      sync.Mutex
	gone    bool
	carried []net.Conn
}

func (c *conn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	for _, carried := range c.carried {
		_ = carried.Close()
	}
}

// carry records a network connection that uses the agent connection.
func (c *conn) carry(carried net.Conn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		_ = carried.Close()
		return errCut
	}
	c.carried = append(c.carried, carried)
	return nil
}

// DialSSH implements agents.Conn.
func (c *conn) DialSSH(ctx context.Context) (net.Conn, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		defer func() { _ = listener.Close() }()
		if served, err := listener.Accept(); err == nil {
			c.agent.serve(served)
		}
	}()
	dialed, err := (&net.Dialer{}).DialContext(ctx, "tcp", listener.Addr().String())
	if err != nil {
		return nil, err
	}
	return dialed, c.carry(dialed)
}

// Dial implements agents.Conn. It connects to a port of this machine, except for the SSH ports of
// the agent.
func (c *conn) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	if port == 1 || port == 22 {
		return c.DialSSH(ctx)
	}
	dialed, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	return dialed, c.carry(dialed)
}

// Check implements agents.Conn.
func (c *conn) Check(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return errCut
	}
	return nil
}

// Close implements agents.Conn.
func (c *conn) Close() error {
	c.once.Do(func() { c.agent.Open.Add(-1) })
	c.cut()
	return nil
}

func (a *fakeAgent) serve(conn net.Conn) {
	_, channels, requests, err := ssh.NewServerConn(conn, a.config)
	if err != nil {
		return
	}
	a.Clients.Add(1)
	defer a.Clients.Add(-1)
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		if channel, requests, err := offered.Accept(); err == nil {
			go a.session(channel, requests)
		}
	}
}

// session runs one command. Its requests end when the client disconnects. A command with a terminal
// is killed then, as by the real agent.
func (a *fakeAgent) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	terminal, disconnected := context.WithCancel(context.Background())
	defer disconnected()
	kept := context.Background()
	sizes := make(chan string, 10)
	for request := range requests {
		switch request.Type {
		case "exec", "shell":
			var payload struct{ Line string }
			_ = ssh.Unmarshal(request.Payload, &payload)
			go a.run(ctx, kept, channel, payload.Line, sizes)
		case "pty-req":
			kept = terminal
		case "signal":
			a.Hangups.Add(1)
			cancel()
		case "window-change":
			var size struct{ Columns, Rows, Width, Height uint32 }
			_ = ssh.Unmarshal(request.Payload, &size)
			sizes <- fmt.Sprintf("%dx%d\n", size.Columns, size.Rows)
		}
		if request.WantReply {
			_ = request.Reply(true, nil)
		}
	}
}

// run runs a line with the shell. Without a line the shell reads commands from its input. The shell
// receives SIGHUP when ctx ends, and SIGKILL when kept ends.
func (a *fakeAgent) run(ctx, kept context.Context, channel ssh.Channel, line string, sizes <-chan string) {
	defer func() { _ = channel.Close() }()
	status := uint32(0)
	if line == "'"+showSize+"'" {
		select {
		case size := <-sizes:
			_, _ = channel.Write([]byte(size))
		case <-ctx.Done():
		}
	} else {
		status = a.shell(ctx, kept, channel, line)
	}
	_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
}

func (a *fakeAgent) shell(ctx, kept context.Context, channel ssh.Channel, line string) uint32 {
	cmd := exec.CommandContext(ctx, "sh", "-s")
	if line != "" {
		cmd = exec.CommandContext(ctx, "sh", "-c", line)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGHUP) }
	cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 255
	}
	if err := cmd.Start(); err != nil {
		return 255
	}
	defer context.AfterFunc(kept, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })()
	go func() {
		buffer := make([]byte, 32<<10)
		for {
			n, err := channel.Read(buffer)
			_, _ = stdin.Write(buffer[:n])
			if err != nil {
				_ = stdin.Close()
				return
			}
		}
	}()
	_ = cmd.Wait()
	return uint32(cmd.ProcessState.ExitCode())
}
