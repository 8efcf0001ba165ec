package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func TestErrorsForNobodyAreHidden(t *testing.T) {
	h := newHarness(t, content(func(server *mcp.Server) {
		server.AddPrompt(&mcp.Prompt{Name: "p"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return nil, errors.New("dial tcp 10.1.2.3:443: secret")
		})
	}))
	for name, protocol := range ways {
		const want = `"code":-32603,"message":"internal error; see the log of the server for details"`
		if _, body := h.send(t, mcptest.Message{Protocol: protocol, Token: "alice", Method: methodGetPrompt, Params: map[string]any{"name": "p"}}); !strings.Contains(body, want) {
			t.Errorf("%s: the answer is %s", name, body)
		}
	}
}

// FuzzArguments calls the audit log and the timeout with arbitrary arguments.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{``, `null`, `{"namespace":"a","name":"b","dryRun":true}`, `{"wait":true,"timeoutSeconds":1e308}`, `{"name":{"a":[]}}`, `[`, "{\"name\":\"\xff\"}"} {
		f.Add("tool", seed)
	}
	s, err := New(Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, tool, arguments string) {
		req := &mcp.CallToolRequest{Session: &mcp.ServerSession{}, Params: &mcp.CallToolParamsRaw{Name: tool, Arguments: json.RawMessage(arguments)}}
		if got := s.timeout(req); got < 30*time.Second || got > 630*time.Second {
			t.Errorf("it may take %s", got)
		}
		did, ok := deedOf(req)
		if !ok || did.target != tool {
			t.Errorf("the record is %+v", did)
		}
		for _, value := range []string{did.target, did.namespace, did.name} {
			if short := Cut(value); len(short) > maxLogged+len("…") || (len(value) > maxLogged && !utf8.ValidString(short)) {
				t.Errorf("%q is written", short)
			}
		}
	})
}

// BenchmarkCall measures the overhead of a call, including the SDK's client on the same
// machine.
func BenchmarkCall(b *testing.B) {
	for name, protocol := range ways {
		b.Run(name, func(b *testing.B) {
			h := newHarness(b, content(addWhoAmI))
			c := h.connect(b, protocol, "alice", nil)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.CallTool(b.Context(), &mcp.CallToolParams{Name: "whoami"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestHowLongACallMayTake(t *testing.T) {
	var set toolset.Set
	type object struct {
		Name string `json:"name"`
	}
	for name, effect := range map[string]toolset.Effect{"get": toolset.Reads, "delete": toolset.Destroys} {
		toolset.Add(&set, toolset.Definition{Name: name, Title: name, Description: name, Toolset: toolset.Workspaces, Effect: effect},
			func(context.Context, *toolset.Call, object) (object, error) { return object{}, nil })
	}
	toolset.Add(&set, toolset.Definition{Name: "run", Title: "run", Description: "run", Toolset: toolset.Inside, Effect: toolset.Reads, Waits: true},
		func(context.Context, *toolset.Call, object) (object, error) { return object{}, nil })
	h := newHarness(t, func(c *Config, _ *limits) { c.Tools = &set })
	tests := map[string]struct {
		tool, arguments string
		want            time.Duration
	}{
		"a call":                           {"get", `{"name":"x"}`, 30 * time.Second},
		"no arguments":                     {"get", ``, 30 * time.Second},
		"arguments that are none":          {"get", `[1]`, 30 * time.Second},
		"a tool that does not exist":       {"no_such", `{}`, 30 * time.Second},
		"one that waits":                   {"get", `{"wait":true}`, 150 * time.Second},
		"one that waits as long":           {"get", `{"wait":true,"timeoutSeconds":60}`, 90 * time.Second},
		"one that always waits":            {"run", `{}`, 150 * time.Second},
		"one that always waits as long":    {"run", `{"timeoutSeconds":60}`, 90 * time.Second},
		"one that waits, in texts":         {"get", `{"wait":"true","timeoutSeconds":"60"}`, 90 * time.Second},
		"one that waits for a moment":      {"get", `{"wait":true,"timeoutSeconds":1}`, 31 * time.Second},
		"one that waits too long":          {"get", `{"wait":true,"timeoutSeconds":86400}`, 630 * time.Second},
		"one that waits far too long":      {"get", `{"wait":true,"timeoutSeconds":1e300}`, 630 * time.Second},
		"one that waits less than no time": {"get", `{"wait":true,"timeoutSeconds":-1}`, 150 * time.Second},
		"one that does not wait":           {"get", `{"wait":false,"timeoutSeconds":600}`, 30 * time.Second},
		"one that does not say whether":    {"get", `{"wait":"yes","timeoutSeconds":600}`, 30 * time.Second},
		"one that destroys":                {"delete", `{}`, 30 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			req := &mcp.CallToolRequest{Session: &mcp.ServerSession{}, Params: &mcp.CallToolParamsRaw{Name: tt.tool, Arguments: json.RawMessage(tt.arguments)}}
			if got := h.timeout(req); got != tt.want {
				t.Errorf("it may take %s, not %s", got, tt.want)
			}
		})
	}
}
