package monitoring

func coderAlerts() AlertGroup {
	return AlertGroup{Name: "coder-k8s.coder", Title: "Calls to Coder", Alerts: []Alert{
		{
			Name: "CoderRequestsFail", Severity: Warning, For: "15m",
			Expr: `sum by (endpoint) (rate(coder_k8s_coder_requests_total{code=~"0|5.."}[10m]))
  / sum by (endpoint) (rate(coder_k8s_coder_requests_total[10m])) > 0.1`,
			Summary:     "Coder fails at {{ $labels.endpoint }}",
			Description: "{{ $value | humanizePercentage }} of the operator's requests to {{ $labels.endpoint }} have had no answer or one of kind 5xx for 15 minutes.",
			Runbook: Runbook{
				Means: "Workspaces and templates are shown late, and changes of them are refused with 503 or carried out later.",
				Look: []string{
					"PromQL: sum by (endpoint, code) (rate(coder_k8s_coder_requests_total[10m]))",
					"kubectl get codercontrolplanes -A",
					"kubectl -n NAMESPACE logs deployment/NAME --tail=200",
				},
				Do: []string{
					"Code 0 is no answer: the pods of Coder, its Service, a NetworkPolicy, DNS, the certificate of a given address.",
					"5xx at all endpoints: mostly Coder's database.",
					"5xx at one endpoint: Coder's log names the cause beside the request id that the operator's log has too.",
				},
			},
		},
		{
			Name: "CoderRefusesOperator", Severity: Warning, For: "15m",
			Expr:        `sum(rate(coder_k8s_coder_requests_total{code="401"}[10m])) > 0`,
			Summary:     "Coder refuses the operator's token",
			Description: "For 15 minutes a Coder has answered requests of the operator with 401. A token that is refused is replaced within minutes where the operator can.",
			Runbook: Runbook{
				Means: "Workspaces and templates of one Coder are shown as they were, and cannot be changed through kubectl.",
				Look:  []string{"kubectl get codercontrolplanes -A -o custom-columns='NS:.metadata.namespace,NAME:.metadata.name,ACCESS:.status.conditions[?(@.type==\"OperatorAccess\")].reason'"},
				Do:    []string{"See what condition OperatorAccess says, and [operator-access.md](../explanation/operator-access.md)."},
			},
		},
		{
			Name: "CoderRequestsSlow", Severity: Warning, For: "15m",
			Expr:        `histogram_quantile(0.95, sum by (le, endpoint) (rate(coder_k8s_coder_request_duration_seconds_bucket[10m]))) > 5`,
			Summary:     "Coder answers slowly at {{ $labels.endpoint }}",
			Description: "One of twenty requests to {{ $labels.endpoint }} has taken Coder more than 5 seconds for 15 minutes.",
			Runbook: Runbook{
				Means: "Changes in Coder are seen late, and commands of kubectl that write wait.",
				Look:  []string{"kubectl -n NAMESPACE top pods", "PromQL: histogram_quantile(0.95, sum by (le, endpoint) (rate(coder_k8s_coder_request_duration_seconds_bucket[10m])))"},
				Do:    []string{"Look at Coder's CPU and at its database. The operator asks each Coder at rest at most 60 times a minute, so it is seldom the cause."},
			},
		},
	}}
}
