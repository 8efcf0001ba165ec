package integration

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMCPActsAsTheCaller: the real token review, the real RBAC.
func TestMCPActsAsTheCaller(t *testing.T) {
	names, proxy := startCoders(t)
	p := startProcess(t, proxy, "--leader-elect=false")
	p.ready(t)
	serve(t, p)
	ns := namespace(t)
	coder := controlPlaneReady(t, names, ns, "coder")
	template := coder.AddTemplate("coder", "hello", map[string]string{"main.tf": "# nothing\n"})
	coder.AddWorkspace("admin", template, "one")

	token := serviceAccountToken(t, ns, "robot", "coder-k8s-mcp")
	if _, err := connectMCP(t, p, serviceAccountToken(t, ns, "robot", "")); err == nil {
		t.Error("a token for another audience gets in")
	}
	if _, err := connectMCP(t, p, token); err == nil {
		t.Error("a caller without the right to enter gets in")
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "robot-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "coder-k8s-mcp-user"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "robot"}},
	}
	if err := environment.client.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = environment.client.Delete(context.Background(), binding) })
	var session *mcp.ClientSession
	eventually(t, 20*time.Second, "the caller gets in", func(context.Context) error {
		var err error
		session, err = connectMCP(t, p, token)
		return err
	})

	// Without a right of its own the caller sees nothing, whatever the operator may.
	if answer := callTool(t, session, "list_workspaces", map[string]any{"namespace": ns}); !answer.IsError || !strings.Contains(textOf(answer), "list") {
		t.Errorf("a caller without rights is answered: %s", textOf(answer))
	}
	grant(t, ns, "coder-k8s-view", "robot")
	eventually(t, 20*time.Second, "the caller sees the workspace", func(context.Context) error {
		answer := callTool(t, session, "list_workspaces", map[string]any{"namespace": ns})
		if answer.IsError || !strings.Contains(textOf(answer), "coder.admin.one") {
			return errors.New(textOf(answer))
		}
		return nil
	})
	stop := map[string]any{"namespace": ns, "name": "coder.admin.one", "running": false}
	if answer := callTool(t, session, "set_workspace_running", stop); !answer.IsError {
		t.Errorf("a caller who may only look stops a workspace: %s", textOf(answer))
	}
	grant(t, ns, "coder-k8s-edit", "robot")
	eventually(t, 20*time.Second, "the caller stops the workspace", func(context.Context) error {
		if answer := callTool(t, session, "set_workspace_running", stop); answer.IsError {
			return errors.New(textOf(answer))
		}
		return nil
	})
}

// connectMCP opens a session with a token.
func connectMCP(t *testing.T, p *process, token string) (*mcp.ClientSession, error) {
	t.Helper()
	transport := &mcp.StreamableClientTransport{
		Endpoint:   "http://127.0.0.1:" + p.mcpPort + "/mcp",
		HTTPClient: &http.Client{Transport: setHeaders(map[string]string{"Authorization": "Bearer " + token})(http.DefaultTransport)},
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err == nil {
		t.Cleanup(func() { _ = session.Close() })
	}
	return session, err
}

func callTool(t *testing.T, session *mcp.ClientSession, name string, arguments map[string]any) *mcp.CallToolResult {
	t.Helper()
	answer, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatalf("calling %s: %v", name, err)
	}
	return answer
}

// textOf is all that an answer says, as text.
func textOf(answer *mcp.CallToolResult) string {
	text, err := json.Marshal(answer)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
