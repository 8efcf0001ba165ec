package protocol

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/requestid"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
	"github.com/coder-k8s/coder-k8s/internal/tracing/tracingtest"
)

// traced starts a server that sends its spans to a collector. Its tool returns the request
// ID.
func traced(t *testing.T, w way) (*harness, *tracingtest.Collector, *tracing.Provider) {
	t.Helper()
	collector := tracingtest.New(t)
	provider := collector.Provider(t)
	h := w.of(t, content(func(server *mcp.Server) {
		addTool(server, "which", func(ctx context.Context, _ *mcp.CallToolRequest) (string, error) {
			return requestid.From(ctx), nil
		})
	}), func(c *Config, _ *limits) { c.Tracing = provider })
	return h, collector, provider
}

// Each call has one span with the ID of its own request. In a session the context is that
// of the first request, whose ID must not be used.
func TestEachCallIsASpan(t *testing.T) {
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			h, collector, provider := traced(t, w)
			session := h.connect(t, w.era, "alice", nil)
			if err := session.Ping(t.Context(), nil); err != nil && w.era != modernEra {
				t.Fatal(err)
			}
			if _, err := session.ListTools(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			ids := map[string]bool{}
			for range 2 {
				ids[textOf(session.call(t, "which", nil))] = true
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
			h, collector, provider := traced(t, way{era: legacyEra})
			response, body := h.send(t, message{era: legacyEra, token: "alice", method: methodCallTool, params: map[string]any{
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
