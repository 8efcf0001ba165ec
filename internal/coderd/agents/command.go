package agents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

const (
	// The type of the terminal, and its initial size until the client reports its own.
	terminalType                  = "xterm-256color"
	terminalRows, terminalColumns = 24, 80
	// hangupTimeout is how long a command may handle SIGHUP, for example to write its history on a busy
	// machine. After that, the agent kills a command that has a terminal.
	hangupTimeout = 10 * time.Second
	// aliveInterval is how often the agent's SSH server is asked whether it still answers, and aliveTimeout how long it may
	// take. Both are shorter than those of config-ssh, after which OpenSSH gives up.
	aliveInterval, aliveTimeout = 15 * time.Second, 45 * time.Second
	// aliveRequest is a request that every SSH server answers, as OpenSSH sends it.
	aliveRequest = "keepalive@openssh.com"
)

var errStalled = fmt.Errorf("the agent has not answered for %s, although it is connected to Coder: the connection has stalled, "+
	"and it is not known whether the command has finished", aliveTimeout)

// Command is a command to run in a workspace.
type Command struct {
	// Args are the program and its arguments. Empty means the user's login shell.
	Args []string
	// Shell passes Args, separated by spaces, to the user's shell as one line. Otherwise each
	// argument reaches the program unchanged.
	Shell bool
	// TTY allocates a terminal for the command. Its standard error is then part of Stdout.
	TTY bool

	// Stdin, Stdout and Stderr may be nil.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Resize receives the sizes of the client's terminal. It is closed when the client disconnects.
	// It may be nil.
	Resize <-chan remotecommand.TerminalSize
}

// Run runs a command until it ends, the context is done, or the client disconnects. It returns a
// utilexec.CodeExitError if the command ended with an exit code other than 0.
//
// A command that is still running when the context is done or the client disconnects receives
// SIGHUP. Without that signal, the agent would not stop a command that has no terminal.
func Run(ctx context.Context, client *ssh.Client, c Command) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	defer close(ended)
	var opened atomic.Pointer[ssh.Session]
	// This also ends the requests before the command has started, which have no context.
	defer context.AfterFunc(ctx, func() {
		defer func() { _ = client.Close() }()
		session := opened.Load()
		if session == nil {
			return
		}
		// Blocks if the agent no longer reads. Closing the connection ends that.
		go func() { _ = session.Signal(ssh.SIGHUP) }()
		select {
		case <-ended:
		case <-time.After(hangupTimeout):
		}
	})()
	go keepAlive(ctx, client, cancel)
	session, err := client.NewSession()
	if err == nil {
		defer func() { _ = session.Close() }()
		opened.Store(session)
		err = run(session, c, cancel)
	} else {
		err = fmt.Errorf("opening an SSH session with the agent: %w", err)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func run(session *ssh.Session, c Command, cancel context.CancelCauseFunc) error {
	if c.TTY {
		if err := session.RequestPty(terminalType, terminalRows, terminalColumns, ssh.TerminalModes{}); err != nil {
			return fmt.Errorf("asking the agent for a terminal: %w", err)
		}
	}
	stdin, err := session.StdinPipe()
	if err != nil {
		return err
	}
	session.Stdout, session.Stderr = output(c.Stdout, cancel), output(c.Stderr, cancel)
	if line := c.line(); line == "" {
		err = session.Shell()
	} else {
		err = session.Start(line)
	}
	if err != nil {
		return fmt.Errorf("starting the command: %w", err)
	}
	go func() {
		if c.Stdin != nil {
			_, _ = io.Copy(stdin, c.Stdin)
		}
		_ = stdin.Close()
	}()
	if c.Resize != nil {
		go func() {
			for size := range c.Resize {
				_ = session.WindowChange(int(size.Height), int(size.Width))
			}
			cancel(errClientGone)
		}()
	}
	err = session.Wait()
	var exit *ssh.ExitError
	var missing *ssh.ExitMissingError
	switch {
	case errors.As(err, &exit):
		return utilexec.CodeExitError{Err: err, Code: exit.ExitStatus()}
	case errors.As(err, &missing):
		return errors.New("the connection to the agent ended before the command did: " +
			"the workspace, its agent or this replica of the operator was stopped, or the agent could not be reached")
	}
	return err
}

// keepAlive cancels a session whose agent no longer answers. The TCP stack of Coder's agents sometimes stops sending on a
// busy machine, while other connections to the same agent work.
func keepAlive(ctx context.Context, client ssh.Conn, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(aliveInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		late := time.AfterFunc(aliveTimeout, func() { cancel(errStalled) })
		_, _, err := client.SendRequest(aliveRequest, true, nil)
		late.Stop()
		if err != nil {
			return
		}
	}
}

var errClientGone = errors.New("the client disconnected")

// output returns a writer that ends the session if writing to the client fails.
func output(to io.Writer, cancel context.CancelCauseFunc) io.Writer {
	if to == nil {
		return io.Discard
	}
	return writerFunc(func(p []byte) (int, error) {
		n, err := to.Write(p)
		if err != nil {
			cancel(errClientGone)
		}
		return n, err
	})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// line returns the command as one line for the user's shell, because SSH transmits a command as a
// line.
func (c Command) line() string {
	if c.Shell {
		return strings.Join(c.Args, " ")
	}
	quoted := make([]string, len(c.Args))
	for i, arg := range c.Args {
		quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
