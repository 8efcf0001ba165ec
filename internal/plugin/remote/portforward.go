package remote

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/portforward"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// NewPortForwardCommand returns the command kubectl coder port-forward.
func NewPortForwardCommand(s *session.Session) *cobra.Command {
	t := &target{Session: s}
	cmd := &cobra.Command{
		Use:   "port-forward WORKSPACE [LOCAL:]PORT...",
		Short: "Make ports of a workspace reachable on this machine",
		Long: "Forwards TCP ports of localhost to those of a running workspace, until it is interrupted. What listens in the workspace\n" +
			"on its own localhost is reached too. Local port 0 is any free one. A connection to a port on which nothing listens\n" +
			"fails alone.\n\n" +
			"It needs the verbs get and create of coderworkspaces/portforward, which ClusterRole coder-k8s-workspace-access has.",
		Example: "  kubectl coder port-forward dev 8080\n  kubectl coder port-forward coder.ada.dev 8888:80 0:5432",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return cli.Usage("give the name of one workspace, and at least one port")
			}
			return checkPorts(args[1:])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.forward(cmd.Context(), args[0], args[1:])
		},
		ValidArgsFunction: s.CompleteName("CoderWorkspace"),
	}
	t.addFlags(cmd, "", "the agent whose ports are meant")
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
			return cli.Usage("%q is no port: give PORT or LOCAL:PORT, from 1 to 65535", text)
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
	query := url.Values{}
	if t.agent != "" {
		query.Set("agent", t.agent)
	}
	to := address(cluster, ws, "portforward", query)
	err = remoteexec.Forward(ctx, cluster.Config, to, ports, t.Out, t.ErrOut)
	if ctx.Err() != nil {
		// This is the normal end of the command.
		err = nil
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, portforward.ErrLostConnectionToPod):
		return fmt.Errorf("the connection to workspace %s is lost, for example because a replica of the operator was replaced: call this again", ws.Name)
	}
	return fmt.Errorf("workspace %s: %w", ws.Name, err)
}
