//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// testMCP uses the MCP server like AI tools: with tokens of ServiceAccounts, through
// the Service, in both eras of the protocol. Tokens of users need an OpenID Connect
// issuer, which this cluster does not have: they are tested in
// internal/mcpserver/callers only.
func testMCP(t *testing.T) {
	explain(t, sampleNamespace)
	t.Run("who gets in", testMCPEntry)
	t.Run("who may only view", testMCPViewer)
	t.Run("tools", testMCPTools)
	t.Run("prompts", testMCPPrompts)
	t.Run("two replicas", testMCPReplicas)
	t.Run("rollout", testMCPRollout)
}

// postMCP posts to the MCP server over plain HTTP, as any client in the cluster can.
func postMCP(t *testing.T, token, body string) (response *http.Response, answer string, err error) {
	t.Helper()
	request, err := mcptest.Message{Protocol: legacyProtocol, Body: body}.Request(t.Context(), "http://"+mcpHost+"/mcp")
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: robot{token: token}.throughService(t), Timeout: 30 * time.Second}
	response, err = client.Do(request)
	if err != nil {
		return nil, "", fmt.Errorf("calling the MCP server: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, "", fmt.Errorf("reading the MCP server's answer: %w", err)
	}
	return response, string(text), nil
}

const listControlPlanes = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_control_planes","arguments":{"namespace":"coder"}}}`

// testMCPEntry sends invalid tokens, tokens for another audience, and tokens of an
// account without access.
func testMCPEntry(t *testing.T) {
	stranger := newRobot(t, sampleNamespace, "e2e-stranger", "view")
	ofAPI := strings.TrimSpace(kubectl(t, "-n", sampleNamespace, "create", "token", "e2e-stranger"))
	ofOther := strings.TrimSpace(kubectl(t, "-n", sampleNamespace, "create", "token", "e2e-stranger", "--audience=somebody-else"))
	for name, token := range map[string]string{
		"no token": "", "no token at all": "nonsense", "a token for the API": ofAPI, "a token for another audience": ofOther,
		"a token with a broken signature": stranger.token[:len(stranger.token)-8] + "AAAAAAAA",
	} {
		var response *http.Response
		var answer string
		// Just after pods were replaced, connections may still lead to the previous
		// pods.
		polltest.Eventually(t, name+" is answered", func() (err error) {
			response, answer, err = postMCP(t, token, listControlPlanes)
			return err
		})
		if challenge := response.Header.Get("WWW-Authenticate"); response.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(challenge, "Bearer ") {
			t.Errorf("%s: the answer is %d, not 401 with a challenge (%q): %s", name, response.StatusCode, challenge, answer)
		}
	}
	polltest.Eventually(t, "who may enter is let in", func() error {
		response, answer, err := postMCP(t, stranger.token, listControlPlanes)
		if err == nil && (response.StatusCode != http.StatusOK || !strings.Contains(answer, `"phase":"Ready"`)) {
			err = fmt.Errorf("%d %s", response.StatusCode, answer)
		}
		return err
	})
	kubectl(t, "delete", "clusterrolebinding", "e2e-mcp-"+sampleNamespace+"-e2e-stranger")
	polltest.Eventually(t, "who may not enter any more is told whom to ask", func() error {
		response, answer, err := postMCP(t, stranger.token, listControlPlanes)
		if err == nil && (response.StatusCode != http.StatusForbidden || !containsAll(answer, stranger.user(), "coder-k8s-mcp-user")) {
			err = fmt.Errorf("%d %s", response.StatusCode, answer)
		}
		return err
	})
	noTokenTold(t, operatorLogs(t), stranger.token, ofAPI, ofOther)
}

// testMCPViewer can read but not change objects, until it gets the permission.
func testMCPViewer(t *testing.T) {
	// It runs, so that a stop is a change that must be refused.
	kubectl(t, "-n", sampleNamespace, "scale", "cws", "coder.admin.hello", "--replicas=1")
	waitCondition(t, "Ready", "True", "Running", "-n", sampleNamespace, "cws", "coder.admin.hello")
	viewer, did := newRobot(t, sampleNamespace, "e2e-viewer", "view"), newDeeds()
	a := viewer.connect(t, modernProtocol, viewer.throughService(t), did)
	hello := func() map[string]any { return map[string]any{"name": "coder.admin.hello"} }
	for tool, more := range map[string]map[string]any{
		"set_workspace_running": {"running": false, "confirm": "coder.admin.hello"},
		"delete_workspace":      {"confirm": "coder.admin.hello"},
		"update_workspace":      {"ttl": "8h"},
		"change_control_plane":  {"name": "coder", "replicas": 2},
	} {
		arguments := hello()
		for name, value := range more {
			arguments[name] = value
		}
		if said := a.refused(t, tool, arguments); !containsAll(said, viewer.user(), "may not", "ask an administrator for the permission") {
			t.Errorf("%s by one who may only view: %s", tool, said)
		} else {
			t.Logf("%s: %s", tool, said)
		}
	}
	kubectl(t, "-n", sampleNamespace, "scale", "cws", "coder.admin.hello", "--replicas=0")
	waitCondition(t, "Ready", "True", "Stopped", "-n", sampleNamespace, "cws", "coder.admin.hello")
	apply(t, fmt.Sprintf(robotRole, sampleNamespace, "e2e-viewer", "edit"))
	t.Cleanup(func() { cleanup("-n", sampleNamespace, "delete", "rolebinding", "e2e-viewer-edit") })
	polltest.Eventually(t, "it starts the workspace once it may", func() error {
		if result := a.call(t, "set_workspace_running", map[string]any{"name": "coder.admin.hello", "running": true, "wait": true}); result.IsError {
			return fmt.Errorf("%s", words(result))
		}
		return nil
	})
	waitCondition(t, "Ready", "True", "Running", "-n", sampleNamespace, "cws", "coder.admin.hello")
	checkAudit(t, viewer, did)
}

// testMCPPrompts gets the prompts, in both eras.
func testMCPPrompts(t *testing.T) {
	// The prompts must show a working control plane and workspace. The tests before this one
	// restart Coder.
	waitCondition(t, "Ready", "True", "Ready", "-n", sampleNamespace, "ccp", "coder")
	waitCondition(t, "Ready", "True", "Running", "-n", sampleNamespace, "cws", "coder.admin.hello")
	reader := newRobot(t, sampleNamespace, "e2e-mcp-reader", "view")
	for _, protocol := range []string{legacyProtocol, modernProtocol} {
		a := reader.connect(t, protocol, reader.throughService(t), newDeeds())
		t.Run(protocol, func(t *testing.T) { mcpPrompts(t, a) })
	}
	noTokenTold(t, operatorLogs(t), reader.token)
}

func mcpPrompts(t *testing.T, a *assistant) {
	listed, err := a.ListPrompts(t.Context(), nil)
	if err != nil || len(listed.Prompts) != 2 {
		t.Fatalf("the prompts are %v: %v", listed, err)
	}
	for prompt, of := range map[string]struct{ name, want string }{
		"diagnose_control_plane": {"coder", "CoderControlPlane coder/coder works"},
		"diagnose_workspace":     {"coder.admin.hello", "CoderWorkspace coder/coder.admin.hello works"},
	} {
		got, err := a.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: prompt, Arguments: map[string]string{"namespace": sampleNamespace, "name": of.name}})
		if err != nil || len(got.Messages) != 1 {
			t.Errorf("%s: %v %v", prompt, got, err)
			continue
		}
		if text, ok := got.Messages[0].Content.(*mcp.TextContent); !ok || !strings.Contains(text.Text, of.want) {
			t.Errorf("%s has not brought %q along: %v", prompt, of.want, got.Messages[0].Content)
		}
	}
}
