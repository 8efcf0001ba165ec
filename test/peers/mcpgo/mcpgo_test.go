//go:build conformance

package mcpgo

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

func TestServer(t *testing.T) {
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			s := connect(t, revision, client.WithProtocolVersion(revision))
			t.Run("lists the tools", s.listsTools)
			t.Run("calls a tool", s.callsTool)
			t.Run("hears of progress", s.hearsOfProgress)
		})
	}
}

// TestAskedUser tests a client that can ask its user.
func TestAskedUser(t *testing.T) {
	user := &user{}
	s := connect(t, "2026-07-28", client.WithElicitationHandler(user))
	stopped := s.setRunning(t, s.workspaces["told"], false, nil)
	if stopped.IsError || len(user.questions) != 1 || !strings.Contains(user.questions[0], s.workspaces["told"]) {
		t.Errorf("the user was asked %q, and the answer is %v", user.questions, stopped.Content)
	}
}

// user agrees to everything.
type user struct{ questions []string }

func (u *user) Elicit(_ context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	u.questions = append(u.questions, request.Params.Message)
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{"confirm": true},
	}}, nil
}

// server is one that a client is connected with.
type server struct {
	*client.Client
	namespace string
	// workspaces are the names of those that are there, by kind.
	workspaces map[string]string
}

func connect(t *testing.T, revision string, options ...client.ClientOption) *server {
	t.Helper()
	s := &server{namespace: os.Getenv("MCP_NAMESPACE")}
	if err := json.Unmarshal([]byte(os.Getenv("MCP_WORKSPACES")), &s.workspaces); err != nil {
		t.Fatalf("MCP_WORKSPACES: %v", err)
	}
	over, err := transport.NewStreamableHTTP(os.Getenv("MCP_URL"),
		transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + os.Getenv("MCP_TOKEN")}))
	if err != nil {
		t.Fatal(err)
	}
	s.Client = client.NewClient(over, options...)
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Start(t.Context()); err != nil {
		t.Fatalf("starting the client: %v", err)
	}
	request := mcp.InitializeRequest{}
	request.Params.ClientInfo = mcp.Implementation{Name: "mcp-go", Version: "1"}
	result, err := s.Initialize(t.Context(), request)
	if err != nil {
		t.Fatalf("initializing: %v", err)
	}
	if result.ProtocolVersion != revision || result.ServerInfo.Name != "coder-k8s" || result.Instructions == "" {
		t.Errorf("the server introduces itself with %s as %q, instructions of %d bytes", result.ProtocolVersion, result.ServerInfo.Name, len(result.Instructions))
	}
	return s
}

func (s *server) listsTools(t *testing.T) {
	result, err := s.ListTools(t.Context(), mcp.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if want, _ := strconv.Atoi(os.Getenv("MCP_TOOLS")); len(result.Tools) != want || want == 0 {
		t.Errorf("there are %d tools, want %d", len(result.Tools), want)
	}
}

func (s *server) callsTool(t *testing.T) {
	result := s.call(t, "get_workspace", map[string]any{"namespace": s.namespace, "name": s.workspaces["running"]}, nil)
	content, ok := result.StructuredContent.(map[string]any)
	if result.IsError || !ok || len(content) == 0 {
		t.Errorf("the answer is %v, %v", result.StructuredContent, result.Content)
	}
}

// hearsOfProgress stops and starts a workspace with slow builds, and checks the
// progress notifications.
func (s *server) hearsOfProgress(t *testing.T) {
	const token = "hears-of-progress"
	heard := make(chan mcp.JSONRPCNotification, 100)
	s.OnNotification(func(n mcp.JSONRPCNotification) {
		if n.Method == string(mcp.MethodNotificationProgress) && n.Params.AdditionalFields["progressToken"] == token {
			heard <- n
		}
	})
	meta := &mcp.Meta{ProgressToken: token}
	for _, running := range []bool{true, false} {
		if result := s.setRunning(t, s.workspaces["slow"], running, meta); result.IsError {
			t.Fatalf("running %t: the answer is %v", running, result.Content)
		}
	}
	if len(heard) < 2 {
		t.Errorf("the client heard only %d times of progress", len(heard))
	}
}

func (s *server) setRunning(t *testing.T, name string, running bool, meta *mcp.Meta) *mcp.CallToolResult {
	t.Helper()
	return s.call(t, "set_workspace_running", map[string]any{
		"namespace": s.namespace, "name": name, "running": running, "wait": true, "confirm": name,
	}, meta)
}

func (s *server) call(t *testing.T, tool string, arguments map[string]any, meta *mcp.Meta) *mcp.CallToolResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	request := mcp.CallToolRequest{}
	request.Params.Name, request.Params.Arguments, request.Params.Meta = tool, arguments, meta
	result, err := s.CallTool(ctx, request)
	if err != nil {
		t.Fatalf("calling %s: %v", tool, err)
	}
	return result
}
