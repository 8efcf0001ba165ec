package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The eras of the protocol: with a handshake, and without.
const (
	legacyEra = "2025-11-25"
	modernEra = "2026-07-28"
)

// mcpURL returns the MCP endpoint of a process.
func mcpURL(p *process) string { return "http://127.0.0.1:" + p.mcpPort + "/mcp" }

// connectMCP opens a session with a token, over connections of its own.
func connectMCP(t *testing.T, url, token, era string, options *mcp.ClientOptions) (*mcp.ClientSession, error) {
	t.Helper()
	connections := &http.Transport{}
	t.Cleanup(connections.CloseIdleConnections)
	return connectMCPOver(t, connections, url, token, era, options)
}

func connectMCPOver(t *testing.T, connections http.RoundTripper, url, token, era string, options *mcp.ClientOptions) (*mcp.ClientSession, error) {
	t.Helper()
	transport := &mcp.StreamableClientTransport{
		Endpoint:   url,
		HTTPClient: &http.Client{Transport: setHeaders(map[string]string{"Authorization": "Bearer " + token})(connections)},
		MaxRetries: -1,
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, options)
	session, err := client.Connect(context.Background(), transport, &mcp.ClientSessionOptions{ProtocolVersion: era})
	if err == nil {
		t.Cleanup(func() { _ = session.Close() })
	}
	return session, err
}

// mustConnectMCP opens a session, and fails the test if that is not possible.
func mustConnectMCP(t *testing.T, url, token, era string, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	session, err := connectMCP(t, url, token, era, options)
	if err != nil {
		t.Fatalf("connecting with %s: %v", era, err)
	}
	return session
}

func callTool(t *testing.T, session *mcp.ClientSession, name string, arguments map[string]any) *mcp.CallToolResult {
	t.Helper()
	answer, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatalf("calling %s: %v", name, err)
	}
	return answer
}

// toolNames returns the names of the tools that a client can list.
func toolNames(t *testing.T, session *mcp.ClientSession) []string {
	t.Helper()
	names := []string{}
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatalf("listing the tools: %v", err)
		}
		names = append(names, tool.Name)
	}
	return names
}

// textOf returns the whole result as text.
func textOf(answer *mcp.CallToolResult) string {
	text, err := json.Marshal(answer)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// sentenceOf returns the error text for the model.
func sentenceOf(answer *mcp.CallToolResult) string {
	var parts []string
	for _, content := range answer.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			parts = append(parts, text.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// refusedForRights returns an error unless a result reports in one sentence that its
// caller lacks the permission.
func refusedForRights(answer *mcp.CallToolResult) error {
	sentence := sentenceOf(answer)
	switch {
	case !answer.IsError:
		return fmt.Errorf("it succeeds: %s", textOf(answer))
	case !strings.Contains(sentence, " may not "), strings.Contains(sentence, "\n"), strings.Contains(sentence, "impersonate"), strings.Contains(sentence, "://"):
		return fmt.Errorf("it is not refused with one sentence about the right: %q", sentence)
	default:
		return nil
	}
}
