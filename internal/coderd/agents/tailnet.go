package agents

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"cdr.dev/slog/v3"
	"github.com/coder/coder/v2/codersdk"
	"github.com/coder/coder/v2/codersdk/workspacesdk"
	"github.com/coder/coder/v2/tailnet"
	"github.com/coder/coder/v2/tailnet/proto"
	"github.com/coder/quartz"
	"github.com/coder/websocket"
	"github.com/google/uuid"
	"tailscale.com/net/packet"
	"tailscale.com/tailcfg"
	"tailscale.com/types/ipproto"
	"tailscale.com/wgengine/capture"
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

func (c checkedPeers) Recv() (*proto.CoordinateResponse, error) {
	response, err := c.CoordinatorClient.Recv()
	if err == nil && slices.ContainsFunc(response.PeerUpdates, func(u *proto.CoordinateResponse_PeerUpdate) bool {
		return u.Kind == proto.CoordinateResponse_PeerUpdate_NODE && u.Node == nil
	}) {
		return nil, errors.New("an update of an agent has no node")
	}
	return response, err
}

const (
	ipv6HeaderLength, tcpHeaderLength = 40, 20
	// The offsets of the protocol in an IPv6 header, and of the flags in a TCP header.
	ipv6NextHeader, tcpFlags = 6, 13
	// The types of ICMPv6 messages (RFC 4443): up to maxICMPError they report errors.
	maxICMPError, icmpEchoReply = 4, 129
)

// onlyOutbound is the capture hook of a connection. It clears each packet from the agent that answers none of ours, and the
// network stack drops a packet without a header.
//
// Without it, the library connects an agent that dials one of our ports to that port of the operator's own loopback
// address. The library has no option against that: its packet filter accepts everything and cannot be replaced, and
// the only other place where packets pass is a TUN device of our own. With such a device the library binds all its sockets to a
// network interface, for the whole process, which fails for root without capabilities. The hook is meant to copy packets. But it gets
// the packet itself, before the filter and the stack. If that changes, TestPeerCannotConnect fails.
func onlyOutbound(path capture.Path, _ time.Time, p []byte, _ packet.CaptureMeta) {
	if path == capture.FromPeer && !isAnswer(p) {
		clear(p)
	}
}

// isAnswer reports whether a packet can be an answer: a segment of a TCP connection other than its first, an
// error or an echo reply of ICMP, or the answer to a ping of Tailscale. Our address is an IPv6 address. So packets of IPv4 are none, and
// neither are packets with extension headers, such as fragments.
func isAnswer(p []byte) bool {
	if len(p) < ipv6HeaderLength || p[0]>>4 != 6 {
		return false
	}
	payload := p[ipv6HeaderLength:]
	switch ipproto.Proto(p[ipv6NextHeader]) {
	case ipproto.TCP:
		return len(payload) >= tcpHeaderLength && packet.TCPFlag(payload[tcpFlags])&packet.TCPSynAck != packet.TCPSyn
	case ipproto.ICMPv6:
		return len(payload) > 0 && (payload[0] >= 1 && payload[0] <= maxICMPError || payload[0] == icmpEchoReply)
	case ipproto.TSMP:
		return len(payload) > 0 && packet.TSMPType(payload[0]) == packet.TSMPTypePong
	}
	return false
}
