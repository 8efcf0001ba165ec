package mcpserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// told returns the series of a registry with their values, as "name{labels} value".
func told(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
			value := metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			all = append(all, fmt.Sprintf("%s{%s} %g", family.GetName(), strings.Join(labels, ","), value))
		}
	}
	slices.Sort(all)
	return all
}

func TestWhatIsCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry, []string{"list_workspaces"})
	if err != nil {
		t.Fatal(err)
	}
	m.CalledTool("list_workspaces", "ok", time.Second)
	m.CalledTool("made-up-1", "invalid", time.Second)
	m.CalledTool("made-up-2", "invalid", time.Second)
	m.Answered("POST", 200)
	m.Answered("BREW", 405)
	m.Answered("PROPFIND", 405)
	m.Authenticated("accepted")
	m.RateLimited()
	m.AddInFlight(2)
	m.AddInFlight(-1)
	m.AddSessions(3)
	m.AddStreams(4)
	want := []string{
		"coder_k8s_mcp_authentications_total{outcome=accepted} 1",
		"coder_k8s_mcp_in_flight{} 1",
		"coder_k8s_mcp_rate_limited_total{} 1",
		"coder_k8s_mcp_requests_total{code=200,method=POST} 1",
		"coder_k8s_mcp_requests_total{code=405,method=other} 2",
		"coder_k8s_mcp_sessions{} 3",
		"coder_k8s_mcp_streams{} 4",
		"coder_k8s_mcp_tool_calls_total{outcome=invalid,tool=unknown} 2",
		"coder_k8s_mcp_tool_calls_total{outcome=ok,tool=list_workspaces} 1",
		"coder_k8s_mcp_tool_duration_seconds{tool=list_workspaces} 1",
		"coder_k8s_mcp_tool_duration_seconds{tool=unknown} 2",
	}
	if diff := cmp.Diff(want, told(t, registry)); diff != "" {
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
		m.AddSessions(1)
	}
	if all := told(t, registry); !slices.Contains(all, "coder_k8s_mcp_sessions{} 2") {
		t.Errorf("the series are %q", all)
	}
}

func TestNilCountsNothing(_ *testing.T) {
	var m *Metrics
	m.CalledTool("x", "ok", time.Second)
	m.Answered("GET", 200)
	m.Authenticated("accepted")
	m.RateLimited()
	m.AddInFlight(1)
	m.AddSessions(1)
	m.AddStreams(1)
}
