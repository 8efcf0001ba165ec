package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestNamesThatDoNotExistAreExplained(t *testing.T) {
	add := func(server *mcp.Server) {
		addWhoAmI(server)
		server.AddPrompt(&mcp.Prompt{Name: "p"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return nil, errors.New("dial tcp 10.1.2.3:443: secret")
		})
		server.AddResource(&mcp.Resource{Name: "x", URI: "test://x"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "a sentence of its own"}
		})
	}
	tests := map[string]struct {
		method string
		params map[string]any
		want   string
	}{
		"a tool":                  {methodCallTool, map[string]any{"name": "no_such"}, `"code":-32602,"message":"there is no tool \"no_such\"; tools/list shows those that there are"`},
		"a prompt":                {methodGetPrompt, map[string]any{"name": "no_such"}, `"code":-32602,"message":"there is no prompt \"no_such\"; prompts/list shows those that there are"`},
		"a resource":              {methodReadResource, map[string]any{"uri": "test://no"}, `"code":-32602,"message":"there is no resource \"test://no\"; resources/list and resources/templates/list show those that there are","data":{"uri":"test://no"}`},
		"an error for clients":    {methodReadResource, map[string]any{"uri": "test://x"}, `"code":-32602,"message":"a sentence of its own"`},
		"an error for nobody":     {methodGetPrompt, map[string]any{"name": "p"}, `"code":-32603,"message":"internal error; the log of the server has the details"`},
		"a completion, not there": {methodComplete, map[string]any{"ref": map[string]any{"type": "ref/prompt", "name": "p"}, "argument": map[string]any{"name": "x", "value": ""}}, `"code":-32601`},
	}
	for name, tt := range tests {
		for _, era := range []string{modernEra, legacyEra} {
			t.Run(name+" "+era, func(t *testing.T) {
				h := newHarness(t, content(add))
				if _, body := h.send(t, message{era: era, token: "alice", method: tt.method, params: tt.params}); !strings.Contains(body, tt.want) {
					t.Errorf("the answer is %s", body)
				}
			})
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
		if got := s.timeout(req); got < 30*time.Second && !strings.Contains(arguments, "timeoutSeconds") && !strings.Contains(strings.ToLower(arguments), "timeoutseconds") || got > 610*time.Second || got < 10*time.Second {
			t.Errorf("it may take %s", got)
		}
		did, ok := deedOf(req)
		if !ok || did.target != tool {
			t.Errorf("the record is %+v", did)
		}
		for _, value := range []string{did.target, did.namespace, did.name} {
			if short := cut(value); len(short) > maxLogged+len("…") || (len(value) > maxLogged && !utf8.ValidString(short)) {
				t.Errorf("%q is written", short)
			}
		}
	})
}
