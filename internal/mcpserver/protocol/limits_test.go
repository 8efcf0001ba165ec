package protocol

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

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
		"one that waits":                   {"get", `{"wait":true}`, 130 * time.Second},
		"one that waits as long":           {"get", `{"wait":true,"timeoutSeconds":60}`, 70 * time.Second},
		"one that always waits":            {"run", `{}`, 130 * time.Second},
		"one that always waits as long":    {"run", `{"timeoutSeconds":60}`, 70 * time.Second},
		"one that waits too long":          {"get", `{"wait":true,"timeoutSeconds":86400}`, 610 * time.Second},
		"one that waits far too long":      {"get", `{"wait":true,"timeoutSeconds":1e300}`, 610 * time.Second},
		"one that waits less than no time": {"get", `{"wait":true,"timeoutSeconds":-1}`, 130 * time.Second},
		"one that does not wait":           {"get", `{"wait":false,"timeoutSeconds":600}`, 30 * time.Second},
		"one that does not say whether":    {"get", `{"wait":"yes","timeoutSeconds":600}`, 30 * time.Second},
		// In a session, the time for the user's answer is added, see below.
		"one that destroys": {"delete", `{}`, 30 * time.Second},
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

func TestAUserWhoIsAskedInASessionHasTime(t *testing.T) {
	var set toolset.Set
	type object struct {
		Name string `json:"name"`
	}
	left := make(chan time.Duration, 1)
	toolset.Add(&set, toolset.Definition{Name: "delete", Title: "x", Description: "x", Toolset: toolset.Workspaces, Effect: toolset.Destroys},
		func(ctx context.Context, _ *toolset.Call, _ object) (object, error) {
			deadline, _ := ctx.Deadline()
			left <- time.Until(deadline)
			return object{}, nil
		})
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			h := w.of(t, func(c *Config, _ *limits) { c.Tools = &set })
			h.connect(t, w.protocol, "alice", nil).call(t, "delete", map[string]any{"name": "x"})
			got, inSession := receive(t, "the deadline", left), w == way{legacyProtocol, true}
			if (got > 30*time.Second) != inSession || got > 330*time.Second {
				t.Errorf("it has %s", got)
			}
		})
	}
}
