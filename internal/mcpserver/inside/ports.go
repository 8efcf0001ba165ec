package inside

import (
	"context"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// maxPortBytes limits the size of the connection table that is read.
const maxPortBytes = 1 << 20

// listening is the state of a listening socket in /proc/net/tcp.
const listening = "0A"

// Ports returns the addresses on which programs of the workspace listen for TCP, sorted.
func (w Workspace) Ports(ctx context.Context) ([]netip.AddrPort, error) {
	out, err := w.fileScript(ctx, "/proc/net/tcp", script{names: []string{"ports"}}, maxPortBytes)
	if err != nil {
		return nil, err
	}
	var ports []netip.AddrPort
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[3] != listening {
			continue
		}
		if port, ok := parseAddress(fields[1]); ok && !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	slices.SortFunc(ports, func(a, b netip.AddrPort) int {
		if a.Port() != b.Port() {
			return int(a.Port()) - int(b.Port())
		}
		return a.Addr().Compare(b.Addr())
	})
	return ports, nil
}

// parseAddress parses an address in the format of /proc/net/tcp: 32-bit words in host byte
// order, which is little-endian on all platforms that Coder's agent supports.
func parseAddress(s string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(s, ":")
	address, hostErr := hex.DecodeString(host)
	number, portErr := strconv.ParseUint(port, 16, 16)
	if hostErr != nil || portErr != nil || len(address)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for word := range slices.Chunk(address, 4) {
		slices.Reverse(word)
	}
	parsed, ok := netip.AddrFromSlice(address)
	return netip.AddrPortFrom(parsed.Unmap(), uint16(number)), ok
}
