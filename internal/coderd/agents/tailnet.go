package agents

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"cdr.dev/slog/v3"
	"github.com/coder/coder/v2/codersdk"
	"github.com/coder/coder/v2/codersdk/workspacesdk"
	"github.com/coder/coder/v2/tailnet"
	"github.com/coder/coder/v2/tailnet/proto"
	"github.com/coder/quartz"
	"github.com/coder/websocket"
	"github.com/google/uuid"
	"tailscale.com/tailcfg"
)

// dialAgent does the same as DialAgent of Coder's library, and checks each message of Coder before the
// library reads it. With a message that lacks a field, the library panics in one of its goroutines, which
// ends the process.
func dialAgent(ctx context.Context, sdk *codersdk.Client, id uuid.UUID) (workspacesdk.AgentConn, error) {
	workspaces := workspacesdk.New(sdk)
	info, err := workspaces.AgentConnectionInfo(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := checkRelays(info.DERPMap); err != nil {
		return nil, err
	}
	workspaces.RewriteDERPMap(info.DERPMap)
	var silent slog.Logger
	network, err := tailnet.NewConn(&tailnet.Options{
		Addresses:           []netip.Prefix{netip.PrefixFrom(tailnet.TailscaleServicePrefix.RandomAddr(), 128)},
		DERPMap:             info.DERPMap,
		DERPForceWebSockets: info.DERPForceWebSockets,
		BlockEndpoints:      true,
		CaptureHook:         onlyOutbound,
		ClientType:          proto.TelemetryEvent_CLI,
		Logger:              silent,
	})
	if err != nil {
		return nil, fmt.Errorf("creating the network: %w", err)
	}
	// The library requires that messages are not compressed.
	options := &websocket.DialOptions{HTTPClient: sdk.HTTPClient, CompressionMode: websocket.CompressionDisabled}
	sdk.SessionTokenProvider.SetDialOption(options)
	coordinator := sdk.URL.JoinPath("api/v2/workspaceagents", id.String(), "coordinate")
	dialer := checkedDialer{workspacesdk.NewWebsocketDialer(silent, coordinator, options)}
	peers := tailnet.NewTunnelSrcCoordController(silent, network)
	peers.AddDestination(id)
	controller := tailnet.NewController(silent, dialer)
	controller.CoordCtrl = peers
	controller.DERPCtrl = tailnet.NewBasicDERPController(silent, workspaces, network)
	controller.ResumeTokenCtrl = tailnet.NewBasicResumeTokenController(silent, quartz.NewReal())
	open, stop := context.WithCancel(context.Background())
	controller.Run(open)
	select {
	case <-ctx.Done():
		err = fmt.Errorf("no connection for agents from Coder: %w", ctx.Err())
	case err = <-dialer.Connected():
	}
	if err != nil {
		stop()
		_ = network.Close()
		return nil, err
	}
	agent := workspacesdk.NewAgentConn(network, workspacesdk.AgentConnOptions{AgentID: id, CloseFunc: func() error {
		stop()
		<-controller.Closed()
		return nil
	}})
	if !agent.AwaitReachable(ctx) {
		_ = agent.Close()
		return nil, fmt.Errorf("the agent has not answered: %w", ctx.Err())
	}
	return agent, nil
}

// checkRelays returns an error for a map with which Tailscale would panic.
func checkRelays(relays *tailcfg.DERPMap) error {
	if relays == nil {
		return nil
	}
	for id, region := range relays.Regions {
		if region == nil || len(region.Nodes) == 0 || slices.Contains(region.Nodes, nil) {
			return fmt.Errorf("the DERP map has no relay in region %d", id)
		}
	}
	return nil
}

// checkedDialer checks the messages that Coder sends while the connection is open. After an error the
// library connects to Coder again.
type checkedDialer struct{ *workspacesdk.WebsocketDialer }

// Dial implements tailnet.ControlProtocolDialer.
func (d checkedDialer) Dial(ctx context.Context, r tailnet.ResumeTokenController) (tailnet.ControlProtocolClients, error) {
	clients, err := d.WebsocketDialer.Dial(ctx, r)
	if err == nil {
		clients.DERP = checkedRelays{clients.DERP.(*tailnet.DERPFromDRPCWrapper)}
		clients.Coordinator = checkedPeers{clients.Coordinator}
	}
	return clients, err
}

type checkedRelays struct{ *tailnet.DERPFromDRPCWrapper }

// Recv implements tailnet.DERPClient.
func (c checkedRelays) Recv() (*tailcfg.DERPMap, error) {
	message, err := c.Client.Recv()
	if err != nil {
		return nil, err
	}
	if message.HomeParams == nil {
		message.HomeParams = &proto.DERPMap_HomeParams{}
	}
	relays := tailnet.DERPMapFromProto(message)
	return relays, checkRelays(relays)
}

type checkedPeers struct{ tailnet.CoordinatorClient }

// Recv implements tailnet.CoordinatorClient.
func (c checkedPeers) Recv() (*proto.CoordinateResponse, error) {
	response, err := c.CoordinatorClient.Recv()
	if err == nil && slices.ContainsFunc(response.PeerUpdates, func(u *proto.CoordinateResponse_PeerUpdate) bool {
		return u.Kind == proto.CoordinateResponse_PeerUpdate_NODE && u.Node == nil
	}) {
		return nil, errors.New("an update of an agent has no node")
	}
	return response, err
}
