package monitoring

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// rules returns the rules of the chart.
func rules(t *testing.T) monitoringv1.PrometheusRuleSpec {
	t.Helper()
	content, err := os.ReadFile("../../charts/coder-k8s/files/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var spec monitoringv1.PrometheusRuleSpec
	if err := yaml.UnmarshalStrict(content, &spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

// alerts returns the rules of all groups.
func alerts(t *testing.T) []monitoringv1.Rule {
	t.Helper()
	var all []monitoringv1.Rule
	for _, group := range rules(t).Groups {
		all = slices.Concat(all, group.Rules)
	}
	return all
}

// panel is one panel of the dashboard, in Grafana's format.
type panel struct {
	Title, Description string
	// Type is "row" for a title, and "timeseries" for lines.
	Type    string
	Targets []struct{ Expr, LegendFormat string }
	// row is the title above it.
	row string
}

// panels returns the panels of the dashboard, without the row titles.
func panels(t *testing.T) []panel {
	t.Helper()
	content, err := os.ReadFile("../../charts/coder-k8s/files/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal(content, &dashboard); err != nil {
		t.Fatal(err)
	}
	var all []panel
	row := ""
	for _, p := range dashboard.Panels {
		if p.Type == "row" {
			row = p.Title
			continue
		}
		p.row = row
		all = append(all, p)
	}
	return all
}

// mayBeEmpty reports whether a panel can be empty on a healthy installation.
func (p panel) mayBeEmpty() bool {
	return slices.Contains([]string{
		"Overview: Alerts",
		"Control planes, provisioners and proxies: Not Ready",
		"Control planes, provisioners and proxies: Time until Ready",
		"Control planes, provisioners and proxies: Licenses expire in",
		"The aggregated API: Requests rejected by API Priority and Fairness",
		"The aggregated API: Watches closed because the client is too slow",
		"MCP server: Calls by tool",
		"MCP server: Calls by outcome",
		"MCP server: Duration of calls",
		"MCP server: Requests by status",
		"MCP server: Authentications",
	}, p.row+": "+p.Title)
}
