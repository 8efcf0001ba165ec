package apiserver

import (
	"net"
	"testing"

	"k8s.io/apiserver/pkg/server/options"
)

// TestBothFamilies checks that the default listen address is reachable over IPv4 and over IPv6,
// although the library prints it as an IPv4 address, which the loopback client needs.
func TestBothFamilies(t *testing.T) {
	opts := NewOptions()
	for name, host := range map[string]string{
		"aggregated API": opts.SecureServing.BindAddress.String(),
	} {
		listener, port, err := options.CreateListener("tcp", net.JoinHostPort(host, "0"), net.ListenConfig{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		for _, loopback := range []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback} {
			if !has(loopback) {
				t.Logf("this machine has no %s", loopback)
				continue
			}
			connection, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: loopback, Port: port})
			if err != nil {
				t.Errorf("%s is not reached at %s: %v", name, loopback, err)
				continue
			}
			_ = connection.Close()
		}
	}
}

// has reports whether the machine has an address.
func has(address net.IP) bool {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: address})
	if err != nil {
		return false
	}
	_ = listener.Close()
	return true
}
