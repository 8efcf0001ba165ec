package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
	"github.com/coder-k8s/coder-k8s/internal/tracing/tracingtest"
)

// fields returns the keys and values of a log line.
func fields(line string) map[string]string {
	found := map[string]string{}
	for key, rest, ok := strings.Cut(line, "="); ok; key, rest, ok = strings.Cut(rest, "=") {
		var value any
		decoder := json.NewDecoder(strings.NewReader(rest))
		if decoder.Decode(&value) != nil {
			break
		}
		found[strings.Trim(strings.TrimSpace(key), `"`)] = fmt.Sprint(value)
		rest = rest[decoder.InputOffset():]
	}
	return found
}

func TestOneLineSaysWhoDidWhat(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	add := func(server *mcp.Server) {
		addTool(server, "work", func(context.Context, *mcp.CallToolRequest) (string, error) {
			clk.SetTime(clk.Now().Add(1500 * time.Millisecond))
			return "secret answer", nil
		})
		addTool(server, "fails", func(context.Context, *mcp.CallToolRequest) (string, error) {
			return "", toolset.UsageError("secret mistake")
		})
		server.AddPrompt(&mcp.Prompt{Name: "diagnose"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{}, nil
		})
		server.AddPrompt(&mcp.Prompt{Name: "forbidden"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("secret reason"))
		})
	}
	tests := map[string]struct {
		method  string
		params  map[string]any
		want    map[string]string
		counted []string
	}{
		"a call": {
			methodCallTool, map[string]any{"name": "work", "arguments": map[string]any{"namespace": "coder", "name": "ws", "dryRun": true, "text": "secret argument"}},
			map[string]string{"method": "tools/call", "tool": "work", "namespace": "coder", "name": "ws", "dryRun": "true", "outcome": "ok", "durationMs": "1500"},
			[]string{"coder_k8s_mcp_tool_calls_total{outcome=ok,tool=work} 1"},
		},
		"a call with mistakes": {
			methodCallTool, map[string]any{"name": "fails", "arguments": map[string]any{"namespace": 5, "name": []string{"secret"}, "dryRun": "yes"}},
			map[string]string{"method": "tools/call", "tool": "fails", "namespace": "", "name": "", "dryRun": "false", "outcome": "invalid", "durationMs": "0"},
			[]string{"coder_k8s_mcp_tool_calls_total{outcome=invalid,tool=fails} 1"},
		},
		"a tool that does not exist": {
			methodCallTool, map[string]any{"name": strings.Repeat("é", 200)},
			map[string]string{"method": "tools/call", "tool": strings.Repeat("é", 128) + "…", "namespace": "", "name": "", "dryRun": "false", "outcome": "invalid", "durationMs": "0"},
			[]string{"coder_k8s_mcp_tool_calls_total{outcome=invalid,tool=unknown} 1"},
		},
		"a prompt": {
			methodGetPrompt, map[string]any{"name": "diagnose", "arguments": map[string]string{"namespace": "coder", "name": "x", "text": "secret argument"}},
			map[string]string{"method": "prompts/get", "prompt": "diagnose", "namespace": "coder", "name": "x", "dryRun": "false", "outcome": "ok", "durationMs": "0"}, nil,
		},
		"a prompt that is refused": {
			methodGetPrompt, map[string]any{"name": "forbidden"},
			map[string]string{"method": "prompts/get", "prompt": "forbidden", "namespace": "", "name": "", "dryRun": "false", "outcome": "denied", "durationMs": "0"}, nil,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			metrics, err := NewMetrics(registry, []string{"work", "fails"})
			if err != nil {
				t.Fatal(err)
			}
			h := newHarness(t, content(add), func(c *Config, _ *limits) { c.Clock, c.Metrics = clk, metrics })
			h.send(t, mcptest.Message{Protocol: legacyProtocol, Token: "alice", Method: tt.method, Params: tt.params})
			var lines []string
			polltest.Eventually(t, "it is written", func() bool { lines = h.logs.Lines("Handled a call"); return len(lines) > 0 })
			if len(lines) != 1 {
				t.Fatalf("the record has %d lines: %q", len(lines), lines)
			}
			got := fields(lines[0])
			delete(got, "level")
			delete(got, "msg")
			tt.want["user"], tt.want["requestID"] = "alice", "request-1"
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the line (-want +got):\n%s", diff)
			}
			if strings.Contains(lines[0], "secret") {
				t.Errorf("the line tells a secret: %s", lines[0])
			}
			var counted []string
			for _, series := range mcptest.Series(t, registry) {
				if strings.HasPrefix(series, "coder_k8s_mcp_tool_calls_total") {
					counted = append(counted, series)
				}
			}
			if diff := cmp.Diff(tt.counted, counted); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOutcomes(t *testing.T) {
	resource := schema.GroupResource{Resource: "pods"}
	failed := func(err error) *mcp.CallToolResult {
		result := &mcp.CallToolResult{}
		result.SetError(err)
		return result
	}
	tests := map[string]struct {
		recorded string
		result   mcp.Result
		err      error
		want     string
	}{
		"it worked":                         {"", &mcp.CallToolResult{}, nil, "ok"},
		"what the tool says":                {"declined", failed(errors.New("no")), nil, "declined"},
		"an error after what the tool said": {"needsinput", nil, fmt.Errorf("asking: %w", context.DeadlineExceeded), "timeout"},
		"a panic":                           {"", nil, nil, "error"},
		"a question":                        {"", &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}}, nil, "needsinput"},
		"a mistake":                         {"", failed(toolset.UsageError("x")), nil, "invalid"},
		"an error without a cause":          {"", &mcp.CallToolResult{IsError: true}, nil, "error"},
		"a mistake in parameters":           {"", nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams}, "invalid"},
		"what a prompt says":                {"denied", nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams}, "denied"},
		"another error of the protocol":     {"", nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError}, "error"},
		"cancelled":                         {"", nil, fmt.Errorf("reading: %w", context.Canceled), "cancelled"},
		"forbidden":                         {"", nil, apierrors.NewForbidden(resource, "x", nil), "denied"},
		"not found":                         {"", nil, fmt.Errorf("reading: %w", apierrors.NewNotFound(resource, "x")), "notfound"},
		"a conflict":                        {"", nil, apierrors.NewConflict(resource, "x", nil), "conflict"},
		"it exists":                         {"", nil, apierrors.NewAlreadyExists(resource, "x"), "conflict"},
		"a bad request":                     {"", nil, apierrors.NewBadRequest("x"), "invalid"},
		"too many requests":                 {"", nil, apierrors.NewTooManyRequestsError("x"), "unavailable"},
		"no answer":                         {"", nil, apierrors.NewServiceUnavailable("x"), "unavailable"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := outcomeOf(tt.recorded, tt.result, tt.err); got != tt.want {
				t.Errorf("the outcome is %q, not %q", got, tt.want)
			}
		})
	}
}

// traced starts a server that sends its spans to a collector. Its tool returns the request
// ID.
func traced(t *testing.T) (*harness, *tracingtest.Collector, *tracing.Provider) {
	t.Helper()
	collector := tracingtest.New(t)
	provider := collector.Provider(t)
	h := newHarness(t, content(func(server *mcp.Server) {
		addTool(server, "which", func(ctx context.Context, _ *mcp.CallToolRequest) (string, error) {
			return tracing.RequestID(ctx), nil
		})
	}), func(c *Config, _ *limits) { c.Tracing = provider })
	return h, collector, provider
}

// Each call has one span with the ID of its own request.
func TestEachCallIsASpan(t *testing.T) {
	for name, protocol := range ways {
		t.Run(name, func(t *testing.T) {
			h, collector, provider := traced(t)
			session := h.connect(t, protocol, "alice", nil)
			if err := session.Ping(t.Context(), nil); err != nil && protocol != modernProtocol {
				t.Fatal(err)
			}
			if _, err := session.ListTools(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			ids := map[string]bool{}
			for range 2 {
				ids[mcptest.Text(session.Call(t, "which", nil))] = true
			}
			if len(ids) != 2 || ids[""] {
				t.Errorf("the calls have the ids %v, want two", ids)
			}
			if err := provider.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			var traces []string
			for _, span := range collector.Spans() {
				if strings.Contains(span.Name, "ping") || strings.Contains(span.Name, "notifications/") || span.Parent != "" {
					t.Errorf("%+v", span)
				}
				// The tools of the harness are not in the server's list of known tools.
				if span.Name == "MCP tools/call" && ids[span.Attributes["request.id"]] {
					traces = append(traces, span.Trace)
				}
			}
			if slices.Sort(traces); len(slices.Compact(traces)) != 2 {
				t.Errorf("two calls are the traces %v: %v", traces, collector.Spans())
			}
		})
	}
}

// A client that does not use HTTP itself sends the trace context in the message.
func TestTheTraceOfAMessage(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	for name, parent := range map[string]any{
		"a trace": "00-" + trace + "-00f067aa0ba902b7-01", "nonsense": "hunter2", "no text": 7, "nothing": nil,
	} {
		t.Run(name, func(t *testing.T) {
			h, collector, provider := traced(t)
			response, body := h.send(t, mcptest.Message{Protocol: legacyProtocol, Token: "alice", Method: methodCallTool, Params: map[string]any{
				"name": "which", "_meta": map[string]any{"traceparent": parent},
			}})
			if response.StatusCode != 200 || !strings.Contains(body, "request-") {
				t.Fatalf("%d %s", response.StatusCode, body)
			}
			if err := provider.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			spans := collector.Spans()
			if len(spans) != 1 || (spans[0].Trace == trace) != (name == "a trace") || strings.Contains(fmt.Sprint(spans), "hunter2") {
				t.Errorf("%v", spans)
			}
		})
	}
}
