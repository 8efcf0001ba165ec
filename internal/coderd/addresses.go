package coderd

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"syscall"
)

// metadataAddresses are those at which clouds give credentials to a machine or a pod. Of most clouds they are link-local
// addresses; these are the others.
var metadataAddresses = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),   // AWS
	netip.MustParseAddr("fd00:ec2::23"),    // AWS, for pods
	netip.MustParseAddr("fd20:ce::254"),    // Google Cloud
	netip.MustParseAddr("168.63.129.16"),   // Azure
	netip.MustParseAddr("100.100.100.200"), // Alibaba Cloud
	netip.MustParseAddr("192.0.0.192"),     // Oracle Cloud
}

// nat64 is the prefix of IPv6 addresses that end with an IPv4 address, to which a gateway translates them (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// RestrictedTransport returns the transport for a host that is named by somebody who can reach less than the operator:
// the author of an object, or a Coder. It connects to no address that means another thing for the operator than for
// them: loopback, link-local, multicast and unspecified addresses, which Kubernetes does not accept in an
// EndpointSlice either, and the metadata servers of clouds. Each address is checked when it is connected to, after the
// lookup of its name. A proxy from the environment of the operator connects to what its own rules permit.
//
// Private addresses are permitted, because the Services of the cluster have such addresses.
func RestrictedTransport() http.RoundTripper { return restrictedTransport() }

var restrictedTransport = sync.OnceValue(func() http.RoundTripper {
	direct := newTransport(&net.Dialer{Control: checkAddress})
	direct.Proxy = nil
	return directly{direct}
})

// directly sends the requests for which there is no proxy with its own transport.
type directly struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t directly) RoundTrip(req *http.Request) (*http.Response, error) {
	if proxy, err := http.ProxyFromEnvironment(req); proxy != nil || err != nil {
		return sharedTransport().RoundTrip(req)
	}
	return t.RoundTripper.RoundTrip(req)
}

var errRestricted = errors.New("the operator does not connect to")

// IsRestricted reports whether RestrictedTransport does not connect to the address of Coder. IsUnreachable is also true for the
// error.
func IsRestricted(err error) bool { return errors.Is(err, errRestricted) }

// checkAddress is the Control of a net.Dialer.
func checkAddress(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("the address %q cannot be checked: %w", address, err)
	}
	if kind := restrictedKind(to.Addr()); kind != "" {
		return fmt.Errorf("%w %s, because it is %s; use an address that other machines can reach too", errRestricted, to.Addr(), kind)
	}
	return nil
}

// restrictedKind returns what kind of address it is, if RestrictedTransport refuses it.
func restrictedKind(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if nat64.Contains(a) {
		whole := a.As16()
		a = netip.AddrFrom4([4]byte(whole[12:]))
	}
	switch {
	case a.IsUnspecified():
		return "an unspecified address"
	case a.IsLoopback():
		return "a loopback address"
	case slices.Contains(metadataAddresses, a):
		return "the metadata server of a cloud"
	case a.IsLinkLocalUnicast():
		return "a link-local address"
	case a.IsMulticast():
		return "a multicast address"
	}
	return ""
}
