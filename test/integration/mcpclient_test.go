package integration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/prompts"
)

// The eras of the protocol: with a handshake, and without.
const (
	legacyProtocol = mcptest.Legacy
	modernProtocol = mcptest.Modern
)

// mcpURL returns the MCP endpoint of a process.
func mcpURL(p *process) string { return "http://127.0.0.1:" + p.mcpPort + "/mcp" }

// mcpEndpoint returns the endpoint for a client that has a stream of its own.
func mcpEndpoint(url, token, protocol string, options *mcp.ClientOptions) mcptest.Endpoint {
	return mcptest.Endpoint{URL: url, Token: token, Protocol: protocol, Options: cmp.Or(options, &mcp.ClientOptions{})}
}

// mustConnectMCP opens a session, and fails the test if that is not possible.
func mustConnectMCP(t *testing.T, url, token, protocol string, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	return mcpEndpoint(url, token, protocol, options).Dial(t).ClientSession
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

// fails reports whether a call failed. A call that made its change is no failure, even if it waited
// for a build that fails: such an error contains the answer.
func fails(answer *mcp.CallToolResult) bool {
	return answer.IsError && answer.StructuredContent == nil
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

// prompts returns prompts about the objects with problems.
func (s *mcpFixture) prompts() []*mcp.GetPromptParams {
	prompt := func(name, ns, of string) *mcp.GetPromptParams {
		return &mcp.GetPromptParams{Name: name, Arguments: map[string]string{"namespace": ns, "name": of}}
	}
	return []*mcp.GetPromptParams{
		prompt("diagnose_control_plane", s.ns, "coder"), prompt("diagnose_workspace", s.ns, "coder.admin.stuck"),
	}
}

// promptsNeedTheirRights checks that the declared permissions of prompts are sufficient to get
// all of them, and that each permission is used.
func (s *mcpFixture) promptsNeedTheirRights(t *testing.T, callerOf func(*testing.T, string) mcpCaller) {
	s.grantRights(t, "gets-prompts", prompts.Rights(), s.namespaces()...)
	s.granted(t)
	from, caller := auditSize(t), callerOf(t, "gets-prompts")
	session := caller.connect(t)
	away := &mcp.GetPromptParams{Name: "diagnose_workspace", Arguments: map[string]string{"namespace": s.away, "name": "coder.admin.one"}}
	for _, prompt := range append(s.prompts(), away) {
		if answer, err := session.GetPrompt(t.Context(), prompt); err != nil || len(answer.Messages) != 1 {
			t.Errorf("getting prompt %s: %+v, %v", prompt.Name, answer, err)
		}
	}
	usesExactly(t, from, caller.user, prompts.Rights(), spare("diagnose_workspace")...)
}
