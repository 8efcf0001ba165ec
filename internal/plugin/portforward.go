package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/portforward"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
)

// portForward is one run of port-forward.
type portForward struct {
	agentCommand
	addresses []string
}

func newPortForwardCommand(s *Session) *cobra.Command {
	p := &portForward{agentCommand: agentCommand{Session: s}}
	cmd := &cobra.Command{
		Use:   "port-forward WORKSPACE [LOCAL:]PORT...",
		Short: "Forward local ports to a workspace",
		Long: "Forwards local TCP ports to those of a running workspace, until it is interrupted. Programs that listen only on the\n" +
			"workspace's localhost are reachable too. A name without an owner, such as dev, is one of your own\n" +
			"workspaces.\n\n" +
			"Like kubectl port-forward, it listens on localhost, or on the addresses of --address. localhost is 127.0.0.1 and ::1, of\n" +
			"which one must be available. Anyone who can reach an address can use the ports without authentication. :PORT and 0:PORT\n" +
			"use any free local port. A connection to a port without a listener fails, and the other connections continue. Ports 1\n" +
			"to 8 and 22 of the workspace belong to its agent and are refused, and so are 2112, 2113 and 6060, unless the agent\n" +
			"reports another process there.\n\n" +
			"It needs the verbs get and create of coderworkspaces/portforward, which ClusterRole coder-k8s-workspace-access has.",
		Example: "  kubectl coder port-forward dev 8080\n  kubectl coder port-forward coder.ada.dev 8888:80 :5432\n" +
			"  kubectl coder port-forward dev --address localhost,192.168.1.2 8080",
		Args:              p.arguments,
		ValidArgsFunction: s.CompleteName("CoderWorkspace"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			cluster, ws, err := p.find(ctx, args[0])
			if err != nil {
				return err
			}
			to := cluster.subresource(http.MethodPost, ws, "portforward", map[string]string{"agent": p.agent}).URL()
			err = remoteexec.Forward(ctx, cluster.Config, to, p.addresses, args[1:], p.Out, p.ErrOut)
			// An interruption is the normal end of the command.
			if err != nil && ctx.Err() == nil {
				if errors.Is(err, portforward.ErrLostConnectionToPod) {
					return fmt.Errorf("the connection to workspace %s is lost, for example because a replica of the operator was replaced: run this command again", ws.Name)
				}
				return fmt.Errorf("workspace %s: %w", ws.Name, err)
			}
			return nil
		},
	}
	p.addFlags(cmd, "", "the agent to whose ports to forward")
	cmd.Flags().StringSliceVar(&p.addresses, "address", []string{"localhost"}, "the local addresses to listen on: IP addresses, or localhost")
	return cmd
}

// arguments refuses addresses on which client-go does not listen, and ports that are not PORT, LOCAL:PORT or :PORT.
func (p *portForward) arguments(_ *cobra.Command, args []string) error {
	if len(args) < 2 {
		return cli.Usage("give the name of one workspace, and at least one port")
	}
	for _, address := range p.addresses {
		if address != "localhost" && net.ParseIP(address) == nil {
			return cli.Usage("--address is %q, and must be an IP address or localhost", address)
		}
	}
	if len(p.addresses) == 0 {
		return cli.Usage("--address is empty, and must be an IP address or localhost")
	}
	for _, text := range args[1:] {
		local, remote, found := strings.Cut(text, ":")
		if !found {
			remote = local
		}
		_, localErr := strconv.ParseUint(cmp.Or(local, "0"), 10, 16)
		port, err := strconv.ParseUint(remote, 10, 16)
		if localErr != nil || err != nil || port == 0 {
			return cli.Usage("%q is not a port: give PORT, LOCAL:PORT, or :PORT for any free local port; each is a number from 1 to 65535", text)
		}
		if port <= 8 || port == 22 {
			return cli.Usage("%q: ports 1 to 8 and 22 belong to the agent itself, which runs commands there: use kubectl coder ssh or config-ssh", text)
		}
	}
	return nil
}
