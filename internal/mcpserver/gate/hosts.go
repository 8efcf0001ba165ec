package gate

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// serviceName is the Service through which the cluster reaches the server.
const serviceName = "coder-k8s"

// Names are what the server is called by clients.
type Names struct {
	// Namespace is that of Service coder-k8s, and ClusterDomain the one of the
	// cluster, such as cluster.local. Without a namespace there is no Service.
	Namespace, ClusterDomain string
	// Hosts are further names that a request may have in its Host header.
	Hosts []string
	// Origins are web origins, such as https://tools.example.com, whose pages may
	// call the server. The server's own may always.
	Origins []string
	// PublicURL is where clients outside the cluster find the server, or empty.
	PublicURL string
}

// names decides which Host and Origin headers a request may have. Without that a
// web page could let its own name resolve to the server's address and have the
// visitor's browser talk to it (DNS rebinding).
//
// The Host may be a listed name or any address, and the check is the same on every
// address of the machine. Addresses are safe: that attack needs a name, because a
// browser sends the name of the page's origin as the Host, and a page whose origin
// is an address can reach only what really is at that address. And they cannot be
// listed, since those under which a Service, a node or a load balancer passes
// requests on are many and not known here.
type names struct {
	hosts   map[string]bool
	origins map[string]bool
}

func newNames(n Names) *names {
	allowed := &names{hosts: map[string]bool{"localhost": true}, origins: map[string]bool{}}
	if n.Namespace != "" {
		for _, suffix := range []string{"", "." + n.Namespace, "." + n.Namespace + ".svc", "." + n.Namespace + ".svc." + n.ClusterDomain} {
			allowed.hosts[hostname(serviceName+suffix)] = true
		}
	}
	for _, host := range n.Hosts {
		allowed.hosts[hostname(host)] = true
	}
	if u, err := url.Parse(n.PublicURL); err == nil && u.Host != "" {
		allowed.hosts[hostname(u.Host)] = true
		// A proxy may have put its own Host in place of the public one.
		allowed.origins[originOf(u)] = true
	}
	for _, origin := range n.Origins {
		if u, err := url.Parse(origin); err == nil {
			allowed.origins[originOf(u)] = true
		}
	}
	return allowed
}

// checkHost refuses requests whose Host is not allowed with 403.
func (n *names) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !n.hostAllowed(r) {
			http.Error(w, "the Host header names a host that this server does not answer for; an administrator can add it with --mcp-allowed-hosts", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkOrigin refuses requests whose Origin is not allowed, whatever their method,
// with 403, and tells browsers that pages of a listed origin may call.
func (n *names) checkOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin, allowed := n.originAllowed(r)
		if !allowed {
			http.Error(w, "pages of this Origin may not call this server; an administrator can add it with --mcp-allowed-origins", http.StatusForbidden)
			return
		}
		if origin != "" {
			shareWith(w.Header(), origin)
			if isPreflight(r) {
				allowPreflight(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (n *names) hostAllowed(r *http.Request) bool {
	name := hostname(r.Host)
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return n.hosts[name]
}

// originAllowed compares the Origin with the Host, which is already known to be
// one of ours: a page may call the server that it came from. It returns the origin
// if it is one of the listed.
func (n *names) originAllowed(r *http.Request) (string, bool) {
	values := r.Header.Values("Origin")
	if len(values) == 0 {
		return "", true
	}
	if len(values) > 1 {
		return "", false
	}
	u, err := url.Parse(values[0])
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", false
	}
	if origin := originOf(u); n.origins[origin] {
		return origin, true
	}
	return "", strings.EqualFold(u.Host, r.Host)
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
