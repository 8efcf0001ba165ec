package mcpserver

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coder-k8s/coder-k8s/internal/tracing/tracingtest"
)

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
	response, answer := h.post(t, strings.NewReader(body), func(r *http.Request) {
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
