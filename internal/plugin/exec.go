package plugin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/portforward"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
)

// execution is one run of exec or ssh.
type execution struct {
	target
	stdin, tty bool
	// shell lets the user's shell in the workspace interpret the command.
	shell bool
	// stdio reports that standard input and output carry the SSH protocol. suffix is then the host
	// suffix of config-ssh, if the host has one.
	stdio  bool
	suffix string
}

func newExecCommand(s *Session) *cobra.Command {
	e := &execution{target: target{Session: s}}
	cmd := &cobra.Command{
		Use:   "exec WORKSPACE [-it] -- COMMAND [ARGUMENT...]",
		Short: "Run a command in a workspace",
		Long: "Runs a command in a running workspace, as the user of its agent. The end of the workspace's name is sufficient if it is\n" +
			"unique. Each argument reaches the command unchanged, as with kubectl exec; use sh -c or kubectl coder ssh for a line that\n" +
			"a shell interprets.\n\n" +
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
	e := &execution{target: target{Session: s}, stdin: true}
	cmd := &cobra.Command{
		Use:   "ssh WORKSPACE [-- COMMAND [ARGUMENT...]]",
		Short: "Open a shell in a workspace",
		Long: "Opens the login shell of a running workspace's user, or runs a command with standard input. If standard input is a\n" +
			"terminal, the shell has one too. The words of the command are joined with spaces, and the user's shell in the workspace\n" +
			"interprets the line, as with OpenSSH. No SSH key and no client of Coder is needed.\n\n" +
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
	if e.stdio {
		parameters := map[string]string{"agent": e.agent, "ssh": "true"}
		return run(ctx, cluster, ws, parameters, remoteexec.Command{Stdin: e.In, Stdout: e.Out})
	}
	command := remoteexec.Command{Args: args, Stdout: e.Out, Stderr: e.ErrOut}
	if e.stdin {
		command.Stdin = e.In
	}
	// As in kubectl exec, piped input is not treated as typed.
	command.TTY = e.tty && cli.IsTerminal(command.Stdin)
	parameters := map[string]string{"agent": e.agent}
	if e.shell {
		parameters["shell"] = "true"
	}
	return run(ctx, cluster, ws, parameters, command)
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

func newPortForwardCommand(s *Session) *cobra.Command {
	t := &target{Session: s}
	cmd := &cobra.Command{
		Use:   "port-forward WORKSPACE [LOCAL:]PORT...",
		Short: "Forward local ports to a workspace",
		Long: "Forwards TCP ports of localhost to those of a running workspace, until it is interrupted. Programs that listen only\n" +
			"on the workspace's localhost are reachable too. Local port 0 is any free port. A connection to a port without a listener\n" +
			"fails, and the other connections continue. Ports 1 to 8 and 22 of the workspace belong to its agent and are refused.\n\n" +
			"It needs the verbs get and create of coderworkspaces/portforward, which ClusterRole coder-k8s-workspace-access has.",
		Example: "  kubectl coder port-forward dev 8080\n  kubectl coder port-forward coder.ada.dev 8888:80 0:5432",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return cli.Usage("give the name of one workspace, and at least one port")
			}
			return checkPorts(args[1:])
		},
		RunE:              func(cmd *cobra.Command, args []string) error { return t.forward(cmd.Context(), args[0], args[1:]) },
		ValidArgsFunction: s.CompleteName("CoderWorkspace"),
	}
	t.addFlags(cmd, "", "the agent to whose ports to forward")
	return cmd
}

// checkPorts refuses arguments that are not [LOCAL:]PORT.
func checkPorts(ports []string) error {
	for _, text := range ports {
		local, remote, found := strings.Cut(text, ":")
		if !found {
			remote = local
		}
		_, localErr := strconv.ParseUint(local, 10, 16)
		port, err := strconv.ParseUint(remote, 10, 16)
		if localErr != nil || err != nil || port == 0 {
			return cli.Usage("%q is not a port: give PORT or LOCAL:PORT, each from 1 to 65535; LOCAL may be 0", text)
		}
		if port <= 8 || port == 22 {
			return cli.Usage("%q: ports 1 to 8 and 22 belong to the agent itself, which runs commands there: use kubectl coder ssh or config-ssh", text)
		}
	}
	return nil
}

func (t *target) forward(ctx context.Context, name string, ports []string) error {
	cluster, ws, err := t.find(ctx, name)
	if err != nil {
		return err
	}
	to := cluster.subresource(http.MethodPost, ws, "portforward", map[string]string{"agent": t.agent}).URL()
	err = remoteexec.Forward(ctx, cluster.Config, to, ports, t.Out, t.ErrOut)
	// An interruption is the normal end of the command.
	if err != nil && ctx.Err() == nil {
		if errors.Is(err, portforward.ErrLostConnectionToPod) {
			return fmt.Errorf("the connection to workspace %s is lost, for example because a replica of the operator was replaced: run this command again", ws.Name)
		}
		return fmt.Errorf("workspace %s: %w", ws.Name, err)
	}
	return nil
}
