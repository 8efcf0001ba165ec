package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/utils/exec"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
)

// execution is one run of exec or ssh.
type execution struct {
	agentCommand
	stdin, tty bool
	// shell lets the user's shell in the workspace interpret the command.
	shell bool
	// stdio reports that standard input and output carry the SSH protocol. suffix is then the host
	// suffix of config-ssh, if the host has one.
	stdio  bool
	suffix string
}

func newExecCommand(s *Session) *cobra.Command {
	e := &execution{agentCommand: agentCommand{Session: s}}
	cmd := &cobra.Command{
		Use:   "exec WORKSPACE [-it] -- COMMAND [ARGUMENT...]",
		Short: "Run a command in a workspace",
		Long: "Runs a command in a running workspace, as the user of its agent. A name without an owner, such as dev, is one of your own\n" +
			"workspaces; for others give the owner too, as in ada.dev. Each argument reaches the command unchanged, as with kubectl\n" +
			"exec; use sh -c or kubectl coder ssh for a line that a shell interprets.\n\n" +
			"It needs the verbs get and create of coderworkspaces/exec, which ClusterRole coder-k8s-workspace-access has.\n\n" +
			"Exit codes: that of the command; 1 the command could not be run, its output could not be written or its result is not\n" +
			"known; 2 wrong command line.",
		Example: "  kubectl coder exec dev -- git status\n  kubectl coder exec coder.ada.dev -it -- bash\n" +
			"  tar c src | kubectl coder exec dev -i -- tar x -C /tmp",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 || cmd.ArgsLenAtDash() != 1 {
				return cli.Usage("give the name of one workspace, then -- and the command")
			}
			return e.run(cmd.Context(), args[0], args[1:])
		},
		ValidArgsFunction: s.CompleteName("CoderWorkspace"),
	}
	flags := cmd.Flags()
	flags.BoolVarP(&e.stdin, "stdin", "i", false, "pass standard input to the command")
	flags.BoolVarP(&e.tty, "tty", "t", false, "with -i: give the command a terminal; ignored if standard input is not a terminal")
	e.addFlags(cmd, "", "the agent that runs the command")
	return cmd
}

func newSSHCommand(s *Session) *cobra.Command {
	e := &execution{agentCommand: agentCommand{Session: s}, stdin: true}
	cmd := &cobra.Command{
		Use:   "ssh WORKSPACE [-- COMMAND [ARGUMENT...]]",
		Short: "Open a shell in a workspace",
		Long: "Opens the login shell of a running workspace's user, or runs a command with standard input. If standard input is a\n" +
			"terminal, the shell has one too. The words of the command are joined with spaces, and the user's shell in the workspace\n" +
			"interprets the line, as with OpenSSH. No SSH key and no client of Coder is needed. A name without an owner, such as dev,\n" +
			"is one of your own workspaces.\n\n" +
			"With --stdio it connects standard input and output to the SSH server of the agent, as OpenSSH's ProxyCommand expects it.\n" +
			"kubectl coder config-ssh writes such a configuration.\n\n" +
			"Exit codes: those of kubectl coder exec.",
		Example: "  kubectl coder ssh dev\n  kubectl coder ssh dev -- 'cd project && git status | head'\n  echo 'uname -a' | kubectl coder ssh dev\n" +
			"  sftp -o ProxyCommand='kubectl coder ssh --stdio dev' dev",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 || len(args) > 1 && cmd.ArgsLenAtDash() != 1:
				return cli.Usage("give the name of one workspace, and a command only after --")
			case e.stdio && len(args) > 1:
				return cli.Usage("--stdio takes no command: the SSH client sends it")
			}
			e.tty, e.shell = e.Interactive && e.Screen, len(args) > 1
			return e.run(cmd.Context(), args[0], args[1:])
		},
		ValidArgsFunction: s.CompleteName("CoderWorkspace"),
	}
	e.addFlags(cmd, "", "the agent whose shell to open")
	flags := cmd.Flags()
	flags.BoolVar(&e.stdio, "stdio", false, "speak SSH on standard input and output, for the ProxyCommand of OpenSSH")
	flags.StringVar(&e.suffix, "host-suffix", "", "with --stdio: the workspace is a host of config-ssh, which ends with this")
	_ = flags.MarkHidden("host-suffix")
	return cmd
}

func (e *execution) run(ctx context.Context, name string, args []string) error {
	cluster, ws, err := e.findHost(ctx, name)
	if err != nil {
		return err
	}
	parameters := map[string]string{"agent": e.agent}
	if e.stdio {
		parameters["ssh"] = "true"
		return execIn(ctx, cluster, ws, parameters, remoteexec.Command{Stdin: e.In, Stdout: e.Out})
	}
	command := remoteexec.Command{Args: args, Stdout: e.Out, Stderr: e.ErrOut}
	if e.stdin {
		command.Stdin = e.In
	}
	// As in kubectl exec, piped input is not treated as typed.
	command.TTY = e.tty && cli.IsTerminal(command.Stdin)
	if e.shell {
		parameters["shell"] = "true"
	}
	return execIn(ctx, cluster, ws, parameters, command)
}

// findHost is find for a name that may be a host of config-ssh: WORKSPACE[--AGENT].SUFFIX. The name of
// an object may end with two hyphens and an id, so the host without its suffix is looked up first. A Role
// for only one workspace forbids that for a host with an agent.
func (e *execution) findHost(ctx context.Context, name string) (*Cluster, *aggregationv1alpha1.CoderWorkspace, error) {
	if e.suffix == "" {
		return e.find(ctx, name)
	}
	name = strings.TrimSuffix(name, "."+e.suffix)
	cluster, ws, err := e.find(ctx, name)
	if at := strings.LastIndex(name, "--"); at > 0 && ws == nil && (apierrors.IsNotFound(err) || apierrors.IsForbidden(err)) {
		e.agent = name[at+len("--"):]
		return e.find(ctx, name[:at])
	}
	return cluster, ws, err
}

// resizeInterval is the interval at which the size of the terminal is polled, because not every
// operating system has a signal for changes.
const resizeInterval = 250 * time.Millisecond

// execIn runs a command in a workspace. parameters are the query parameters of exec, without the
// command. It returns a *cli.ExitError with the command's exit code if that is not 0.
func execIn(ctx context.Context, c *Cluster, ws *aggregationv1alpha1.CoderWorkspace, parameters map[string]string, command remoteexec.Command) error {
	if command.TTY {
		// In raw mode every key reaches the workspace.
		terminal := int(command.Stdin.(*os.File).Fd())
		before, err := term.MakeRaw(terminal)
		if err != nil {
			return fmt.Errorf("changing the mode of the terminal: %w", err)
		}
		defer func() { _ = term.Restore(terminal, before) }()
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		command.Sizes = newSizes(ctx, command.Stdout)
	}
	return exitOf(ws, remoteexec.Run(ctx, c.Config, c.subresource(http.MethodPost, ws, "exec", parameters).URL(), command))
}

// exitOf returns the error for the end of a command: a *cli.ExitError if the command failed, another
// error if it could not be run, and nil if it succeeded.
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
	if !cli.IsTerminal(stdout) {
		return nil
	}
	terminal := int(stdout.(*os.File).Fd())
	s := make(sizes)
	go func() {
		defer close(s)
		ticker := time.NewTicker(resizeInterval)
		defer ticker.Stop()
		var last remotecommand.TerminalSize
		for {
			width, height, err := term.GetSize(terminal)
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
