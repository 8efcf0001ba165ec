package mcpserver

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/utils/clock"
)

func TestHostAndOrigin(t *testing.T) {
	options := *NewOptions()
	options.AllowedHosts = []string{"mcp.example.com"}
	options.AllowedOrigins = []string{"https://tools.example.com"}
	g := newGuard(options, "coder-system")
	handler := g.wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
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
		"the Service in full":                {"coder-k8s.coder-system.svc.cluster.local:8090", none, true},
		"the Service in full, absolute":      {"coder-k8s.coder-system.svc.cluster.local.:8090", none, true},
		"a configured name":                  {"mcp.example.com", none, true},
		"a name that was rebound":            {"evil.example.com:8090", none, false},
		"a name that begins like ours":       {"localhost.evil.example.com", none, false},
		"a name that ends like ours":         {"evil-coder-k8s.coder-system.svc:8090", none, false},
		"the Service of another namespace":   {"coder-k8s.other.svc:8090", none, false},
		"a name like an address":             {"127.0.0.1.evil.example.com", none, false},
		"no host":                            {"", none, false},
		"its own origin":                     {"localhost:8090", []string{"http://localhost:8090"}, true},
		"its own origin at an address":       {"10.1.2.3:8090", []string{"http://10.1.2.3:8090"}, true},
		"a configured origin":                {"mcp.example.com", []string{"https://tools.example.com"}, true},
		"a configured origin, other scheme":  {"mcp.example.com", []string{"http://tools.example.com"}, false},
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
				if (w.Code == http.StatusOK) != tc.ok {
					t.Errorf("the answer is %d %s", w.Code, w.Body)
				}
			})
		}
	}
}

func TestHostIsCheckedBeforeTheToken(t *testing.T) {
	h := running(t)
	response, _ := h.post(t, strings.NewReader("{}"), func(r *http.Request) { r.Host = "evil.example.com" })
	if response.StatusCode != http.StatusForbidden || h.people.reviews != 0 {
		t.Errorf("the answer is %d after %d reviews, want 403 after none", response.StatusCode, h.people.reviews)
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	big := strings.Repeat(" ", maxBodyBytes+1)
	tests := map[string]struct {
		body   io.Reader
		change func(*http.Request)
		status int
	}{
		"too large, with its length":      {strings.NewReader(big), nil, http.StatusRequestEntityTooLarge},
		"too large, in chunks":            {io.MultiReader(strings.NewReader(big)), nil, http.StatusRequestEntityTooLarge},
		"a form of a web page, as a POST": {strings.NewReader("[" + callBody("list_workspaces", "{}") + "]"), func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, http.StatusUnsupportedMediaType},
		"GET, because there is no stream": {http.NoBody, func(r *http.Request) { r.Method = http.MethodGet }, http.StatusMethodNotAllowed},
		"another path":                    {http.NoBody, func(r *http.Request) { r.URL.Path = "/other" }, http.StatusNotFound},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := running(t)
			response, body := h.post(t, tc.body, tc.change)
			if response.StatusCode != tc.status {
				t.Errorf("the answer is %d %q, want %d", response.StatusCode, body, tc.status)
			}
			if response.Header.Get(requestIDHeader) == "" {
				t.Error("the answer has no request id")
			}
			if len(h.kube.requests(workspacesPath)) != 0 {
				t.Error("a tool ran")
			}
		})
	}
}

func TestALargeRequestOfAStrangerIsNotRead(t *testing.T) {
	h := running(t)
	response, _ := h.post(t, strings.NewReader(strings.Repeat(" ", maxBodyBytes+1)), func(r *http.Request) { r.Header.Del("Authorization") })
	if response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("the answer is %d, want 413", response.StatusCode)
	}
}

func TestAPanicIsAnAnswer(t *testing.T) {
	logs := &logBuffer{}
	handler := recovered(logs.logger(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("secret detail") }))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/mcp", nil))
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret detail") {
		t.Errorf("the answer is %d %s", w.Code, w.Body)
	}
	if !strings.Contains(logs.String(), "secret detail") {
		t.Error("the log does not have the panic")
	}
}

func TestAPanicOfAToolIsAnError(t *testing.T) {
	boom := func(context.Context, string, mcp.Request) (mcp.Result, error) { panic("secret detail") }
	_, err := guardCalls(clock.RealClock{})(boom)(t.Context(), methodCallTool, &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: "x"}})
	if err == nil || strings.Contains(err.Error(), "secret detail") {
		t.Errorf("the error is %v", err)
	}
}
