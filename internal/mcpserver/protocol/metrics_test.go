package protocol

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
)

func TestWhatIsCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry, []string{"list_workspaces"})
	if err != nil {
		t.Fatal(err)
	}
	m.calledTool("list_workspaces", "ok", time.Second)
	m.calledTool("made-up-1", "invalid", time.Second)
	m.calledTool("made-up-2", "invalid", time.Second)
	m.Answered("POST", 200)
	m.Answered("BREW", 405)
	m.Answered("PROPFIND", 405)
	m.Authentications.WithLabelValues("accepted").Inc()
	m.RateLimited.Inc()
	m.InFlight.Add(2)
	m.InFlight.Dec()
	want := []string{
		"coder_k8s_mcp_authentications_total{outcome=accepted} 1",
		"coder_k8s_mcp_in_flight{} 1",
		"coder_k8s_mcp_rate_limited_total{} 1",
		"coder_k8s_mcp_requests_total{code=200,method=POST} 1",
		"coder_k8s_mcp_requests_total{code=405,method=other} 2",
		"coder_k8s_mcp_tool_calls_total{outcome=invalid,tool=unknown} 2",
		"coder_k8s_mcp_tool_calls_total{outcome=ok,tool=list_workspaces} 1",
		"coder_k8s_mcp_tool_duration_seconds{tool=list_workspaces} 1",
		"coder_k8s_mcp_tool_duration_seconds{tool=unknown} 2",
	}
	if diff := cmp.Diff(want, mcptest.Series(t, registry)); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestTwoServersOfAProcessCountTogether(t *testing.T) {
	registry := prometheus.NewRegistry()
	for range 2 {
		m, err := NewMetrics(registry, nil)
		if err != nil {
			t.Fatal(err)
		}
		m.InFlight.Inc()
	}
	if all := mcptest.Series(t, registry); !slices.Contains(all, "coder_k8s_mcp_in_flight{} 2") {
		t.Errorf("the series are %q", all)
	}
}
