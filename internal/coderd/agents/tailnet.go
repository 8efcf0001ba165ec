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
	info, err := workspacesdk.New(sdk).AgentConnectionInfo(ctx, id)
	if err != nil {
		return nil, err
	}
	relays := newRelays(sdk)
	shown, err := relays.update(info.DERPMap)
	if err != nil {
		return nil, err
	}
	network, err := newNetwork(relays, shown)
	if err != nil {
		return nil, fmt.Errorf("creating the network: %w", err)
	}
	var silent slog.Logger
	// The library requires that messages are not compressed.
	options := &websocket.DialOptions{HTTPClient: sdk.HTTPClient, CompressionMode: websocket.CompressionDisabled}
	sdk.SessionTokenProvider.SetDialOption(options)
	coordinator := sdk.URL.JoinPath("api/v2/workspaceagents", id.String(), "coordinate")
	dialer := checkedDialer{workspacesdk.NewWebsocketDialer(silent, coordinator, options), relays}
	peers := tailnet.NewTunnelSrcCoordController(silent, network)
	peers.AddDestination(id)
	controller := tailnet.NewController(silent, dialer)
	controller.CoordCtrl = peers
	controller.DERPCtrl = tailnet.NewBasicDERPController(silent, nil, network)
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
		relays.close()
		_ = network.Close()
		return nil, err
	}
	agent := workspacesdk.NewAgentConn(network, workspacesdk.AgentConnOptions{AgentID: id, CloseFunc: func() error {
		stop()
		<-controller.Closed()
		relays.close()
		return nil
	}})
	if !agent.AwaitReachable(ctx) {
		problem := relays.problem()
		_ = agent.Close()
		return nil, fmt.Errorf("the agent has not answered: %w%s", ctx.Err(), problem)
	}
	return agent, nil
}

// newNetwork returns a network without peers, which uses these relays.
func newNetwork(relays *relays, shown *tailcfg.DERPMap) (*tailnet.Conn, error) {
	network, err := tailnet.NewConn(&tailnet.Options{
		Addresses:      []netip.Prefix{netip.PrefixFrom(tailnet.TailscaleServicePrefix.RandomAddr(), 128)},
		BlockEndpoints: true,
		CaptureHook:    onlyOutbound,
		ClientType:     proto.TelemetryEvent_CLI,
	})
	if err != nil {
		return nil, err
	}
	// In this order, because the library connects as soon as it has a map.
	network.SetDERPRegionDialer(relays.dial)
	network.SetDERPMap(shown)
	return network, nil
}

// checkedDialer checks the messages that Coder sends while the connection is open. After an error the
// library connects to Coder again.
type checkedDialer struct {
	*workspacesdk.WebsocketDialer
	relays *relays
}

// Dial implements tailnet.ControlProtocolDialer.
func (d checkedDialer) Dial(ctx context.Context, r tailnet.ResumeTokenController) (tailnet.ControlProtocolClients, error) {
	clients, err := d.WebsocketDialer.Dial(ctx, r)
	if err == nil {
		clients.DERP = checkedRelays{clients.DERP.(*tailnet.DERPFromDRPCWrapper), d.relays}
		clients.Coordinator = checkedPeers{clients.Coordinator}
	}
	return clients, err
}

type checkedRelays struct {
	*tailnet.DERPFromDRPCWrapper
	relays *relays
}

// Recv implements tailnet.DERPClient.
func (c checkedRelays) Recv() (*tailcfg.DERPMap, error) {
	message, err := c.Client.Recv()
	if err != nil {
		return nil, err
	}
	if message.HomeParams == nil {
		message.HomeParams = &proto.DERPMap_HomeParams{}
	}
	return c.relays.update(tailnet.DERPMapFromProto(message))
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
