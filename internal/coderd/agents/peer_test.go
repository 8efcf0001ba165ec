package agents

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cdr.dev/slog/v3"
	"github.com/coder/coder/v2/codersdk/workspacesdk"
	"github.com/coder/coder/v2/tailnet"
	"github.com/coder/coder/v2/tailnet/proto"
	"github.com/coder/websocket"
	"github.com/google/uuid"
	"tailscale.com/derp"
	"tailscale.com/derp/derphttp"
	"tailscale.com/net/tsaddr"
	"tailscale.com/tailcfg"
	nodekey "tailscale.com/types/key"
	"tailscale.com/types/logger"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// peer is an agent that may do anything, with the coordinator and the relay of Coder.
type peer struct {
	*tailnet.Conn
	id     uuid.UUID
	client *coderd.Client
	// operator is the address of the other end of the connection, which the coordinator sends to the agent.
	operator chan netip.Addr
}

// newPeer starts an agent and its Coder, which names these relays in addition to its own.
func newPeer(t *testing.T, more ...*tailcfg.DERPRegion) *peer {
	t.Helper()
	var silent slog.Logger
	p := &peer{id: uuid.New(), operator: make(chan netip.Addr, 1)}
	coordinator := tailnet.NewCoordinator(silent)
	relay := derp.NewServer(nodekey.NewNode(), logger.Discard)
	t.Cleanup(func() { _ = relay.Close() })
	handler, closeHandler := tailnet.WithWebsocketSupport(relay, derphttp.Handler(relay))
	t.Cleanup(closeHandler)
	relays := &tailcfg.DERPMap{Regions: map[int]*tailcfg.DERPRegion{1: {
		RegionID: 1, RegionCode: "coder", EmbeddedRelay: true,
		Nodes: []*tailcfg.DERPNode{{Name: "1a", RegionID: 1, HostName: "coder.invalid", STUNPort: -1}},
	}}}
	own := relays.Clone()
	for _, region := range more {
		relays.Regions[region.RegionID] = region
	}
	var current atomic.Pointer[tailnet.Coordinator]
	current.Store(&coordinator)
	service, err := tailnet.NewClientService(tailnet.ClientServiceOptions{
		CoordPtr: &current, DERPMapUpdateFrequency: time.Hour, DERPMapFn: relays.Clone,
		ResumeTokenProvider: tailnet.NewInsecureTestResumeTokenProvider(),
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/derp":
			handler.ServeHTTP(w, r)
		case strings.HasSuffix(r.URL.Path, "/connection"):
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(workspacesdk.AgentConnectionInfo{DERPMap: relays})
		case strings.HasSuffix(r.URL.Path, "/coordinate"):
			conn, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			stream := tailnet.StreamID{Name: "client", ID: uuid.New(), Auth: tailnet.ClientCoordinateeAuth{AgentID: p.id}}
			_ = service.ServeClient(r.Context(), r.URL.Query().Get("version"), websocket.NetConn(r.Context(), conn, websocket.MessageBinary), stream)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.CloseClientConnections)
	if p.client, err = coderd.New(coderd.Config{URL: server.URL, Token: "aaaaaaaaaa-bbbbbbbbbbbbbbbbbbbbbb"}); err != nil {
		t.Fatal(err)
	}
	port := server.Listener.Addr().(*net.TCPAddr).Port
	*own.Regions[1].Nodes[0] = tailcfg.DERPNode{Name: "1a", RegionID: 1, HostName: "127.0.0.1", DERPPort: port, ForceHTTP: true, STUNPort: -1}
	p.join(t, coordinator, own)
	return p
}

// join connects the agent to the coordinator.
func (p *peer) join(t *testing.T, coordinator tailnet.Coordinator, relays *tailcfg.DERPMap) {
	t.Helper()
	var err error
	p.Conn, err = tailnet.NewConn(&tailnet.Options{
		Addresses: []netip.Prefix{tailnet.TailscaleServicePrefix.PrefixFromUUID(p.id)}, DERPMap: relays, BlockEndpoints: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	var silent slog.Logger
	client := tailnet.NewInMemoryCoordinatorClient(silent, p.id, tailnet.AgentCoordinateeAuth{ID: p.id}, coordinator)
	t.Cleanup(func() { _ = client.Close() })
	tailnet.NewAgentCoordinationController(silent, watched{p.Conn, p.operator}).New(client)
}

// watched is the connection of the agent. It reports the address of the first peer, and sends it the packets for IPv4
// addresses too, in the form that Tailscale has for them (4via6).
type watched struct {
	*tailnet.Conn
	operator chan<- netip.Addr
}

// UpdatePeers implements tailnet.Coordinatee.
func (w watched) UpdatePeers(updates []*proto.CoordinateResponse_PeerUpdate) error {
	for _, u := range updates {
		if node, err := tailnet.ProtoToNode(u.Node); u.Node != nil && err == nil && len(node.Addresses) > 0 {
			u.Node.AllowedIps = append(u.Node.AllowedIps, tsaddr.TailscaleViaRange().String())
			select {
			case w.operator <- node.Addresses[0].Addr():
			default:
			}
		}
	}
	return w.Conn.UpdatePeers(updates)
}
