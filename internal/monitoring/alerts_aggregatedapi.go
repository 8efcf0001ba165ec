package monitoring

import "slices"

func aggregatedAPIAlerts() AlertGroup {
	return AlertGroup{Name: "coder-k8s.aggregated-api", Title: "The aggregated API: workspaces and templates", Alerts: slices.Concat(mirrorAlerts(), requestAlerts())}
}

// mirrorAlerts tell whether what is served is what Coder has, on all replicas.
func mirrorAlerts() []Alert {
	return []Alert{
		{
			Name: "CoderAPINoWriter", Severity: Critical, For: "2m",
			Expr:        `sum(coder_k8s_replication_writer) != 1`,
			Summary:     "{{ $value }} replicas of the aggregated API decide changes, not one",
			Description: "For 2 minutes {{ $value }} replicas of the aggregated API have been the writer, not one. Without one, reads go on with what is known, and writes are answered with 503.",
			Runbook: Runbook{
				Means: "Workspaces and templates cannot be changed through kubectl, and what happens in Coder is not seen. More than one is told only for moments, while one takes over from another.",
				Look: append([]string{
					"kubectl -n coder-system get lease coder-k8s-aggregated-api -o yaml",
					"kubectl -n coder-system get leases",
				}, lookAtOperator()...),
				Do: []string{
					"`leases.coordination.k8s.io is forbidden` in the log: apply the RBAC of the installation again.",
					"The replicas cannot reach each other on port 6444: look at NetworkPolicies.",
					"A replica that holds the Lease and hangs: delete its pod; another takes over within seconds.",
				},
			},
		},
		{
			Name: "CoderAPIReplicaBehind", Severity: Warning, For: "5m",
			Expr:        `max by (pod, resource) (coder_k8s_replication_lag_revisions) / 1e6 > 60`,
			Summary:     "Replica {{ $labels.pod }} of the aggregated API is behind",
			Description: "Replica {{ $labels.pod }} has been {{ $value | humanizeDuration }} behind the writer with {{ $labels.resource }} for 5 minutes.",
			Runbook: Runbook{
				Means: "Who is answered by that replica sees older objects than others. A replica that does not keep up is dropped and begins anew by itself.",
				Look:  append([]string{"kubectl -n coder-system top pods"}, lookAtOperator()...),
				Do:    []string{"Give the pods more CPU, or look at the network between them. Deleting the pod makes it begin anew."},
			},
		},
		{
			Name: "CoderNotSynced", Severity: Warning, For: "15m",
			Expr:        `max by (namespace, name, state) (coder_k8s_mirror_state{state!="Ready"}) == 1`,
			Summary:     "Workspaces of Coder {{ $labels.namespace }}/{{ $labels.name }} are shown as they were ({{ $labels.state }})",
			Description: "The aggregated API has not been in step with CoderControlPlane {{ $labels.namespace }}/{{ $labels.name }} for 15 minutes: its state is {{ $labels.state }}.",
			Runbook: Runbook{
				Means: "Syncing: it has not been read to the end yet. Stale: Coder does not answer, and its objects stay as they were last seen. Quarantined: it has not answered for long, or refuses the token, and only metadata can be changed.",
				Look: []string{
					"kubectl -n NAMESPACE get coderworkspaces",
					"kubectl -n NAMESPACE get codercontrolplane NAME -o jsonpath='{.status.conditions[?(@.type==\"Served\")]}'",
					"PromQL: sum by (code) (rate(coder_k8s_coder_requests_total[5m]))",
				},
				Do: []string{
					"Coder does not answer: as for CoderControlPlaneNotReady.",
					"It refuses the token: as for CoderRefusesOperator.",
					"Syncing for long: a large Coder that answers slowly; see CoderRequestsSlow and the number of coder_k8s_mirror_syncs_total with result failed.",
				},
			},
		},
		{
			Name: "CoderChangesSeenLate", Severity: Warning, For: "10m",
			Expr:        `max by (namespace, name) (coder_k8s_mirror_lag_seconds) > 120`,
			Summary:     "What happens in Coder {{ $labels.namespace }}/{{ $labels.name }} is seen late",
			Description: "For {{ $value | humanizeDuration }} CoderControlPlane {{ $labels.namespace }}/{{ $labels.name }} has not said what it is building. What happened there since is not shown.",
			Runbook: Runbook{
				Means: "Workspaces are shown as they were.",
				Look:  []string{"PromQL: sum by (endpoint, code) (rate(coder_k8s_coder_requests_total[5m]))"},
				Do:    []string{"As for CoderNotSynced. With code 429, Coder limits the operator: raise its API rate limit."},
			},
		},
		{
			Name: "CoderDeletionsHeld", Severity: Warning, For: "10m",
			Expr:        `max by (namespace, name, kind) (coder_k8s_mirror_held_deletions) > 0`,
			Summary:     "{{ $value }} objects are gone from Coder {{ $labels.namespace }}/{{ $labels.name }} at once",
			Description: "Coder {{ $labels.namespace }}/{{ $labels.name }} says that {{ $value }} objects of kind {{ $labels.kind }} do not exist any more. So many at once are not believed until a second look says the same, and they are still shown.",
			Runbook: Runbook{
				Means: "Either somebody deleted them in Coder, or Coder shows the operator less than before: a restored database, an account that lost its role.",
				Look: []string{
					"kubectl -n NAMESPACE get coderworkspaces,codertemplates",
					"Coder's audit log: who deleted what",
				},
				Do: []string{
					"Meant: nothing. They vanish when the second look has confirmed it.",
					"Not meant: restore Coder's database or the role of the operator's account before that.",
				},
			},
		},
	}
}

// requestAlerts tell how clients are answered.
func requestAlerts() []Alert {
	return []Alert{
		{
			Name: "CoderAPIErrors", Severity: Warning, For: "15m",
			Expr: ours(`sum by (resource, verb) (rate(apiserver_request_total{JOB, group="aggregation.coder.com", code=~"5.."}[10m]))
  / sum by (resource, verb) (rate(apiserver_request_total{JOB, group="aggregation.coder.com"}[10m])) > 0.1`),
			Summary:     "The aggregated API fails at {{ $labels.verb }} of {{ $labels.resource }}",
			Description: "{{ $value | humanizePercentage }} of the requests {{ $labels.verb }} {{ $labels.resource }} have been answered with 5xx for 15 minutes.",
			Runbook: Runbook{
				Means: "Commands of kubectl and GitOps tools fail. A 503 is what a Coder that does not answer, or that was never read yet, is told as; a 500 is a fault of the operator.",
				Look: []string{
					"PromQL: sum by (resource, verb, code) (rate(apiserver_request_total{job=\"coder-k8s-metrics\", group=\"aggregation.coder.com\"}[10m]))",
					"kubectl -n coder-system logs -l app.kubernetes.io/name=coder-k8s --tail=-1 | grep '\"level\":\"error\"'",
				},
				Do: []string{
					"503 and 504: as for CoderNotSynced and CoderAPINoWriter.",
					"500: report it, with a support bundle.",
				},
			},
		},
		{
			Name: "CoderAPISlow", Severity: Warning, For: "15m",
			Expr:        ours(`histogram_quantile(0.99, sum by (le, resource, verb) (rate(apiserver_request_duration_seconds_bucket{JOB, group="aggregation.coder.com", verb=~"GET|LIST"}[10m]))) > 2`),
			Summary:     "The aggregated API answers {{ $labels.verb }} of {{ $labels.resource }} slowly",
			Description: "One of a hundred requests {{ $labels.verb }} {{ $labels.resource }} has taken more than 2 seconds for 15 minutes. Reads are answered from memory, so that is the process, not Coder.",
			Runbook: Runbook{
				Means: "Everything that lists workspaces or templates is slow.",
				Look:  []string{"kubectl -n coder-system top pods", "PromQL: sum by (priority_level) (apiserver_flowcontrol_current_inqueue_requests{job=\"coder-k8s-metrics\"})"},
				Do: []string{
					"The pod is at its limit of CPU or near that of memory: raise them (docs/explanation/performance.md has figures).",
					"Requests wait in a queue: a client lists without a watch; `apiserver_request_total` says of what.",
				},
			},
		},
		{
			Name: "CoderAPIWritesUnknown", Severity: Info, For: "0m",
			Expr:        `sum by (resource) (increase(coder_k8s_replication_forwarded_writes_total{outcome="unknown"}[1h])) > 0`,
			Summary:     "Of {{ $value | humanize }} writes of {{ $labels.resource }} nobody knows whether they were carried out",
			Description: "In the last hour the writer was gone before it answered {{ $value | humanize }} writes of {{ $labels.resource }} that another replica had passed on. Their clients got an error and do not know either.",
			Runbook: Runbook{
				Means: "A write may have been carried out though its client was told of an error. Who applies the same again converges.",
				Look:  []string{"kubectl -n coder-system get pods (restarts, age)"},
				Do:    []string{"Nothing, if it was an update or a node that died. Else look at why the writer ended."},
			},
		},
	}
}
