package monitoring

func mcpAlerts() AlertGroup {
	return AlertGroup{Name: "coder-k8s.mcp", Title: "The MCP server", Alerts: []Alert{
		{
			Name: "CoderMCPNobodyGetsIn", Severity: Warning, For: "5m",
			Expr:        `sum(rate(coder_k8s_mcp_authentications_total{outcome="unavailable"}[5m])) > 0`,
			Summary:     "The MCP server cannot check who its callers are",
			Description: "For 5 minutes the MCP server has turned callers away because kube-apiserver did not answer about their tokens or rights.",
			Runbook: Runbook{
				Means: "AI tools get 503.",
				Look:  lookAtOperator(),
				Do:    []string{"Look at kube-apiserver, and whether ClusterRoleBinding coder-k8s-auth-delegator names the ServiceAccount of the MCP server."},
			},
		},
		{
			Name: "CoderMCPToolsFail", Severity: Warning, For: "15m",
			Expr: `sum by (tool) (rate(coder_k8s_mcp_tool_calls_total{outcome=~"error|unavailable|timeout"}[10m]))
  / sum by (tool) (rate(coder_k8s_mcp_tool_calls_total[10m])) > 0.2`,
			Summary:     "Calls of MCP tool {{ $labels.tool }} fail",
			Description: "{{ $value | humanizePercentage }} of the calls of {{ $labels.tool }} have failed for 15 minutes, for no reason that lies with the caller.",
			Runbook: Runbook{
				Means: "AI tools cannot do what people ask them to.",
				Look:  append([]string{"PromQL: sum by (tool, outcome) (rate(coder_k8s_mcp_tool_calls_total[10m]))"}, lookAtOperator()...),
				Do: []string{
					"unavailable and timeout: the aggregated API or a Coder does not answer; see the alerts of those.",
					"error: the log has the call and its request id; report it.",
				},
			},
		},
		{
			Name: "CoderMCPRateLimited", Severity: Info, For: "15m",
			Expr:        `sum(rate(coder_k8s_mcp_rate_limited_total[10m])) > 1`,
			Summary:     "A user calls the MCP server too often",
			Description: "For 15 minutes {{ $value | humanize }} requests a second to the MCP server have been refused, because their user makes more than --mcp-rate-limit allows.",
			Runbook: Runbook{
				Means: "Somebody's tool is in a loop, or many tools share one account.",
				Look:  []string{"kubectl -n coder-system logs -l app.kubernetes.io/name=coder-k8s --tail=-1 | grep 'too many'"},
				Do:    []string{"Give each tool an account of its own, or raise --mcp-rate-limit."},
			},
		},
	}}
}
