package monitoring

func overview() Row {
	return Row{Title: "Overview", Panels: []Panel{
		{Title: "Replicas", Description: "Pods of the operator that Prometheus reaches.", Kind: Number, Unit: Plain, Always: true,
			Queries: oneQuery(`sum(up{JOB})`, "")},
		{Title: "Version", Description: "More than one while an update is under way.", Kind: Table, Unit: Plain, Always: true,
			Queries: oneQuery(`count by (version, commit, go_version) (coder_k8s_build_info)`, "")},
		{Title: "Control planes Ready", Description: "Of all CoderControlPlanes, the part that is Ready.", Kind: Number, Unit: Ratio, Always: true,
			Queries: oneQuery(`avg(max by (namespace, name) (coder_k8s_ready{kind="CoderControlPlane"}))`, "")},
		{Title: "Workspaces", Kind: Number, Unit: Plain, Always: true, Description: "Workspaces that the aggregated API serves.",
			Queries: oneQuery(`sum(max by (namespace, name) (coder_k8s_mirror_objects{kind="CoderWorkspace"}))`, "")},
		{Title: "Templates", Kind: Number, Unit: Plain, Always: true, Description: "Templates that the aggregated API serves.",
			Queries: oneQuery(`sum(max by (namespace, name) (coder_k8s_mirror_objects{kind="CoderTemplate"}))`, "")},
		{Title: "Alerts", Description: "Alerts of the operator that fire now.", Kind: Table, Unit: Plain,
			Queries: oneQuery(`count by (alertname, severity) (ALERTS{alertname=~"Coder.*", alertstate="firing"})`, "")},
	}}
}

func objects() Row {
	return Row{Title: "Control planes, provisioners and proxies", Panels: []Panel{
		{Title: "Not Ready", Description: "Objects whose condition Ready is not true. kubectl describe says why.", Kind: Table, Unit: Plain,
			Queries: oneQuery(`max by (kind, namespace, name) (coder_k8s_ready) == 0`, "")},
		{Title: "Objects by kind", Description: "All objects, and those that are Ready.", Kind: Graph, Unit: Plain, Always: true,
			Queries: []Query{
				{`count by (kind) (max by (kind, namespace, name) (coder_k8s_ready))`, "{{kind}}"},
				{`sum by (kind) (max by (kind, namespace, name) (coder_k8s_ready))`, "{{kind}}, Ready"},
			}},
		{Title: "Passes by reason", Description: "Passes of the controllers, by the reason of condition Ready after them.", Kind: Graph, Unit: PerSecond, Always: true,
			Queries: oneQuery(`sum by (kind, reason) (rate(coder_k8s_reconcile_outcomes_total[$__rate_interval]))`, "{{kind}} {{reason}}")},
		{Title: "Passes that failed", Description: "Passes that ended with an error and are tried again.", Kind: Graph, Unit: PerSecond, Always: true,
			Queries: oneQuery(`sum by (controller) (rate(controller_runtime_reconcile_errors_total{JOB}[$__rate_interval]))`, "{{controller}}")},
		{Title: "Time of a pass", Description: "Nine of ten passes are faster.", Kind: Graph, Unit: Seconds, Always: true,
			Queries: oneQuery(`histogram_quantile(0.9, sum by (le, controller) (rate(controller_runtime_reconcile_time_seconds_bucket{JOB}[$__rate_interval])))`, "{{controller}}")},
		{Title: "Waiting objects", Description: "Objects that wait for a pass.", Kind: Graph, Unit: Plain, Always: true,
			Queries: oneQuery(`max by (name) (workqueue_depth{JOB})`, "{{name}}")},
		{Title: "Time until Ready", Description: "From creation, or a change of the spec, until Ready: the median and nine of ten, over the range of the dashboard.", Kind: Graph, Unit: Seconds,
			Queries: []Query{
				{`histogram_quantile(0.5, sum by (le, kind) (increase(coder_k8s_time_to_ready_seconds_bucket[$__range])))`, "{{kind}}, median"},
				{`histogram_quantile(0.9, sum by (le, kind) (increase(coder_k8s_time_to_ready_seconds_bucket[$__range])))`, "{{kind}}, 90 %"},
			}},
		{Title: "Licenses run out in", Description: "By control plane.", Kind: Table, Unit: Duration,
			Queries: oneQuery(`max by (namespace, name) (coder_k8s_license_expiry_timestamp_seconds) - time()`, "")},
		{Title: "Operator's tokens run out in", Description: "By control plane. They are replaced after two thirds of their life.", Kind: Table, Unit: Duration, Always: true,
			Queries: oneQuery(`max by (namespace, name) (coder_k8s_operator_token_expiry_timestamp_seconds) - time()`, "")},
		{Title: "Certificates run out in", Description: "Those that the operator serves with.", Kind: Table, Unit: Duration, Always: true,
			Queries: oneQuery(`min by (secret) (coder_k8s_certificate_expiry_timestamp_seconds) - time()`, "")},
	}}
}

func coderCalls() Row {
	return Row{Title: "Calls to Coder", Panels: []Panel{
		{Title: "Requests by endpoint", Description: "What the operator asks Coder.", Kind: Graph, Unit: PerSecond, Always: true,
			Queries: oneQuery(`sum by (method, endpoint) (rate(coder_k8s_coder_requests_total[$__rate_interval]))`, "{{method}} {{endpoint}}")},
		{Title: "Requests by status", Description: "0 is no answer.", Kind: Graph, Unit: PerSecond, Always: true,
			Queries: oneQuery(`sum by (code) (rate(coder_k8s_coder_requests_total[$__rate_interval]))`, "{{code}}")},
		{Title: "Time until the answer", Description: "The median, 95 and 99 of a hundred.", Kind: Graph, Unit: Seconds, Always: true,
			Queries: []Query{
				{`histogram_quantile(0.5, sum by (le) (rate(coder_k8s_coder_request_duration_seconds_bucket[$__rate_interval])))`, "median"},
				{`histogram_quantile(0.95, sum by (le) (rate(coder_k8s_coder_request_duration_seconds_bucket[$__rate_interval])))`, "95 %"},
				{`histogram_quantile(0.99, sum by (le) (rate(coder_k8s_coder_request_duration_seconds_bucket[$__rate_interval])))`, "99 %"},
			}},
	}}
}

func aggregatedAPI() Row {
	return Row{Title: "The aggregated API", Panels: []Panel{
		{Title: "Requests", Description: "Requests for workspaces and templates, by verb.", Kind: Graph, Unit: PerSecond, Always: true,
			Queries: oneQuery(`sum by (verb, resource) (rate(apiserver_request_total{JOB, group="aggregation.coder.com"}[$__rate_interval]))`, "{{verb}} {{resource}}")},
		{Title: "Requests by status", Description: "4xx are mistakes of clients, 503 is a Coder that does not answer.", Kind: Graph, Unit: PerSecond, Always: true,
			Queries: oneQuery(`sum by (code) (rate(apiserver_request_total{JOB, group="aggregation.coder.com"}[$__rate_interval]))`, "{{code}}")},
		{Title: "Time of a request", Description: "99 of a hundred are faster. Watches are left out.", Kind: Graph, Unit: Seconds, Always: true,
			Queries: oneQuery(`histogram_quantile(0.99, sum by (le, verb) (rate(apiserver_request_duration_seconds_bucket{JOB, group="aggregation.coder.com", verb!~"WATCH|CONNECT"}[$__rate_interval])))`, "{{verb}}")},
		{Title: "Open watches", Description: "Watches and other streams.", Kind: Graph, Unit: Plain, Always: true,
			Queries: oneQuery(`sum by (verb, resource) (apiserver_longrunning_requests{JOB, group="aggregation.coder.com"})`, "{{verb}} {{resource}}")},
		{Title: "Requests in work", Description: "By kind of request.", Kind: Graph, Unit: Plain, Always: true,
			Queries: oneQuery(`sum by (request_kind) (apiserver_current_inflight_requests{JOB})`, "{{request_kind}}")},
		{Title: "Requests that wait", Description: "In the queues of priority and fairness, by level.", Kind: Graph, Unit: Plain, Always: true,
			Queries: oneQuery(`sum by (priority_level) (apiserver_flowcontrol_current_inqueue_requests{JOB})`, "{{priority_level}}")},
		{Title: "Requests refused by priority and fairness", Description: "Answered with 429.", Kind: Graph, Unit: PerSecond,
			Queries: oneQuery(`sum by (priority_level, reason) (rate(apiserver_flowcontrol_rejected_requests_total{JOB}[$__rate_interval]))`, "{{priority_level}} {{reason}}")},
		{Title: "Questions to kube-apiserver about callers", Description: "Reviews of tokens and of access, by status.", Kind: Graph, Unit: PerSecond, Always: true,
			Queries: []Query{
				{ours(`sum by (code) (rate(apiserver_delegated_authn_request_total{JOB}[$__rate_interval]))`), "token {{code}}"},
				{ours(`sum by (code) (rate(apiserver_delegated_authz_request_total{JOB}[$__rate_interval]))`), "access {{code}}"},
			}},
		{Title: "Events sent to watches", Description: "By kind.", Kind: Graph, Unit: PerSecond, Always: true,
			Queries: oneQuery(`sum by (resource) (rate(apiserver_watch_events_total{JOB, group="aggregation.coder.com"}[$__rate_interval]))`, "{{resource}}")},
		{Title: "Watches ended for being slow", Description: "By kind. Their clients begin again by themselves.", Kind: Graph, Unit: PerSecond,
			Queries: oneQuery(`sum by (resource) (rate(apiserver_terminated_watchers_total{JOB}[$__rate_interval]))`, "{{resource}}")},
	}}
}

func mirror() Row {
	return Row{Title: "Mirror of Coder", Panels: []Panel{
		{Title: "State", Description: "Of each control plane: Syncing, Ready, Stale or Quarantined.", Kind: Table, Unit: Plain, Always: true,
			Queries: oneQuery(`max by (namespace, name, state) (coder_k8s_mirror_state) == 1`, "")},
		{Title: "Lag", Description: "Since Coder last said what it is building.", Kind: Graph, Unit: Seconds, Always: true,
			Queries: oneQuery(`max by (namespace, name) (coder_k8s_mirror_lag_seconds)`, "{{namespace}}/{{name}}")},
		{Title: "Objects", Description: "By control plane and kind.", Kind: Graph, Unit: Plain, Always: true,
			Queries: oneQuery(`max by (namespace, name, kind) (coder_k8s_mirror_objects)`, "{{namespace}}/{{name}} {{kind}}")},
		{Title: "Changes seen in Coder", Description: "By kind.", Kind: Graph, Unit: PerSecond, Always: true,
			Queries: oneQuery(`sum by (kind) (rate(coder_k8s_mirror_changes_total[$__rate_interval]))`, "{{kind}}")},
		{Title: "Full reads", Description: "Over the range of the dashboard, by result.", Kind: Graph, Unit: Plain, Always: true,
			Queries: oneQuery(`sum by (namespace, name, result) (increase(coder_k8s_mirror_syncs_total[$__range]))`, "{{namespace}}/{{name}} {{result}}")},
		{Title: "Deletions that are held back", Description: "Not believed until a second look says the same.", Kind: Graph, Unit: Plain, Always: true,
			Queries: oneQuery(`max by (namespace, name, kind) (coder_k8s_mirror_held_deletions)`, "{{namespace}}/{{name}} {{kind}}")},
	}}
}

func replication() Row {
	return Row{Title: "Replicas of the aggregated API", Panels: []Panel{
		{Title: "Who writes", Description: "1 on the replica that decides the changes.", Kind: Graph, Unit: Plain, Always: true,
			Queries: oneQuery(`max by (pod) (coder_k8s_replication_writer)`, "{{pod}}")},
		{Title: "Followers", Description: "Replicas that follow each.", Kind: Graph, Unit: Plain, Always: true,
			Queries: oneQuery(`max by (pod) (coder_k8s_replication_followers)`, "{{pod}}")},
		{Title: "Behind the writer", Description: "When the writer last told.", Kind: Graph, Unit: Seconds,
			Queries: oneQuery(`max by (pod, resource) (coder_k8s_replication_lag_revisions) / 1e6`, "{{pod}} {{resource}}")},
		{Title: "Time until followers have a change", Description: "Of the last change.", Kind: Graph, Unit: Seconds,
			Queries: oneQuery(`max by (pod, resource) (coder_k8s_replication_lag_seconds)`, "{{pod}} {{resource}}")},
		{Title: "Writes passed on to the writer", Description: "By outcome.", Kind: Graph, Unit: PerSecond,
			Queries: oneQuery(`sum by (resource, outcome) (rate(coder_k8s_replication_forwarded_writes_total[$__rate_interval]))`, "{{resource}} {{outcome}}")},
		{Title: "Changes of the writer", Description: "Takeovers, logs that were replaced by a snapshot and followers that were dropped, over the range of the dashboard.", Kind: Graph, Unit: Plain,
			Queries: []Query{
				{`sum(increase(coder_k8s_replication_takeovers_total[$__range]))`, "takeovers"},
				{`sum by (resource) (increase(coder_k8s_replication_resets_total[$__range]))`, "snapshots of {{resource}}"},
				{`sum(increase(coder_k8s_replication_dropped_followers_total[$__range]))`, "dropped followers"},
			}},
	}}
}

func mcp() Row {
	return Row{Title: "MCP server", Panels: []Panel{
		{Title: "Calls by tool", Kind: Graph, Unit: PerSecond, Description: "What AI tools ask for.",
			Queries: oneQuery(`sum by (tool) (rate(coder_k8s_mcp_tool_calls_total[$__rate_interval]))`, "{{tool}}")},
		{Title: "Calls by outcome", Kind: Graph, Unit: PerSecond, Description: "denied, invalid and notfound lie with the caller; error, unavailable and timeout do not.",
			Queries: oneQuery(`sum by (outcome) (rate(coder_k8s_mcp_tool_calls_total[$__rate_interval]))`, "{{outcome}}")},
		{Title: "Time of a call", Kind: Graph, Unit: Seconds, Description: "Nine of ten are faster. Tools that wait for a build take its time.",
			Queries: oneQuery(`histogram_quantile(0.9, sum by (le, tool) (rate(coder_k8s_mcp_tool_duration_seconds_bucket[$__rate_interval])))`, "{{tool}}")},
		{Title: "Requests by status", Kind: Graph, Unit: PerSecond, Description: "Of HTTP, refused ones too.",
			Queries: oneQuery(`sum by (method, code) (rate(coder_k8s_mcp_requests_total[$__rate_interval]))`, "{{method}} {{code}}")},
		{Title: "Callers at the entrance", Kind: Graph, Unit: PerSecond, Description: "What became of them.",
			Queries: oneQuery(`sum by (outcome) (rate(coder_k8s_mcp_authentications_total[$__rate_interval]))`, "{{outcome}}")},
		{Title: "Open", Kind: Graph, Unit: Plain, Description: "Requests in work, sessions and streams.", Always: true,
			Queries: []Query{
				{`sum(coder_k8s_mcp_in_flight)`, "requests in work"},
				{`sum(coder_k8s_mcp_sessions)`, "sessions"},
				{`sum(coder_k8s_mcp_streams)`, "streams"},
			}},
		{Title: "Refused for calling too often", Kind: Graph, Unit: PerSecond, Description: "Users with more than --mcp-rate-limit.", Always: true,
			Queries: oneQuery(`sum(rate(coder_k8s_mcp_rate_limited_total[$__rate_interval]))`, "refused")},
	}}
}

func process() Row {
	return Row{Title: "Process", Panels: []Panel{
		{Title: "CPU", Kind: Graph, Unit: Plain, Description: "Cores in use, by pod.", Always: true,
			Queries: oneQuery(`sum by (pod) (rate(process_cpu_seconds_total{JOB}[$__rate_interval]))`, "{{pod}}")},
		{Title: "Memory", Kind: Graph, Unit: Bytes, Description: "Resident memory, by pod.", Always: true,
			Queries: oneQuery(`sum by (pod) (process_resident_memory_bytes{JOB})`, "{{pod}}")},
		{Title: "Goroutines", Kind: Graph, Unit: Plain, Description: "A number that only rises is a leak.", Always: true,
			Queries: oneQuery(`sum by (pod) (go_goroutines{JOB})`, "{{pod}}")},
		{Title: "Requests to kube-apiserver", Kind: Graph, Unit: PerSecond, Description: "By method and status.", Always: true,
			Queries: oneQuery(`sum by (method, code) (rate(rest_client_requests_total{JOB}[$__rate_interval]))`, "{{method}} {{code}}")},
		{Title: "Leader of the controllers", Kind: Graph, Unit: Plain, Description: "1 on the replica that runs them.", Always: true,
			Queries: oneQuery(`max by (pod) (leader_election_master_status{JOB, name="coder-k8s-controller.coder.com"})`, "{{pod}}")},
	}}
}
