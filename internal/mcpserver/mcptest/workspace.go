package mcptest

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"syscall"
	"testing"

	utilexec "k8s.io/utils/exec"

	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// Workspace is a workspace in which commands run on this machine. It ignores the name of the workspace.
type Workspace struct {
	// Home is the home directory, in which commands start.
	Home string
	// Shell replaces sh, if set.
	Shell []string
	// Env is added to the environment.
	Env []string
	// Fail, if set, is returned by Exec instead of running the command.
	Fail error
	// Before is called before each command; it may be nil.
	Before func(c remoteexec.Command)
}

// NewWorkspace returns an empty workspace.
func NewWorkspace(t testing.TB) *Workspace {
	t.Helper()
	polltest.KeepHangups()
	return &Workspace{Home: t.TempDir()}
}

// Exec is a callers.Exec. Like Coder's agent, it runs the command in its own
// session and sends it SIGHUP when the client disconnects.
func (w *Workspace) Exec(ctx context.Context, _, _, _ string, c remoteexec.Command) error {
	if w.Fail != nil {
		return w.Fail
	}
	if w.Before != nil {
		w.Before(c)
	}
	args := c.Args
	if len(w.Shell) > 0 && args[0] == "sh" {
		args = append(append([]string(nil), w.Shell...), args[1:]...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = w.Home, append(cmd.Environ(), append([]string{"HOME=" + w.Home, "XDG_CACHE_HOME="}, w.Env...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGHUP) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, discard(c.Stdout), discard(c.Stderr)
	err := cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return utilexec.CodeExitError{Err: err, Code: exit.ExitCode()}
	}
	return err
}

func discard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}
