package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/coder/websocket"
	"tailscale.com/tailcfg"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

const (
	// relayTimeout limits how long a relay may take to accept a connection, and again to send its first message. The
	// library waits 10 seconds for all relays of a region.
	relayTimeout = 4 * time.Second
	// maxHostname is the limit of DNS for a name.
	maxHostname = 253
	// noAddress, as an address in a DERP map, makes Tailscale not connect.
	noAddress = "none"
)

// relays connects to the relays that Coder names. The library gets a DERP map without addresses, so that it
// connects to none of them itself, measures nothing and asks no STUN server.
type relays struct {
	// coder sends requests to Coder, which may have any address, and others to hosts that Coder names.
	coder, others *http.Client
	url           *url.URL

	mu      sync.Mutex
	regions map[int]*tailcfg.DERPRegion
	conns   map[int]relayConn
	closed  bool
	// failed is why the last relay was not reached.
	failed error
}

func newRelays(sdk *codersdk.Client) *relays {
	return &relays{
		coder: sdk.HTTPClient, others: &http.Client{
			Transport: coderd.RestrictedTransport(),
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return errors.New("a relay must not redirect to another address")
			},
		},
		url: sdk.URL, conns: map[int]relayConn{},
	}
}

// update stores the relays of a DERP map, and returns a map of the same regions for the library. Agents send to the
// home region, which is that of Coder itself if it has one: the library chooses among the regions that are not STUNOnly.
func (r *relays) update(m *tailcfg.DERPMap) (*tailcfg.DERPMap, error) {
	if m == nil {
		m = &tailcfg.DERPMap{}
	}
	shown := &tailcfg.DERPMap{Regions: map[int]*tailcfg.DERPRegion{}}
	home := 0
	for _, id := range slices.Sorted(maps.Keys(m.Regions)) {
		region := m.Regions[id]
		if region == nil || len(region.Nodes) == 0 || slices.Contains(region.Nodes, nil) {
			return nil, fmt.Errorf("the DERP map has no relay in region %d", id)
		}
		if !slices.ContainsFunc(region.Nodes, func(n *tailcfg.DERPNode) bool { return !n.STUNOnly }) {
			continue
		}
		if home == 0 || region.EmbeddedRelay && !m.Regions[home].EmbeddedRelay {
			home = id
		}
		shown.Regions[id] = &tailcfg.DERPRegion{RegionID: id, RegionCode: strconv.Itoa(id), Nodes: []*tailcfg.DERPNode{{
			Name: strconv.Itoa(id), RegionID: id, HostName: "relay" + tailcfg.DotInvalid, IPv4: noAddress, IPv6: noAddress,
			STUNPort: -1, STUNOnly: true,
		}}}
	}
	if home != 0 {
		shown.Regions[home].Nodes[0].STUNOnly = false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.regions = m.Regions
	return shown, nil
}

// dial connects to a relay of a region. It returns a closed connection if that fails: after nil the library would connect
// itself. The library connects to a region again only when the connection before is of no more use, and does not
// close one that fails in its first message.
func (r *relays) dial(ctx context.Context, shown *tailcfg.DERPRegion) net.Conn {
	r.mu.Lock()
	region := r.regions[shown.RegionID]
	if r.closed {
		region = nil
	}
	if former, ok := r.conns[shown.RegionID]; ok {
		_ = former.Close()
		delete(r.conns, shown.RegionID)
	}
	r.mu.Unlock()
	conn, err := r.connect(ctx, region)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = err
	if err == nil && r.closed {
		_ = conn.Close()
		err = net.ErrClosed
	}
	if err != nil {
		closed, _ := net.Pipe()
		_ = closed.Close()
		return closed
	}
	r.conns[shown.RegionID] = conn
	return conn
}

// connect connects to the first relay of a region that answers.
func (r *relays) connect(ctx context.Context, region *tailcfg.DERPRegion) (relayConn, error) {
	switch {
	case region == nil:
		return relayConn{}, errors.New("the DERP map has no such region any more")
	case region.EmbeddedRelay:
		return openRelay(ctx, r.coder, r.url)
	}
	var failed error
	for _, node := range region.Nodes {
		if node.STUNOnly {
			continue
		}
		at, err := addressOf(node)
		if err != nil {
			failed = err
			continue
		}
		conn, err := openRelay(ctx, r.others, at)
		if err == nil || ctx.Err() != nil {
			return conn, err
		}
		failed = err
	}
	return relayConn{}, failed
}

// addressOf returns the URL of a relay. Its name is preferred to its addresses, because it is in its certificate.
func addressOf(node *tailcfg.DERPNode) (*url.URL, error) {
	host := node.HostName
	for _, address := range []string{node.IPv4, node.IPv6} {
		if host == "" && address != noAddress {
			host = address
		}
	}
	if host == "" || len(host) > maxHostname {
		return nil, fmt.Errorf("a relay in the DERP map has no valid name: it has %d characters", len(host))
	}
	scheme := "https"
	if node.ForceHTTP {
		scheme = "http"
	}
	return &url.URL{Scheme: scheme, Host: net.JoinHostPort(host, strconv.Itoa(cmp.Or(node.DERPPort, 443)))}, nil
}

// relayConn is a connection to a relay through a WebSocket, which passes every proxy that also passes the connection to
// Coder's coordinator.
type relayConn struct {
	net.Conn
	socket *websocket.Conn
}

// Close implements net.Conn. It does not wait for the relay.
func (c relayConn) Close() error { return c.socket.CloseNow() }

func openRelay(ctx context.Context, client *http.Client, at *url.URL) (relayConn, error) {
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	socket, _, err := websocket.Dial(ctx, at.JoinPath("derp").String(), &websocket.DialOptions{ //nolint:bodyclose // The library closes it.
		HTTPClient: client, Subprotocols: []string{"derp"}, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return relayConn{}, fmt.Errorf("connecting to the relay at %s: %w", at.Host, err)
	}
	conn := relayConn{websocket.NetConn(context.Background(), socket, websocket.MessageBinary), socket}
	// The library sets this for each later message, but not for the first one.
	return conn, conn.SetReadDeadline(time.Now().Add(relayTimeout))
}

// problem returns the end of a message about an agent that does not answer: why a relay cannot be reached, if that is so.
func (r *relays) problem() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		return ""
	}
	return "; " + r.failed.Error()
}

// close closes all connections, also those that are opened later.
func (r *relays) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, conn := range r.conns {
		_ = conn.Close()
	}
}
