package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/term"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/utils/exec"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
)

// resizeInterval is the interval at which the size of the terminal is polled, because not every
// operating system has a signal for changes.
const resizeInterval = 250 * time.Millisecond

// command is a command to run in a workspace.
type command struct {
	agent string
	// args are the program and its arguments. Empty means the login shell.
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer
	tty            bool
	// ssh reports that stdin and stdout carry the SSH protocol, and that no command runs.
	ssh bool
}

// address returns the URL of a subresource of a workspace.
func address(c *Cluster, ws *aggregationv1alpha1.CoderWorkspace, subresource string, query url.Values) *url.URL {
	request := c.Kube.CoreV1().RESTClient().Post().AbsPath("/apis/" + aggregationv1alpha1.GroupVersion.String()).
		Namespace(ws.Namespace).Resource("coderworkspaces").Name(ws.Name).SubResource(subresource)
	for key, values := range query {
		for _, value := range values {
			request.Param(key, value)
		}
	}
	return request.URL()
}

// run runs a command in a workspace. It returns a *cli.ExitError with the command's exit code if
// that is not 0.
func run(ctx context.Context, c *Cluster, ws *aggregationv1alpha1.CoderWorkspace, cmd command) error {
	query := url.Values{}
	if cmd.ssh {
		query.Set("ssh", "true")
	}
	if cmd.agent != "" {
		query.Set("agent", cmd.agent)
	}
	remote := remoteexec.Command{Args: cmd.args, Stdin: cmd.stdin, Stdout: cmd.stdout, Stderr: cmd.stderr, TTY: cmd.tty}
	if cmd.tty {
		restore, err := rawTerminal(cmd.stdin)
		if err != nil {
			return err
		}
		defer restore()
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		remote.Sizes = newSizes(ctx, cmd.stdout)
	}
	return exitOf(ws, remoteexec.Run(ctx, c.Config, address(c, ws, "exec", query), remote))
}

func exitOf(ws *aggregationv1alpha1.CoderWorkspace, err error) error {
	var exit utilexec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.Exited():
		return &cli.ExitError{Code: exit.ExitStatus()}
	case errors.As(err, new(*websocket.CloseError)):
		return fmt.Errorf("the connection to workspace %s is lost, for example because a replica of the operator was replaced; "+
			"it is not known whether the command has finished: %w", ws.Name, err)
	}
	return fmt.Errorf("workspace %s: %w", ws.Name, err)
}

// rawTerminal sets the terminal to raw mode, so that every key reaches the workspace, until restore
// is called.
func rawTerminal(stdin io.Reader) (restore func(), err error) {
	file, ok := stdin.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return func() {}, nil
	}
	before, err := term.MakeRaw(int(file.Fd()))
	if err != nil {
		return nil, fmt.Errorf("changing the mode of the terminal: %w", err)
	}
	return func() { _ = term.Restore(int(file.Fd()), before) }, nil
}

// sizes receives the size of the terminal when it changes.
type sizes chan remotecommand.TerminalSize

// Next implements remotecommand.TerminalSizeQueue.
func (s sizes) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}

// newSizes polls the size of the terminal until the context is done. It returns nil if the stream
// is not a terminal.
func newSizes(ctx context.Context, stdout io.Writer) remotecommand.TerminalSizeQueue {
	file, ok := stdout.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	s := make(sizes)
	go func() {
		defer close(s)
		ticker := time.NewTicker(resizeInterval)
		defer ticker.Stop()
		var last remotecommand.TerminalSize
		for {
			width, height, err := term.GetSize(int(file.Fd()))
			now := remotecommand.TerminalSize{Width: uint16(width), Height: uint16(height)}
			if err == nil && now != last {
				last = now
				select {
				case s <- now:
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return s
}
