package plugin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/portforward"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
)

func newPortForwardCommand(s *Session) *cobra.Command {
	a := &agentCommand{Session: s}
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
		RunE:              func(cmd *cobra.Command, args []string) error { return a.forward(cmd.Context(), args[0], args[1:]) },
		ValidArgsFunction: s.CompleteName("CoderWorkspace"),
	}
	a.addFlags(cmd, "", "the agent to whose ports to forward")
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

func (a *agentCommand) forward(ctx context.Context, name string, ports []string) error {
	cluster, ws, err := a.find(ctx, name)
	if err != nil {
		return err
	}
	to := cluster.subresource(http.MethodPost, ws, "portforward", map[string]string{"agent": a.agent}).URL()
	err = remoteexec.Forward(ctx, cluster.Config, to, ports, a.Out, a.ErrOut)
	// An interruption is the normal end of the command.
	if err != nil && ctx.Err() == nil {
		if errors.Is(err, portforward.ErrLostConnectionToPod) {
			return fmt.Errorf("the connection to workspace %s is lost, for example because a replica of the operator was replaced: run this command again", ws.Name)
		}
		return fmt.Errorf("workspace %s: %w", ws.Name, err)
	}
	return nil
}
