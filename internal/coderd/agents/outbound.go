package agents

import (
	"time"

	"tailscale.com/net/packet"
	"tailscale.com/types/ipproto"
	"tailscale.com/wgengine/capture"
)

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
