package agents

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/coder/v2/codersdk"
	"github.com/coder/websocket"
	"tailscale.com/tailcfg"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// region returns a region with relays at these addresses.
func region(id int, at ...string) *tailcfg.DERPRegion {
	r := &tailcfg.DERPRegion{RegionID: id}
	for _, address := range at {
		host, port, _ := net.SplitHostPort(address)
		number, _ := strconv.Atoi(port)
		r.Nodes = append(r.Nodes, &tailcfg.DERPNode{Name: address, RegionID: id, HostName: host, DERPPort: number, ForceHTTP: true})
	}
	return r
}

// relaysOf returns the relays of a Coder at a URL.
func relaysOf(t *testing.T, coder string, regions ...*tailcfg.DERPRegion) *relays {
	t.Helper()
	client, err := coderd.New(coderd.Config{URL: coder, Token: "aaaaaaaaaa-bbbbbbbbbbbbbbbbbbbbbb"})
	if err != nil {
		t.Fatal(err)
	}
	var r *relays
	if err := client.WithSDK(t.Context(), "test", func(_ context.Context, sdk *codersdk.Client) error {
		r = newRelays(sdk)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	m := &tailcfg.DERPMap{Regions: map[int]*tailcfg.DERPRegion{}}
	for _, region := range regions {
		m.Regions[region.RegionID] = region
	}
	if _, err := r.update(m); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRelaysOnLoopback checks that a Coder cannot have its relays and STUN servers looked for on the operator's loopback
// address, not even to measure how far they are. Its own relay is reached there if Coder itself is.
func TestRelaysOnLoopback(t *testing.T) {
	tcp, udp := newVictims(t)
	ports := []string{strconv.Itoa(int(tcp[0].port)), strconv.Itoa(int(tcp[len(tcp)-1].port))}
	other := region(2, "127.0.0.1:"+ports[0], "localhost:"+ports[0], "[::1]:"+ports[1])
	other.Nodes[0].STUNPort, other.Nodes[0].STUNTestIP = int(udp.port), "127.0.0.1"
	stun := region(3, "127.0.0.1:1")
	stun.Nodes[0].STUNOnly, stun.Nodes[0].STUNPort = true, int(udp.port)
	p := newPeer(t, other, stun)
	pool := NewPool(nil)
	t.Cleanup(pool.Close)
	s, err := pool.Open(t.Context(), p.client, p.id)
	if err != nil {
		t.Fatal(err)
	}
	echoes(t, p, s)
	r := relaysOf(t, "http://coder.invalid", other)
	if _, err := r.dial(t.Context(), other).Read(make([]byte, 1)); err == nil {
		t.Error("a relay on the loopback address is connected")
	}
	if !strings.Contains(r.problem(), "connecting to the relay at [::1]:"+ports[1]) || !strings.Contains(r.problem(), "it is a loopback address") {
		t.Errorf("the problem is %q", r.problem())
	}
	for _, v := range append(tcp, udp) {
		for len(v.reached) > 0 {
			t.Error(<-v.reached)
		}
	}
}

// TestRelayAddressesAreHidden checks that Coder's library learns no address, and which region it makes its own.
func TestRelayAddressesAreHidden(t *testing.T) {
	stun := region(1, "stun.example.com:1")
	stun.Nodes[0].STUNOnly = true
	coder := region(7, "coder.example.com:1")
	coder.EmbeddedRelay = true
	near, far := region(5, "near.example.com:1", "near.example.com:2"), region(8, "far.example.com:1")
	for name, c := range map[string]struct {
		regions []*tailcfg.DERPRegion
		known   []int
		home    []int
	}{
		"Coder's own":   {[]*tailcfg.DERPRegion{stun, near, coder, far}, []int{5, 7, 8}, []int{7}},
		"others alone":  {[]*tailcfg.DERPRegion{stun, far, near}, []int{5, 8}, []int{5}},
		"none but STUN": {[]*tailcfg.DERPRegion{stun}, []int{}, nil},
	} {
		m := &tailcfg.DERPMap{Regions: map[int]*tailcfg.DERPRegion{}}
		for _, region := range c.regions {
			m.Regions[region.RegionID] = region
		}
		shown, err := (&relays{}).update(m)
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := json.Marshal(shown); strings.Contains(string(text), "example.com") {
			t.Errorf("%s: %s contains an address", name, text)
		}
		if !slices.Equal(shown.RegionIDs(), c.known) || !slices.Equal(shown.RegionIDsNoSTUNOnly(), c.home) {
			t.Errorf("%s: regions %v, home %v, want %v, %v", name, shown.RegionIDs(), shown.RegionIDsNoSTUNOnly(), c.known, c.home)
		}
	}
}

// TestRelayAddress checks where a relay is looked for.
func TestRelayAddress(t *testing.T) {
	for want, node := range map[string]tailcfg.DERPNode{
		"https://a.example.com:443":  {HostName: "a.example.com", IPv4: "192.0.2.1"},
		"http://a.example.com:8080":  {HostName: "a.example.com", DERPPort: 8080, ForceHTTP: true},
		"https://192.0.2.1:443":      {IPv4: "192.0.2.1", IPv6: "2001:db8::1"},
		"https://[2001:db8::1]:3443": {IPv4: "none", IPv6: "2001:db8::1", DERPPort: 3443},
		"it has 0 characters":        {IPv4: "none", IPv6: "none"},
		"it has 254 characters":      {HostName: strings.Repeat("a", 254)},
	} {
		got, err := addressOf(&node)
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && got.String() != want {
			t.Errorf("%+v: %v, %v, want %s", node, got, err, want)
		}
	}
}

// TestRelayRedirects checks that a relay which redirects is not followed.
func TestRelayRedirects(t *testing.T) {
	tcp, _ := newVictims(t)
	to := "http://127.0.0.1:" + strconv.Itoa(int(tcp[0].port))
	server := httptest.NewServer(http.RedirectHandler(to, http.StatusTemporaryRedirect))
	defer server.Close()
	own := region(1)
	own.EmbeddedRelay, own.Nodes = true, []*tailcfg.DERPNode{{}}
	other := region(2, server.Listener.Addr().String())
	r := relaysOf(t, server.URL, own, other)
	// Only the address is not checked.
	r.others.Transport = http.DefaultTransport
	for _, region := range []*tailcfg.DERPRegion{own, other} {
		if _, err := r.dial(t.Context(), region).Read(make([]byte, 1)); err == nil || r.problem() == "" {
			t.Errorf("region %d is connected: %v", region.RegionID, err)
		}
	}
	if len(tcp[0].reached) > 0 {
		t.Error(<-tcp[0].reached)
	}
}

// TestRelayConnectionsEnd checks that no connection to a relay is left: not one that another replaces, which the library does
// not close if it failed in its first message, nor one after the end.
func TestRelayConnectionsEnd(t *testing.T) {
	ended := make(chan struct{}, 10)
	opened := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		opened++
		if conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"derp"}}); err == nil {
			_, _, _ = conn.Read(context.Background())
			ended <- struct{}{}
		}
	}))
	defer server.Close()
	own := region(1)
	own.EmbeddedRelay, own.Nodes = true, []*tailcfg.DERPNode{{}}
	r := relaysOf(t, server.URL, own)
	wait := func(what string) {
		t.Helper()
		polltest.Eventually(t, what, func() error {
			select {
			case <-ended:
				return nil
			default:
				return errors.New("it is open")
			}
		})
	}
	first := r.dial(t.Context(), own)
	second := r.dial(t.Context(), own)
	wait("the first connection ends")
	r.close()
	wait("the second connection ends")
	for _, conn := range []net.Conn{first, second, r.dial(t.Context(), own), r.dial(t.Context(), region(2))} {
		if _, err := io.ReadAll(conn); err == nil {
			t.Error("a connection is open")
		}
	}
	if opened != 2 {
		t.Errorf("%d connections were opened, want 2", opened)
	}
}
