package agents

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"tailscale.com/net/packet"
	"tailscale.com/net/tsaddr"
	"tailscale.com/wgengine/capture"
)

// victim is a server on the loopback address of the operator. It counts what reaches it.
type victim struct {
	port    uint16
	reached chan string
}

// newVictims starts servers for TCP on both loopback addresses, and for UDP.
func newVictims(t *testing.T) (tcp []victim, udp victim) {
	t.Helper()
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil && len(tcp) > 0 {
			t.Logf("this machine has no IPv6: %v", err)
			break
		} else if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		v := victim{uint16(l.Addr().(*net.TCPAddr).Port), make(chan string, 1000)} //nolint:gosec // It is a port.
		go func() {
			for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
				v.reached <- "a connection to " + l.Addr().String()
				_ = conn.Close()
			}
		}()
		tcp = append(tcp, v)
	}
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = packets.Close() })
	udp = victim{uint16(packets.LocalAddr().(*net.UDPAddr).Port), make(chan string, 1000)} //nolint:gosec // It is a port.
	go func() {
		for b := make([]byte, 100); ; {
			if _, _, err := packets.ReadFrom(b); err != nil {
				return
			}
			udp.reached <- "a packet to " + packets.LocalAddr().String()
		}
	}()
	return tcp, udp
}

// ipv6 returns a packet with a payload of a protocol.
func ipv6(protocol byte, payload ...byte) []byte {
	header := make([]byte, ipv6HeaderLength)
	header[0], header[5], header[ipv6NextHeader] = 0x60, byte(len(payload)), protocol
	return append(header, payload...)
}

// segment returns a TCP header with flags.
func segment(flags byte) []byte {
	header := make([]byte, tcpHeaderLength)
	header[12], header[tcpFlags] = 0x50, flags
	return header
}

// TestOnlyAnswersPass checks each kind of packet that an agent can send.
func TestOnlyAnswersPass(t *testing.T) {
	const fin, syn, rst, push, ack, ece = 1, 2, 4, 8, 16, 64
	const hopByHop, tcp, udp, routing, fragment, icmp, destination, tsmp = 0, 6, 17, 43, 44, 58, 60, 99
	ipv4 := append([]byte{0x45, 0, 0, 40, 0, 0, 0, 0, 64, tcp, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}, segment(ack)...)
	inFragment := append([]byte{tcp, 0, 0, 1, 0, 0, 0, 1}, segment(ack)...)
	for name, c := range map[string]struct {
		packet []byte
		passes bool
	}{
		"the second segment":             {ipv6(tcp, segment(syn|ack)...), true},
		"data":                           {ipv6(tcp, segment(ack|push)...), true},
		"an end":                         {ipv6(tcp, segment(fin|ack)...), true},
		"a refusal":                      {ipv6(tcp, segment(rst)...), true},
		"a first segment":                {ipv6(tcp, segment(syn)...), false},
		"a first segment with more":      {ipv6(tcp, segment(syn|push|fin|ece|rst)...), false},
		"half a segment":                 {ipv6(tcp, segment(ack)[:tcpFlags]...), false},
		"UDP":                            {ipv6(udp, make([]byte, 20)...), false},
		"an ICMP error":                  {ipv6(icmp, 1, 4, 0, 0), true},
		"an echo reply":                  {ipv6(icmp, 129, 0, 0, 0), true},
		"an echo request":                {ipv6(icmp, 128, 0, 0, 0), false},
		"a router advertisement":         {ipv6(icmp, 134, 0, 0, 0), false},
		"a redirect":                     {ipv6(icmp, 137, 0, 0, 0), false},
		"ICMP without a type":            {ipv6(icmp), false},
		"a pong of Tailscale":            {ipv6(tsmp, 'o'), true},
		"a ping of Tailscale":            {ipv6(tsmp, 'p'), false},
		"TSMP without a type":            {ipv6(tsmp), false},
		"a fragment":                     {ipv6(fragment, inFragment...), false},
		"options before a segment":       {ipv6(hopByHop, append([]byte{tcp, 0, 0, 0, 0, 0, 0, 0}, segment(ack)...)...), false},
		"a route before a segment":       {ipv6(routing, append([]byte{tcp, 0, 0, 0, 0, 0, 0, 0}, segment(ack)...)...), false},
		"a destination before a segment": {ipv6(destination, append([]byte{tcp, 0, 0, 0, 0, 0, 0, 0}, segment(ack)...)...), false},
		"IPv4":                           {ipv4, false},
		"another version":                {append([]byte{0x70}, ipv6(tcp, segment(ack)...)[1:]...), false},
		"half a header":                  {ipv6(tcp)[:20], false},
		"nothing":                        {nil, false},
	} {
		got := slices.Clone(c.packet)
		onlyOutbound(capture.FromPeer, time.Time{}, got, packet.CaptureMeta{})
		want := make([]byte, len(c.packet))
		if c.passes {
			want = c.packet
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", name, got, want)
		}
		for _, ours := range []capture.Path{capture.FromLocal, capture.SynthesizedToLocal, capture.SynthesizedToPeer, capture.PathDisco} {
			got := slices.Clone(c.packet)
			onlyOutbound(ours, time.Time{}, got, packet.CaptureMeta{})
			if !bytes.Equal(got, c.packet) {
				t.Errorf("%s: changed on path %d", name, ours)
			}
		}
	}
}

// TestPeerCannotConnect checks that an agent which connects to the operator, over the connection that a session opened,
// reaches nothing: neither while the session is open, nor after it, while the connection is kept for the next one.
func TestPeerCannotConnect(t *testing.T) {
	p := newPeer(t)
	pool := NewPool(nil)
	t.Cleanup(pool.Close)
	s, err := pool.Open(t.Context(), p.client, p.id)
	if err != nil {
		t.Fatal(err)
	}
	echoes(t, p, s)
	operator := <-p.operator
	tcp, udp := newVictims(t)
	attack := func(when string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		for _, v := range tcp {
			loopback := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), v.port)
			via, err := tsaddr.MapVia(1, netip.PrefixFrom(loopback.Addr(), 32))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 40 {
				to := netip.AddrPortFrom(operator, v.port)
				if i == 0 {
					to = netip.AddrPortFrom(via.Addr(), v.port)
				}
				wg.Go(func() {
					if conn, err := p.DialContextTCP(ctx, to); err == nil {
						t.Errorf("%s: the agent has a connection to %s", when, to)
						_ = conn.Close()
					}
				})
			}
		}
		conn, err := p.DialContextUDP(ctx, netip.AddrPortFrom(operator, udp.port))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		_ = conn.Close()
		for _, v := range append(tcp, udp) {
			for len(v.reached) > 0 {
				t.Errorf("%s: %s", when, <-v.reached)
			}
		}
	}
	attack("while a session is open")
	s.End()
	attack("after the session")
	if s, err = pool.Open(t.Context(), p.client, p.id); err != nil {
		t.Fatal(err)
	}
	echoes(t, p, s)
}

// echoes checks that a session connects to a port of the workspace and exchanges data with it.
func echoes(t *testing.T, p *peer, s *Session) {
	t.Helper()
	l, err := p.Listen("tcp", ":8000")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		if conn, err := l.Accept(); err == nil {
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	conn, err := s.Dial(t.Context(), 8000)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	sent := make([]byte, 1<<20)
	go func() { _, _ = conn.Write(sent) }()
	if n, err := io.ReadFull(conn, sent); err != nil {
		t.Fatalf("%d bytes came back: %v", n, err)
	}
}
