package mcpserver

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

const listTools = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

func TestRequestsThatAreRefused(t *testing.T) {
	big := strings.Repeat(" ", 1<<20+1)
	token := func(value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+value) }
	}
	tests := map[string]struct {
		body   string
		change func(*http.Request)
		status int
		says   string
		header map[string]string
	}{
		"no token":                   {listTools, func(r *http.Request) { r.Header.Del("Authorization") }, 401, "kubectl create token", map[string]string{"Www-Authenticate": `Bearer realm="coder-k8s-mcp"`}},
		"a token that nobody knows":  {listTools, token("made-up"), 401, "", nil},
		"a user who may not enter":   {listTools, token(eveToken), 403, "coder-k8s-mcp-user", nil},
		"a host that was rebound":    {listTools, func(r *http.Request) { r.Host = "evil.example.com" }, 403, "--mcp-allowed-hosts", nil},
		"a page of another origin":   {listTools, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example.com") }, 403, "--mcp-allowed-origins", nil},
		"too large":                  {big, nil, 413, "1 MiB", nil},
		"too large, from a stranger": {big, func(r *http.Request) { r.Header.Del("Authorization") }, 413, "1 MiB", nil},
		"too large, in chunks":       {big, func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader(big)), -1 }, 413, "", nil},
		"not JSON":                   {listTools, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415, "", nil},
		"GET, as there is no stream": {"", func(r *http.Request) { r.Method = http.MethodGet }, 405, "", nil},
		"another path":               {listTools, func(r *http.Request) { r.URL.Path = "/other" }, 404, "", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := running(t)
			response, body := h.post(t, tc.body, tc.change)
			if response.StatusCode != tc.status || !strings.Contains(body, tc.says) {
				t.Errorf("the answer is %d %q, want %d with %q", response.StatusCode, body, tc.status, tc.says)
			}
			for header, want := range tc.header {
				if got := response.Header.Get(header); got != want {
					t.Errorf("%s is %q, want %q", header, got, want)
				}
			}
			if strings.Contains(name, "may not enter") && !strings.Contains(h.logs.String(), `"status"=403 "user"="eve"`) {
				t.Errorf("the log does not say who may not enter:\n%s", h.logs)
			}
			if response.Header.Get("X-Request-Id") == "" {
				t.Error("the answer has no request id")
			}
			if logs := h.logs.String() + body; strings.Contains(logs, "token-of") || strings.Contains(logs, "made-up") {
				t.Errorf("a token is in the log or the answer:\n%s", logs)
			}
		})
	}
}

func TestTheServerGoesByItsNames(t *testing.T) {
	h := running(t, func(c *Config) {
		c.Options.AllowedHosts = []string{"mcp.internal"}
		c.Options.AllowedOrigins = []string{"https://tools.example.com"}
		c.Options.Identity.PublicURL = "https://mcp.example.com/mcp"
	})
	for _, tc := range []struct{ host, origin string }{
		{"mcp.internal", ""}, {"mcp.example.com", ""}, {"coder-k8s.coder-system.svc.cluster.local:8090", ""},
		{"localhost:8090", "https://tools.example.com"}, {"localhost:8090", "https://mcp.example.com"},
	} {
		response, body := h.post(t, listTools, func(r *http.Request) {
			r.Host = tc.host
			if tc.origin != "" {
				r.Header.Set("Origin", tc.origin)
			}
		})
		if response.StatusCode != http.StatusOK {
			t.Errorf("as %q from %q the answer is %d %s", tc.host, tc.origin, response.StatusCode, body)
		}
	}
}

// A page of another site can make a browser send such requests without a preflight, to a
// server on the user's machine.
func TestAPageCannotRunATool(t *testing.T) {
	one := callBody("list_control_planes", "{}")
	batch := `[{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"x","version":"1"}}},` +
		`{"jsonrpc":"2.0","method":"notifications/initialized"},` + one + `]`
	simple := []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""}
	for who, mode := range map[string]callers.Mode{"with tokens": callers.ModeTokenReview, "for everybody on the machine": callers.ModeNone} {
		h := running(t, func(c *Config) {
			c.Options.Identity.Mode = mode
			c.Options.BindAddress = "127.0.0.1:0"
		})
		for what, body := range map[string]string{"a batch": batch, "a call": one} {
			for _, contentType := range simple {
				for from, change := range map[string]func(*http.Request){
					"a page of another site":            func(r *http.Request) { r.Header.Set("Origin", "https://evil.example.com") },
					"a page whose name was rebound":     func(r *http.Request) { r.Host = "evil.example.com"; r.Header.Set("Origin", "http://evil.example.com") },
					"a page whose browser says nothing": func(*http.Request) {},
				} {
					t.Run(strings.Join([]string{who, what, contentType, from}, ", "), func(t *testing.T) {
						response, answer := h.post(t, body, func(r *http.Request) {
							r.Header.Set("Content-Type", contentType)
							r.Header.Set("Accept", "*/*")
							change(r)
						})
						if response.StatusCode < 400 || response.StatusCode >= 500 {
							t.Errorf("the answer is %d %s", response.StatusCode, answer)
						}
					})
				}
			}
		}
		for _, r := range h.kube.requests("", controlPlanesPath) {
			if r.Header.Get("Impersonate-User") != "" || mode == callers.ModeNone {
				t.Errorf("%s: a tool ran", who)
			}
		}
	}
}

func TestABusyServerSaysSo(t *testing.T) {
	h := running(t, func(c *Config) { c.Options.MaxInFlight = 1 })
	entered, open := make(chan struct{}), make(chan struct{})
	h.kube.handle("GET "+workspacesPath, func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-open
		writeJSON(w, http.StatusOK, workspaceList())
	})
	var group sync.WaitGroup
	group.Go(func() {
		// This is the first request, so no earlier request can occupy the only place.
		response, body := h.post(t, callBody("list_workspaces", `{"namespace":"coder"}`), nil)
		if response.StatusCode != http.StatusOK {
			t.Errorf("the call that is in work is answered with %d %q", response.StatusCode, body)
		}
	})
	await(t, "the call is in work", entered)
	response, body := h.post(t, listTools, nil)
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		t.Errorf("the answer is %d %q", response.StatusCode, body)
	}
	if response, err := http.Get(strings.TrimSuffix(h.url, callers.MCPPath) + "/readyz"); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("a busy server says that it is not ready: %v, %v", response, err)
	}
	close(open)
	group.Wait()
}

func TestMetadataIsForClientsOfAnIssuer(t *testing.T) {
	h := running(t)
	response, err := http.Get(strings.TrimSuffix(h.url, callers.MCPPath) + callers.MetadataPath)
	if err != nil {
		t.Fatal(err)
	}
	drain(response)
	if response.StatusCode != http.StatusNotFound {
		t.Errorf("without an issuer the answer is %d, want 404", response.StatusCode)
	}
	h = newHarness(t, func(c *Config) {
		c.Options.Identity.Mode = callers.ModeOIDC
		c.Options.Identity.PublicURL = "https://mcp.example.com/mcp"
		c.Options.Identity.OIDC.IssuerURL = "https://login.example.com"
	})
	for _, path := range []string{callers.MetadataPath, callers.MetadataPath + callers.MCPPath} {
		body, status := serve(h, path, map[string]string{"Origin": "https://tool.example.org"})
		if status != http.StatusOK || !strings.Contains(body, "https://login.example.com") {
			t.Errorf("%s gives %d %s", path, status, body)
		}
	}
}
