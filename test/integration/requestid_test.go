package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
	"github.com/coder-k8s/coder-k8s/internal/tracing/tracingtest"
)

// TestOneIDAndOneTraceFromAToolToCoder follows a call through a real kube-apiserver:
// the MCP server, the audit log, the aggregated API, Coder.
func TestOneIDAndOneTraceFromAToolToCoder(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	collector := tracingtest.New(t)
	s := newServed(t, 1)
	ns, coder := s.ns, s.coder
	template := coder.AddTemplate("coder", "one", map[string]string{"main.tf": "# one\n"})
	coder.BuildWorkspace(coder.AddWorkspace("admin", template, "one"), "stop")
	p := startProcess(t, s.proxy, "--leader-elect=false", "--watch-namespaces="+ns, "--log-level=debug", "--mcp-rate-limit=0",
		"--tracing-endpoint="+collector.Address(), "--tracing-insecure")
	p.ready(t)
	serve(t, p)
	polltest.Eventually(t, "the API shows the workspace", func(ctx context.Context) error {
		return environment.client.Get(ctx, client.ObjectKey{Namespace: ns, Name: "coder.admin.one"}, &aggregationv1alpha1.CoderWorkspace{})
	})
	token := robot(t, ns, "tool", append(userRoles("view"), userRoles("edit")...)...)

	from, ids := auditSize(t), []string{}
	polltest.Eventually(t, "the workspace is started", func(ctx context.Context) error {
		status, header, body := postMCP(ctx, t, p, token, "00-"+trace+"-00f067aa0ba902b7-01", fmt.Sprintf(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"set_workspace_running","arguments":{"namespace":%q,"name":"coder.admin.one","running":true}}}`, ns))
		ids = append(ids, header.Get("X-Request-Id"))
		if status != http.StatusOK || strings.Contains(body, `"isError":true`) {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})

	// An attempt that failed may have started the workspace, so its id counts too.
	at := slices.IndexFunc(ids, func(id string) bool {
		return slices.ContainsFunc(coder.Received(), func(r coderdtest.Received) bool {
			return r.Method == http.MethodPost && strings.HasSuffix(r.Path, "/builds") && strings.HasSuffix(r.Header.Get("User-Agent"), " request/"+id)
		})
	})
	if at < 0 {
		t.Fatalf("Coder got no build under the ids %q", ids)
	}
	id := ids[at]
	// kube-apiserver records a request after the response.
	polltest.Eventually(t, "the audit log has the change under its id", func(context.Context) error {
		if all := requests(t, from); !slices.ContainsFunc(all, func(r request) bool {
			return r.AuditID == id && r.ObjectRef.Resource == "coderworkspaces" && r.changes()
		}) {
			return fmt.Errorf("there is none under %s: %v", id, all)
		}
		return nil
	})
	// The log of the program is complete when it has ended.
	if code := p.terminate(t); code != 0 {
		t.Errorf("the program ends with %d", code)
	}
	if !slices.ContainsFunc(strings.Split(p.logs.String(), "\n"), func(line string) bool {
		return strings.Contains(line, "Sent a request to Coder") && strings.Contains(line, id) && strings.Contains(line, "/api/v2/workspaces/{}/builds")
	}) {
		t.Errorf("the log has no call to Coder under the id %s", id)
	}
	var spans []string
	for _, span := range collector.Spans() {
		if span.Trace == trace {
			spans = append(spans, span.Name)
		}
	}
	for _, prefix := range []string{"MCP tools/call set_workspace_running", "Kubernetes P", "P", "Decide a write", "Coder POST /api/v2/workspaces/{}/builds"} {
		if !slices.ContainsFunc(spans, func(name string) bool { return strings.HasPrefix(name, prefix) }) {
			t.Errorf("the trace has no %q: %q", prefix, spans)
		}
	}
}

// postMCP sends one message like a client without sessions.
func postMCP(ctx context.Context, t *testing.T, p *process, token, trace, body string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, mcpURL(p), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"Authorization": "Bearer " + token, "Traceparent": trace, "Content-Type": "application/json",
		"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": legacyProtocol,
	} {
		r.Header.Set(key, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(answer)
}
