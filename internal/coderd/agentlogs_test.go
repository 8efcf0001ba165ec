package coderd

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// agentLogFixture returns a running workspace with one agent, of which two scripts have written
// lines.
func agentLogFixture(t *testing.T) (server *coderdtest.Server, client *Client, workspace, agent uuid.UUID) {
	t.Helper()
	server = coderdtest.New(t, coderdtest.WithHostPrefixCookie())
	client, err := New(Config{URL: server.URL, Token: server.AddUser("ada", "owner")})
	if err != nil {
		t.Fatal(err)
	}
	workspace = server.AddWorkspace("ada", server.AddTemplate("coder", "small", nil), "dev")
	server.SetAgents(workspace, coderdtest.Agent{Name: "main", Status: "connected", LifecycleState: "start_error"})
	server.WriteAgentLog(workspace, "main", "Startup Script", "one", "two")
	server.WriteAgentLog(workspace, "main", "Dotfiles", "three")
	w, err := client.Workspace(t.Context(), workspace)
	if err != nil {
		t.Fatal(err)
	}
	return server, client, workspace, w.Agents[0].ID
}

func TestAgentLogs(t *testing.T) {
	_, client, workspace, agent := agentLogFixture(t)
	stream, err := client.AgentLogs(t.Context(), workspace, agent, "", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Next(t.Context())
	if err != nil || first.Stage != "Startup Script" || first.Source != "agent" || first.Level != "info" || first.Output != "one" {
		t.Errorf("%+v, %v", first, err)
	}
	expectLine(t, stream, "two")
	expectLine(t, stream, "three")
	expectEnd(t, stream)

	// The newest lines of one script.
	stream, err = client.AgentLogs(t.Context(), workspace, agent, "startup script", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	stream.Tail(1)
	expectLine(t, stream, "two")
	expectEnd(t, stream)

	var unknown *UnknownScriptError
	if _, err = client.AgentLogs(t.Context(), workspace, agent, "boot", 0, false); !errors.As(err, &unknown) ||
		unknown.Error() != `script is "boot", and must be one of ["Dotfiles" "Startup Script"]` {
		t.Errorf("a script that there is not: %v", err)
	}
}

// TestFollowAgentLogs also checks that the stream ends with the build.
func TestFollowAgentLogs(t *testing.T) {
	server, client, workspace, agent := agentLogFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := client.AgentLogs(ctx, workspace, agent, "Startup Script", 0, true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	expectLine(t, stream, "one")
	expectLine(t, stream, "two")
	server.WriteAgentLog(workspace, "main", "Dotfiles", "left out")
	server.WriteAgentLog(workspace, "main", "Startup Script", "four")
	expectLine(t, stream, "four")
	server.BuildWorkspace(workspace, "stop")
	server.WriteAgentLog(workspace, "other", "x", "wakes the readers")
	expectEnd(t, stream)
}
