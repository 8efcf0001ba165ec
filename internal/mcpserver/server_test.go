package mcpserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/tools"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/tracing/tracingtest"
)

// serve calls the handler without a network connection.
func serve(h *harness, path string, header map[string]string) (body string, status int) {
	r := httptest.NewRequest(http.MethodGet, "http://localhost:8090"+path, nil)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.server.handler.ServeHTTP(w, r)
	return w.Body.String(), w.Code
}

func TestBothErasListAndCallTools(t *testing.T) {
	registry := prometheus.NewRegistry()
	h := running(t, func(c *Config) { c.Registerer = registry })
	h.kube.answer("GET "+workspacesPath, http.StatusOK, workspaceList(workspaceObject()))
	for _, protocol := range eras {
		t.Run(protocol, func(t *testing.T) {
			session := h.connect(t, protocol, aliceToken)
			init := session.InitializeResult()
			if init.ProtocolVersion != protocol || init.ServerInfo.Version != "v1.2.3" || init.Instructions == "" {
				t.Errorf("the server says %+v, want version v1.2.3, protocol %s and instructions", init, protocol)
			}
			listed, err := session.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			usual, err := tools.All().Filter(toolset.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if want := len(usual.Definitions()); len(listed.Tools) != want {
				t.Errorf("%d tools are offered, want %d", len(listed.Tools), want)
			}
			result := session.Call(t, "list_workspaces", map[string]any{"namespace": "coder"})
			if result.IsError || !strings.Contains(mcptest.Text(result), `"name":"default.alice.dev"`) {
				t.Errorf("the answer is %s", mcptest.Text(result))
			}
			prompts, err := session.ListPrompts(t.Context(), nil)
			if err != nil || len(prompts.Prompts) == 0 {
				t.Errorf("the prompts are %v, error %v", prompts, err)
			}
		})
	}
	logs := h.logs.String()
	if strings.Contains(logs, "token-of") {
		t.Error("a token is in the log")
	}
	if !strings.Contains(logs, `"tool"="list_workspaces"`) || !strings.Contains(logs, `"user"="alice"`) {
		t.Errorf("the log does not say who called what:\n%s", logs)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
	}
	for _, want := range []string{"coder_k8s_mcp_tool_calls_total", "coder_k8s_mcp_requests_total", "coder_k8s_mcp_authentications_total", "coder_k8s_mcp_in_flight"} {
		if !slices.Contains(names, want) {
			t.Errorf("there is no %s among %q", want, names)
		}
	}
}

func TestCallsActAsTheCallerAndKeepTheToken(t *testing.T) {
	tests := map[string]struct {
		token, user string
		groups      []string
	}{
		"a user with groups":                     {aliceToken, "alice", []string{"platform"}},
		"a service account, whose groups follow": {robotToken, "system:serviceaccount:ns:robot", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := running(t)
			h.kube.answer("GET "+workspacesPath, http.StatusOK, workspaceList())
			session := h.connect(t, modernProtocol, tc.token)
			if result := session.Call(t, "list_workspaces", map[string]any{"namespace": "coder"}); result.IsError {
				t.Fatal(mcptest.Text(result))
			}
			seen := h.kube.requests(http.MethodGet, workspacesPath)
			if len(seen) != 1 {
				t.Fatalf("the API server saw %d lists, want 1", len(seen))
			}
			header := seen[0].Header
			if got := header.Values("Impersonate-User"); !slices.Equal(got, []string{tc.user}) {
				t.Errorf("Impersonate-User is %q, want %q", got, tc.user)
			}
			if got := header.Values("Impersonate-Group"); !slices.Equal(got, tc.groups) {
				t.Errorf("Impersonate-Group is %q, want %q", got, tc.groups)
			}
			if got := header.Get("Authorization"); got != "Bearer "+ownToken {
				t.Errorf("the API server got the wrong token: %q", got)
			}
		})
	}
}

func TestOnlySomeToolsAreOffered(t *testing.T) {
	h := running(t, func(c *Config) {
		c.Options.Tools.ReadOnly = true
		c.Options.Tools.Toolsets = []string{"workspace"}
	})
	session := h.connect(t, modernProtocol, aliceToken)
	listed, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range listed.Tools {
		if !tool.Annotations.ReadOnlyHint || !strings.Contains(tool.Name, "workspace") && tool.Name != "get_build_logs" {
			t.Errorf("%s is offered", tool.Name)
		}
	}
	if len(listed.Tools) == 0 {
		t.Error("no tool is offered")
	}
	if result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "delete_workspace", Arguments: map[string]any{"namespace": "coder", "name": "a.b.c"}}); err == nil && !result.IsError {
		t.Error("a tool that is not offered ran")
	}
}

func TestCancelledCallsReachTheAPIServer(t *testing.T) {
	for _, protocol := range eras {
		t.Run(protocol, func(t *testing.T) {
			h := running(t)
			entered, left := make(chan struct{}), make(chan struct{})
			h.kube.handle("GET "+workspacesPath, func(_ http.ResponseWriter, r *http.Request) {
				close(entered)
				<-r.Context().Done()
				close(left)
			})
			session := h.connect(t, protocol, aliceToken)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				_, _ = session.CallTool(ctx, &mcp.CallToolParams{Name: "list_workspaces", Arguments: map[string]any{"namespace": "coder"}})
			}()
			await(t, "the call reached the API server", entered)
			cancel()
			await(t, "the call of the API server was cancelled", left)
		})
	}
}

func TestStartNamesTheAddressThatIsTaken(t *testing.T) {
	taken := newHarness(t)
	address := taken.server.cfg.Listener.Addr().String()
	h := newHarness(t, func(c *Config) {
		c.Listener.Close()
		c.Listener = nil
		c.Options.BindAddress = address
	})
	err := h.server.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "--mcp-bind-address "+address) {
		t.Errorf("Start returned %v, want an error that names the address", err)
	}
}

const (
	clientsTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientsSpan  = "00-" + clientsTrace + "-00f067aa0ba902b7-01"
)

// The audit log of Kubernetes contains the request ID that the client got, and the trace
// continues in the requests to Kubernetes.
func TestACallIsFoundInKubernetes(t *testing.T) {
	collector := tracingtest.New(t)
	provider := collector.Provider(t)
	h := running(t, func(c *Config) {
		c.Tracing = provider
		c.RESTConfig.Wrap(provider.Wrap)
	})
	h.kube.answer("GET "+workspacesPath, http.StatusOK, workspaceList(workspaceObject()))
	body := callBody("list_workspaces", `{"namespace":"coder"}`)
	response, answer := h.post(t, body, func(r *http.Request) {
		r.Header.Set("Traceparent", clientsSpan)
		// Request IDs from the client are ignored.
		r.Header.Set("X-Request-Id", "made-up")
		r.Header.Set("Audit-ID", "made-up")
	})
	id := response.Header.Get("X-Request-Id")
	if id == "" || id == "made-up" || !strings.Contains(answer, "default.alice.dev") {
		t.Fatalf("id %q: %s", id, answer)
	}
	asked := h.kube.requests(http.MethodGet, workspacesPath)
	if len(asked) != 1 || asked[0].Header.Get("Audit-ID") != id {
		t.Fatalf("Kubernetes knows the request by %q, want %q", asked[0].Header.Values("Audit-ID"), id)
	}
	if !strings.Contains(h.logs.String(), `"requestID"="`+id+`"`) {
		t.Errorf("the log does not know %s:\n%s", id, h.logs.String())
	}
	const first = "MCP tools/call list_workspaces"
	tree := collector.Trace(t, provider, clientsTrace, first)
	if diff := cmp.Diff([]string{first, "Kubernetes GET"}, tree.Path("Kubernetes")); diff != "" {
		t.Error(diff)
	}
	mcp, _ := tree.Find(first)
	kube, _ := tree.Find("Kubernetes")
	if mcp.Parent != "00f067aa0ba902b7" || mcp.Attributes["request.id"] != id {
		t.Errorf("%+v", mcp)
	}
	if want := "00-" + clientsTrace + "-" + kube.ID + "-01"; asked[0].Header.Get("Traceparent") != want {
		t.Errorf("Kubernetes is sent the trace %q, want %q", asked[0].Header.Get("Traceparent"), want)
	}
}
