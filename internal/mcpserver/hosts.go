package mcpserver

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// serviceName is the Service through which the cluster reaches the server.
const serviceName = "coder-k8s"

// guard decides which Host and Origin headers a request may have. Without it a
// web page could let its own name resolve to the server's address and have the
// visitor's browser talk to it (DNS rebinding).
//
// The Host may be a listed name or any address: an attack of that kind needs a
// name, while the addresses under which a Service, a node or a load balancer
// passes requests on are many and not known here.
type guard struct {
	names   map[string]bool
	origins map[string]bool
}

func newGuard(o Options, namespace string) *guard {
	g := &guard{names: map[string]bool{"localhost": true}, origins: map[string]bool{}}
	if namespace != "" {
		for _, suffix := range []string{"", "." + namespace, "." + namespace + ".svc", "." + namespace + ".svc.cluster.local"} {
			g.names[serviceName+suffix] = true
		}
	}
	for _, host := range o.AllowedHosts {
		g.names[hostname(host)] = true
	}
	for _, origin := range o.AllowedOrigins {
		if u, err := url.Parse(origin); err == nil {
			g.origins[originOf(u)] = true
		}
	}
	return g
}

// wrap refuses requests whose Host or Origin is not allowed, whatever their
// method, with 403.
func (g *guard) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.hostAllowed(r) {
			http.Error(w, "the Host header names a host that this server does not answer for; add it with --mcp-allowed-hosts", http.StatusForbidden)
			return
		}
		if !g.originAllowed(r) {
			http.Error(w, "pages of this Origin may not call this server; add it with --mcp-allowed-origins", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (g *guard) hostAllowed(r *http.Request) bool {
	name := hostname(r.Host)
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return g.names[name]
}

// originAllowed compares the Origin with the Host, which is already known to be
// one of ours: a page may call the server that it came from.
func (g *guard) originAllowed(r *http.Request) bool {
	values := r.Header.Values("Origin")
	if len(values) == 0 {
		return true
	}
	if len(values) > 1 {
		return false
	}
	u, err := url.Parse(values[0])
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return false
	}
	return g.origins[originOf(u)] || strings.EqualFold(u.Host, r.Host)
}

// hostname takes the port, the brackets of an IPv6 address and the final dot of
// an absolute name away, and makes the rest lower case.
func hostname(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func originOf(u *url.URL) string {
	return strings.ToLower(u.Scheme + "://" + u.Host)
}
