package mcpserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

func testNames() *nameCheck {
	return newNameCheck(MiddlewareConfig{
		Namespace: "coder-system", ClusterDomain: "cluster.example",
		Options: Options{
			AllowedHosts:   []string{"mcp.example.com"},
			AllowedOrigins: []string{"https://tools.example.com"},
			Identity:       &callers.AuthenticationOptions{PublicURL: "https://public.example.com/mcp"},
		},
	})
}

func TestHostAndOrigin(t *testing.T) {
	n := testNames()
	handler := n.checkHost(n.checkOrigin(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })))
	none := []string(nil)
	tests := map[string]struct {
		host   string
		origin []string
		ok     bool
	}{
		"localhost":                          {"localhost:8090", none, true},
		"localhost in capitals":              {"LOCALHOST", none, true},
		"loopback address":                   {"127.0.0.1:8090", none, true},
		"loopback address of IPv6":           {"[::1]:8090", none, true},
		"the pod's own address":              {"10.1.2.3:8090", none, true},
		"an address of IPv6":                 {"[fd00::1]:8090", none, true},
		"the Service":                        {"coder-k8s:8090", none, true},
		"the Service with its namespace":     {"coder-k8s.coder-system:8090", none, true},
		"the Service with svc":               {"coder-k8s.coder-system.svc:8090", none, true},
		"the Service in full":                {"coder-k8s.coder-system.svc.cluster.example:8090", none, true},
		"the Service in full, absolute":      {"coder-k8s.coder-system.svc.cluster.example.:8090", none, true},
		"the Service of another cluster":     {"coder-k8s.coder-system.svc.cluster.local:8090", none, false},
		"a configured name":                  {"mcp.example.com", none, true},
		"the public name":                    {"public.example.com", none, true},
		"a name that was rebound":            {"evil.example.com:8090", none, false},
		"a name that begins like ours":       {"localhost.evil.example.com", none, false},
		"a name that ends like ours":         {"evil-coder-k8s.coder-system.svc:8090", none, false},
		"the Service of another namespace":   {"coder-k8s.other.svc:8090", none, false},
		"a name like an address":             {"127.0.0.1.evil.example.com", none, false},
		"an address written as a number":     {"2130706433", none, false},
		"no host":                            {"", none, false},
		"its own origin":                     {"localhost:8090", []string{"http://localhost:8090"}, true},
		"its own origin at an address":       {"10.1.2.3:8090", []string{"http://10.1.2.3:8090"}, true},
		"a configured origin":                {"mcp.example.com", []string{"https://tools.example.com"}, true},
		"a configured origin, other scheme":  {"mcp.example.com", []string{"http://tools.example.com"}, false},
		"the public origin through a proxy":  {"coder-k8s:8090", []string{"https://public.example.com"}, true},
		"another origin":                     {"localhost:8090", []string{"https://evil.example.com"}, false},
		"another port of the same host":      {"localhost:8090", []string{"http://localhost:3000"}, false},
		"another origin at an address":       {"10.1.2.3:8090", []string{"http://evil.example.com"}, false},
		"rebound, so the origin is the host": {"evil.example.com:8090", []string{"http://evil.example.com:8090"}, false},
		"the origin null":                    {"localhost:8090", []string{"null"}, false},
		"an empty origin":                    {"localhost:8090", []string{""}, false},
		"an origin of a file":                {"localhost:8090", []string{"file://"}, false},
		"two origins":                        {"localhost:8090", []string{"http://localhost:8090", "https://evil.example.com"}, false},
	}
	for name, tc := range tests {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodOptions} {
			t.Run(name+" "+method, func(t *testing.T) {
				r := httptest.NewRequest(method, "/mcp", nil)
				r.Host = tc.host
				if tc.origin != nil {
					r.Header["Origin"] = tc.origin
				}
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if (w.Code == http.StatusOK) != tc.ok || (!tc.ok && w.Code != http.StatusForbidden) {
					t.Errorf("the answer is %d %s", w.Code, w.Body)
				}
			})
		}
	}
}

func TestPagesOfAListedOriginMayCall(t *testing.T) {
	w := newWorld(func(c *MiddlewareConfig) { c.Options.AllowedOrigins = []string{"https://tools.example.com"} })
	handler := w.handler(func(http.ResponseWriter, *http.Request) {})
	preflight := func(origin string) func(*http.Request) {
		return func(r *http.Request) {
			r.Method = http.MethodOptions
			r.Header.Del("Authorization")
			r.Header.Set("Origin", origin)
			r.Header.Set("Access-Control-Request-Method", "POST")
			r.Header.Set("Access-Control-Request-Headers", "authorization,content-type,mcp-method")
		}
	}
	answered := ask(handler, preflight("https://tools.example.com"))
	header := answered.Header()
	if answered.Code != http.StatusNoContent || header.Get("Access-Control-Allow-Origin") != "https://tools.example.com" ||
		!strings.Contains(header.Get("Access-Control-Allow-Methods"), "POST") ||
		!strings.Contains(header.Get("Access-Control-Allow-Headers"), "authorization") || header.Get("Vary") != "Origin" {
		t.Errorf("the browser is answered %d %v", answered.Code, header)
	}
	answered = ask(handler, func(r *http.Request) { r.Header.Set("Origin", "https://tools.example.com") })
	if answered.Code != http.StatusOK || answered.Header().Get("Access-Control-Allow-Origin") != "https://tools.example.com" {
		t.Errorf("the page is answered %d %v", answered.Code, answered.Header())
	}
	for _, origin := range []string{"https://evil.example.com", "http://localhost:8090"} {
		answered := ask(handler, preflight(origin))
		if answered.Code < 400 || answered.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("the origin %s is answered %d %v", origin, answered.Code, answered.Header())
		}
	}
}

func FuzzHostname(f *testing.F) {
	for _, seed := range []string{"localhost:8090", "[::1]:8090", "a.", ":", "[", "]:1", "::1"} {
		f.Add(seed)
	}
	n := testNames()
	f.Fuzz(func(t *testing.T, host string) {
		r := &http.Request{Host: host}
		if n.hostAllowed(r) && strings.Contains(hostname(host), "evil") {
			t.Errorf("%q is allowed", host)
		}
	})
}
