package mcpserver

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// serviceName is the name of the server's Service.
const serviceName = "coder-k8s"

// nameCheck checks the Host and Origin headers. Without these checks, a web page could resolve
// its own host name to the server's address, and then send requests from the visitor's
// browser (DNS rebinding).
//
// The Host may be a listed name or any IP address, on every address of the machine. IP
// addresses are safe: the attack needs a name, because the browser sends the host of the
// page's origin as Host. A page whose origin is an IP address can reach only that address.
// And IP addresses cannot be listed, because those of Services, nodes and load balancers
// are not known here.
type nameCheck struct {
	hosts   map[string]bool
	origins map[string]bool
}

func newNameCheck(cfg MiddlewareConfig) *nameCheck {
	allowed := &nameCheck{hosts: map[string]bool{"localhost": true}, origins: map[string]bool{}}
	if cfg.Namespace != "" {
		for _, suffix := range []string{"", "." + cfg.Namespace, "." + cfg.Namespace + ".svc", "." + cfg.Namespace + ".svc." + cfg.ClusterDomain} {
			allowed.hosts[hostname(serviceName+suffix)] = true
		}
	}
	for _, host := range cfg.Options.AllowedHosts {
		allowed.hosts[hostname(host)] = true
	}
	if u, err := url.Parse(cfg.Options.Identity.PublicURL); err == nil && u.Host != "" {
		allowed.hosts[hostname(u.Host)] = true
		// A proxy may have replaced the public Host with its own.
		allowed.origins[originOf(u)] = true
	}
	for _, origin := range cfg.Options.AllowedOrigins {
		if u, err := url.Parse(origin); err == nil {
			allowed.origins[originOf(u)] = true
		}
	}
	return allowed
}

// checkHost rejects requests whose Host is not allowed with 403.
func (n *nameCheck) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !n.hostAllowed(r) {
			http.Error(w, "the host in the Host header is not allowed; an administrator can add it with --mcp-allowed-hosts", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkOrigin rejects requests whose Origin is not allowed with 403, for all methods. It
// sets CORS headers for listed origins.
func (n *nameCheck) checkOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin, allowed := n.originAllowed(r)
		if !allowed {
			http.Error(w, "pages of this Origin may not call this server; an administrator can add it with --mcp-allowed-origins", http.StatusForbidden)
			return
		}
		if origin != "" {
			// Pages of the origin may read the response, including the headers that an MCP
			// client needs.
			header := w.Header()
			header.Set("Access-Control-Allow-Origin", origin)
			header.Set("Access-Control-Expose-Headers", "Retry-After, WWW-Authenticate, "+tracing.RequestIDHeader)
			header.Add("Vary", "Origin")
			if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
				allowPreflight(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (n *nameCheck) hostAllowed(r *http.Request) bool {
	name := hostname(r.Host)
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return n.hosts[name]
}

// originAllowed reports whether the Origin is listed or equals the Host, which has been
// checked before: a page may call the server that it was loaded from. It returns the origin
// only if it is listed.
func (n *nameCheck) originAllowed(r *http.Request) (string, bool) {
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

// hostname removes the port, the brackets of an IPv6 address and the final dot of an
// absolute name, and converts the rest to lower case.
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

// allowPreflight answers a preflight request of an allowed origin. It allows the methods of
// the protocol and any header: the token is in a header, and a page cannot send a token
// that it does not have. Browsers send preflight requests without a token, so this runs
// before authentication.
func allowPreflight(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Methods", "POST")
	w.Header().Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	w.Header().Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}
