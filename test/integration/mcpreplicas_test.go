package integration

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// startMCPIn starts the MCP server as a pod of a namespace would run it.
func startMCPIn(t *testing.T, ns string, args ...string) *process {
	t.Helper()
	p := newProcess(t, mcpConfig(t), "", append([]string{"--app=mcp-http", "--log-level=debug"}, args...)...)
	p.environment = append(p.environment, "POD_NAMESPACE="+ns)
	p.run(t)
	return p
}

// inTurn forwards requests to processes in turn, like a Service.
func inTurn(t *testing.T, processes ...*process) string {
	t.Helper()
	var proxies []http.Handler
	connections := &http.Transport{}
	for _, p := range processes {
		target := &url.URL{Scheme: "http", Host: "127.0.0.1:" + p.mcpPort}
		proxies = append(proxies, mcptest.ProxyHandler(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: connections}))
	}
	var turn atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxies[turn.Add(1)%int64(len(proxies))].ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		service.Close()
		connections.CloseIdleConnections()
	})
	return service.URL + "/mcp"
}

// callsOf returns the number of calls of a tool in the log of a process. The process
// logs a call before it responds, but the log arrives here asynchronously.
func callsOf(p *process, tool string) int {
	return strings.Count(p.logs.String(), `"tool": "`+tool+`"`)
}

// answered waits until processes have logged exactly this number of calls of a tool.
func answered(t *testing.T, tool string, want int, processes ...*process) {
	t.Helper()
	told := 0
	polltest.Eventually(t, "the log tells of all calls of "+tool, func(context.Context) error {
		told = 0
		for _, p := range processes {
			told += callsOf(p, tool)
		}
		if told < want {
			return fmt.Errorf("it tells of %d, not of %d", told, want)
		}
		return nil
	})
	if told != want {
		t.Errorf("the replicas answered %d calls of %s, not %d", told, tool, want)
	}
}

// agreeing returns the options of a client whose user accepts everything.
func agreeing(asked *atomic.Int64) *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked.Add(1)
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": true}}, nil
	}}
}

// TestMCPReplicas checks that both replicas can respond, in both eras of the protocol,
// and that the answer to a question of one replica can be sent to the other.
func TestMCPReplicas(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	letManageCertificate(t, ns)
	create(t, controlPlane(ns, "coder", nil))
	token := robot(t, ns, "robot", userRoles("view", "edit", "admin")...)
	// On a fast machine, the calls of this test exceed the default rate limit.
	one, two := startMCPIn(t, ns, "--mcp-rate-limit=0"), startMCPIn(t, ns, "--mcp-rate-limit=0")
	one.ready(t)
	two.ready(t)
	service := inTurn(t, one, two)
	listed, changed := 0, 0
	for _, protocol := range []string{legacyProtocol, modernProtocol} {
		session := entered(t, service, token, protocol, nil)
		listed += succeeds(t, session, "list_control_planes", map[string]any{"namespace": ns})
		for range 6 {
			listed++
			if answer := callTool(t, session, "list_control_planes", map[string]any{"namespace": ns}); answer.IsError {
				t.Errorf("with %s: %s", protocol, sentenceOf(answer))
			}
			if names := toolNames(t, session); len(names) < 20 {
				t.Errorf("with %s the tools are %v", protocol, names)
			}
			// An odd number of requests in each turn, so that each of them reaches both.
			if _, err := session.ListPrompts(t.Context(), nil); err != nil {
				t.Errorf("with %s: %v", protocol, err)
			}
		}
		answered(t, "list_control_planes", listed, one, two)
		confirmed := map[string]any{"namespace": ns, "name": "coder", "replicas": 0, "confirm": "coder"}
		changed += succeeds(t, session, "change_control_plane", confirmed)
		patch(t, controlPlane(ns, "coder", nil), "test", `{"spec":{"replicas":2}}`)
	}
	for _, p := range []*process{one, two} {
		if callsOf(p, "list_control_planes") < 4 {
			t.Errorf("a replica answered only %d calls", callsOf(p, "list_control_planes"))
		}
	}
	answered(t, "change_control_plane", changed, one, two)
	confirmsAtTheOther(t, ns, service, token, one, two)
	onlyAsCallers(t, one)
	onlyAsCallers(t, two)
}

// confirmsAtTheOther checks that the answers to five questions, each asked by one
// replica, can be sent to the other.
func confirmsAtTheOther(t *testing.T, ns, service, token string, one, two *process) {
	t.Helper()
	var asked atomic.Int64
	session := entered(t, service, token, modernProtocol, agreeing(&asked))
	before := [2]int{callsOf(one, "change_control_plane"), callsOf(two, "change_control_plane")}
	for i := range 5 {
		answer := callTool(t, session, "change_control_plane", map[string]any{"namespace": ns, "name": "coder", "image": fmt.Sprintf("example.com/coder:%d", i)})
		if answer.IsError {
			t.Errorf("question %d: %s", i, sentenceOf(answer))
		}
	}
	answered(t, "change_control_plane", before[0]+before[1]+10, one, two)
	if got := [2]int{callsOf(one, "change_control_plane") - before[0], callsOf(two, "change_control_plane") - before[1]}; asked.Load() != 5 || got != [2]int{5, 5} {
		t.Errorf("the user was asked %d times, and the replicas had %v calls, want 5 each", asked.Load(), got)
	}
	if got := read(t, &coderv1alpha1.CoderControlPlane{}, ns, "coder"); got.Spec.Image != "example.com/coder:4" || ptr.Deref(got.Spec.Replicas, 0) != 2 {
		t.Errorf("the spec is %+v", got.Spec)
	}
}
