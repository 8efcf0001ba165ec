package monitoring

import "strings"

// ours are the labels of a series that Prometheus scraped from the operator.
const ours = `job="coder-k8s-metrics",namespace="coder-system",pod="a"`

// object returns the labels by which an alert identifies an object.
func object(namespace, name string) map[string]string {
	return map[string]string{"namespace": namespace, "name": name}
}

// situations returns for each alert at least one situation in which it fires, and one in which
// it almost fires.
func situations() map[string][]situation {
	all := map[string][]situation{}
	for _, some := range []map[string][]situation{operatorSituations(), objectSituations(), coderSituations(), aggregatedAPISituations(), mcpSituations()} {
		for name, list := range some {
			all[name] = append(all[name], list...)
		}
	}
	return all
}

func operatorSituations() map[string][]situation {
	const running = `controller_runtime_max_concurrent_reconciles{controller="codercontrolplane",` + ours + `}`
	const otherRunning = `controller_runtime_max_concurrent_reconciles{controller="codercontrolplane",job="coder-k8s-metrics",pod="b"}`
	up := map[string]string{"job": "coder-k8s-metrics", "namespace": "coder-system", "pod": "a"}
	return map[string][]situation{
		"CoderK8sDown": {
			{"nothing is scraped", map[string]string{`up{job="other"}`: "1x20"}, "6m", []map[string]string{{}}},
			{"nothing is reached", map[string]string{`up{` + ours + `}`: "0x20"}, "6m", []map[string]string{{}}},
			{"not for long", map[string]string{`up{` + ours + `}`: "1x10 0x3 1x10"}, "13m", nil},
			{"one of two is reached", map[string]string{`up{` + ours + `}`: "0x20", `up{job="coder-k8s-metrics",pod="b"}`: "1x20"}, "15m", nil},
		},
		"CoderK8sReplicaDown": {
			{"one is not reached", map[string]string{`up{` + ours + `}`: "0x20", `up{job="coder-k8s-metrics",pod="b"}`: "1x20"}, "11m", []map[string]string{up}},
			{"somebody else's is not reached", map[string]string{`up{job="other"}`: "0x20", `up{` + ours + `}`: "1x20"}, "11m", nil},
		},
		"CoderK8sNoLeader": {
			{"no replica runs them, or all that do are gone", map[string]string{`up{` + ours + `}`: "1x20"}, "6m", []map[string]string{{}}},
			{"two", map[string]string{running: "4x20", otherRunning: "4x20"}, "6m", []map[string]string{{}}},
			{"one of two", map[string]string{running: "4x20", `up{` + ours + `}`: "1x20", `up{job="coder-k8s-metrics",pod="b"}`: "1x20"}, "6m", nil},
			{"another takes over", map[string]string{running: "4x9 stale", otherRunning: "_x11 4x20", `up{job="coder-k8s-metrics",pod="b"}`: "1x30"}, "15m", nil},
			{"nothing is reached, which is another alert", map[string]string{`up{` + ours + `}`: "0x20"}, "6m", nil},
		},
		"CoderK8sReconcileErrors": {
			{"one in two seconds", map[string]string{`controller_runtime_reconcile_errors_total{controller="codercontrolplane",` + ours + `}`: "0+30x60"}, "30m",
				[]map[string]string{{"controller": "codercontrolplane"}}},
			{"now and then", map[string]string{`controller_runtime_reconcile_errors_total{controller="codercontrolplane",` + ours + `}`: "0+1x60"}, "30m", nil},
			{"somebody else's", map[string]string{`controller_runtime_reconcile_errors_total{controller="x",job="other"}`: "0+30x60"}, "30m", nil},
		},
		"CoderK8sReconcileHangs": {
			{"for a quarter of an hour", map[string]string{`workqueue_longest_running_processor_seconds{name="codercontrolplane",` + ours + `}`: "0+60x60"}, "17m",
				[]map[string]string{{"name": "codercontrolplane"}}},
			{"a slow one", map[string]string{`workqueue_longest_running_processor_seconds{name="codercontrolplane",` + ours + `}`: "300x60"}, "17m", nil},
		},
		"CoderK8sQueueGrows": {
			{"hundreds wait", map[string]string{`workqueue_depth{name="codercontrolplane",` + ours + `}`: "500x60"}, "16m", []map[string]string{{"name": "codercontrolplane"}}},
			{"a start", map[string]string{`workqueue_depth{name="codercontrolplane",` + ours + `}`: "500x5 0x60"}, "16m", nil},
		},
		"CoderK8sKubeAPIErrors": {
			{"one of ten", map[string]string{
				`rest_client_requests_total{code="200",method="GET",` + ours + `}`: "0+90x60",
				`rest_client_requests_total{code="503",method="GET",` + ours + `}`: "0+10x60",
			}, "30m", []map[string]string{{}}},
			{"no answer", map[string]string{`rest_client_requests_total{code="<error>",method="GET",` + ours + `}`: "0+10x60"}, "30m", []map[string]string{{}}},
			{"refusals are answers", map[string]string{
				`rest_client_requests_total{code="200",method="GET",` + ours + `}`: "0+90x60",
				`rest_client_requests_total{code="403",method="GET",` + ours + `}`: "0+90x60",
			}, "30m", nil},
		},
		"CoderK8sVersionSkew": {
			{"two versions", map[string]string{
				`coder_k8s_build_info{version="v1",` + ours + `}`:                    "1x90",
				`coder_k8s_build_info{version="v2",job="coder-k8s-metrics",pod="b"}`: "1x90",
			}, "62m", []map[string]string{{}}},
			{"an update", map[string]string{
				`coder_k8s_build_info{version="v1",` + ours + `}`:                    "1x10",
				`coder_k8s_build_info{version="v2",job="coder-k8s-metrics",pod="b"}`: "_x8 1x90",
			}, "62m", nil},
		},
		"CoderK8sCertificateExpires": {
			{"in three days", map[string]string{`coder_k8s_certificate_expiry_timestamp_seconds{secret="coder-k8s-apiserver-tls",` + ours + `}`: "259200x60"}, "20m",
				[]map[string]string{{"secret": "coder-k8s-apiserver-tls"}}},
			{"in eight days", map[string]string{`coder_k8s_certificate_expiry_timestamp_seconds{secret="coder-k8s-apiserver-tls",` + ours + `}`: "700000x60"}, "20m", nil},
		},
	}
}

func objectSituations() map[string][]situation {
	out := map[string][]situation{}
	for alert, kind := range map[string]string{
		"CoderControlPlaneNotReady": "CoderControlPlane", "CoderProvisionerNotReady": "CoderProvisioner", "CoderWorkspaceProxyNotReady": "CoderWorkspaceProxy",
	} {
		series := `coder_k8s_ready{kind="` + kind + `",name="coder",namespace="team",job="coder-k8s-metrics",pod="a"}`
		out[alert] = []situation{
			{"not ready", map[string]string{series: "0x30"}, "16m", []map[string]string{object("team", "coder")}},
			{"becoming ready", map[string]string{series: "0x10 1x30"}, "16m", nil},
			{"another kind", map[string]string{`coder_k8s_ready{kind="Other",name="coder",namespace="team"}`: "0x30"}, "16m", nil},
			// The new leader exports the series; that of the previous leader expires in
			// Prometheus.
			{"another replica says ready", map[string]string{series: "0x30", `coder_k8s_ready{kind="` + kind + `",name="coder",namespace="team",pod="b"}`: "1x30"}, "16m", nil},
		}
	}
	const license = `coder_k8s_license_expiry_timestamp_seconds{name="coder",namespace="team",pod="a"}`
	out["CoderLicenseExpired"] = []situation{
		{"after ten minutes", map[string]string{license: "600x60"}, "16m", []map[string]string{object("team", "coder")}},
		{"an hour before", map[string]string{license: "4560x60"}, "16m", nil},
	}
	out["CoderLicenseExpiresSoon"] = []situation{
		{"in a week", map[string]string{license: "604800x120"}, "62m", []map[string]string{object("team", "coder")}},
		{"in a month", map[string]string{license: "2592000x120"}, "62m", nil},
		{"has run out, which is another alert", map[string]string{license: "600x120"}, "90m", nil},
	}
	const token = `coder_k8s_operator_token_expiry_timestamp_seconds{name="coder",namespace="team",pod="a"}`
	const due = `coder_k8s_backup_due_timestamp_seconds{name="coder",namespace="team",pod="a"}`
	out["CoderBackupOverdue"] = []situation{
		{"three hours ago", map[string]string{due: "0x300"}, "180m", []map[string]string{object("team", "coder")}},
		{"an hour ago", map[string]string{due: "0x300"}, "60m", nil},
		{"completed meanwhile", map[string]string{due: "0x120 86400x200"}, "180m", nil},
	}
	out["CoderOperatorTokenNotRenewed"] = []situation{
		{"for more than a day, twelve hours before it runs out", map[string]string{token: "133200x2000"}, "25h", []map[string]string{object("team", "coder")}},
		{"has run out", map[string]string{token: "3600x200"}, "100m", []map[string]string{object("team", "coder")}},
		{"there are days left", map[string]string{token: "604800x2000"}, "26h", nil},
		// A Coder that allows tokens for six hours only: renewed every four.
		{"short tokens that are renewed", map[string]string{token: "21600x240 36000x240 50400x240 64800x240 79200x240 93600x240 108000x240 122400x240"}, "26h", nil},
		{"short tokens after a restart of the operator", map[string]string{
			token: "21600x240 36000x240 50400x240 64800x240 79200x240 93600x200",
			`coder_k8s_operator_token_expiry_timestamp_seconds{name="coder",namespace="team",pod="b"}`: "_x1400 93600x40 108000x240 122400x240",
		}, "26h", nil},
	}
	return out
}

func coderSituations() map[string][]situation {
	requests := func(code string) string {
		return `coder_k8s_coder_requests_total{code="` + code + `",endpoint="/api/v2/workspaces",method="GET",pod="a"}`
	}
	endpoint := map[string]string{"endpoint": "/api/v2/workspaces"}
	bucket := func(le string) string {
		return `coder_k8s_coder_request_duration_seconds_bucket{le="` + le + `",endpoint="/api/v2/workspaces",method="GET",code="200"}`
	}
	return map[string][]situation{
		"CoderRequestsFail": {
			{"a fifth", map[string]string{requests("200"): "0+80x60", requests("502"): "0+20x60"}, "30m", []map[string]string{endpoint}},
			{"no answer at all", map[string]string{requests("0"): "0+20x60"}, "30m", []map[string]string{endpoint}},
			{"a twentieth", map[string]string{requests("200"): "0+95x60", requests("502"): "0+5x60"}, "30m", nil},
			{"not found is an answer", map[string]string{requests("404"): "0+95x60"}, "30m", nil},
		},
		"CoderRefusesOperator": {
			{"all the time", map[string]string{requests("401"): "0+5x60"}, "30m", []map[string]string{endpoint}},
			{"the token of a workspace proxy", map[string]string{
				`coder_k8s_coder_requests_total{code="401",endpoint="/api/v2/workspaceproxies/{}/crypto-keys",method="GET",pod="a"}`: "0+5x60",
			}, "30m", nil},
			{"once, until the token was replaced", map[string]string{requests("401"): "0x10 2x60"}, "30m", nil},
		},
		"CoderRequestsSlow": {
			{"a tenth takes ten seconds", map[string]string{bucket("5"): "0+90x60", bucket("10"): "0+100x60", bucket("+Inf"): "0+100x60"}, "30m", []map[string]string{endpoint}},
			{"one of a hundred does", map[string]string{bucket("5"): "0+99x60", bucket("10"): "0+100x60", bucket("+Inf"): "0+100x60"}, "30m", nil},
		},
	}
}

func aggregatedAPISituations() map[string][]situation {
	const writerA, writerB = `coder_k8s_mirror_leader{pod="a"}`, `coder_k8s_mirror_leader{pod="b"}`
	const lag = `coder_k8s_mirror_lag_seconds{name="coder",namespace="team",pod="a"}`
	const held = `coder_k8s_mirror_held_deletions{kind="CoderWorkspace",name="coder",namespace="team",pod="a"}`
	state := func(state string) string {
		return `coder_k8s_mirror_state{name="coder",namespace="team",state="` + state + `",pod="a"}`
	}
	requests := func(code, group string) string {
		return `apiserver_request_total{code="` + code + `",group="` + group + `",resource="coderworkspaces",verb="LIST",` + ours + `}`
	}
	bucket := func(verb, le string) string {
		return `apiserver_request_duration_seconds_bucket{le="` + le + `",group="aggregation.coder.com",resource="coderworkspaces",verb="` + verb + `",` + ours + `}`
	}
	logs := func(le string) string {
		return strings.Replace(bucket("GET", le), `verb=`, `subresource="log",verb=`, 1)
	}
	const coder = "aggregation.coder.com"
	list := map[string]string{"resource": "coderworkspaces", "verb": "LIST"}
	heldIsReported := []map[string]string{{"namespace": "team", "name": "coder", "kind": "CoderWorkspace"}}
	return map[string][]situation{
		"CoderAPINotMirrored": {
			{"none", map[string]string{writerA: "0x20", writerB: "0x20"}, "5m", []map[string]string{{}}},
			{"two", map[string]string{writerA: "1x20", writerB: "1x20"}, "5m", []map[string]string{{}}},
			{"one", map[string]string{writerA: "1x20", writerB: "0x20"}, "5m", nil},
			{"one takes over", map[string]string{writerA: "1x5 0x20", writerB: "0x6 1x20"}, "8m", nil},
			{"no pod of the aggregated API is reached, but others are", map[string]string{`up{` + ours + `}`: "1x20"}, "5m", []map[string]string{{}}},
			{"nothing is reached, which is another alert", map[string]string{`up{` + ours + `}`: "0x20"}, "5m", nil},
		},
		"CoderNotSynced": {
			{"stale", map[string]string{state("Stale"): "1x30", state("Ready"): "0x30"}, "16m", []map[string]string{{"namespace": "team", "name": "coder", "state": "Stale"}}},
			{"ready", map[string]string{state("Stale"): "0x30", state("Syncing"): "0x30", state("Ready"): "1x30"}, "16m", nil},
			{"read for the first time", map[string]string{state("Syncing"): "1x5 0x30", state("Ready"): "0x5 1x30"}, "16m", nil},
		},
		"CoderChangesSeenLate": {
			{"no answer", map[string]string{lag: "0+60x30"}, "16m", []map[string]string{object("team", "coder")}},
			{"a short outage", map[string]string{lag: "0+60x4 2x30"}, "16m", nil},
		},
		"CoderDeletionsHeld": {
			{"many are gone, and a minute later that is confirmed", map[string]string{held: "0x4 40x1 0x30"}, "6m", heldIsReported},
			{"within the hour after that", map[string]string{held: "0x4 40x1 0x90"}, "60m", heldIsReported},
			{"two hours later", map[string]string{held: "0x4 40x1 0x150"}, "125m", nil},
			{"none is held", map[string]string{held: "0x30"}, "6m", nil},
		},
		"CoderAPIErrors": {
			{"a fifth", map[string]string{requests("200", coder): "0+80x60", requests("503", coder): "0+20x60"}, "30m", []map[string]string{list}},
			{"refusals", map[string]string{requests("200", coder): "0+80x60", requests("403", coder): "0+20x60"}, "30m", nil},
			{"another group", map[string]string{requests("503", "apps"): "0+20x60"}, "30m", nil},
		},
		"CoderAPISlow": {
			{"lists take five seconds", map[string]string{bucket("LIST", "2"): "0+50x60", bucket("LIST", "5"): "0+100x60", bucket("LIST", "+Inf"): "0+100x60"}, "30m", []map[string]string{list}},
			{"logs are followed", map[string]string{logs("2"): "0+50x60", logs("5"): "0+100x60", logs("+Inf"): "0+100x60"}, "30m", nil},
			{"writes wait for Coder", map[string]string{bucket("POST", "2"): "0+50x60", bucket("POST", "5"): "0+100x60", bucket("POST", "+Inf"): "0+100x60"}, "30m", nil},
			{"lists are fast", map[string]string{bucket("LIST", "2"): "0+100x60", bucket("LIST", "5"): "0+100x60", bucket("LIST", "+Inf"): "0+100x60"}, "30m", nil},
		},
	}
}

func mcpSituations() map[string][]situation {
	authentications := func(outcome string) string {
		return `coder_k8s_mcp_authentications_total{outcome="` + outcome + `",pod="a"}`
	}
	calls := func(outcome string) string {
		return `coder_k8s_mcp_tool_calls_total{outcome="` + outcome + `",tool="list_workspaces",pod="a"}`
	}
	const limited = `coder_k8s_mcp_rate_limited_total{pod="a"}`
	return map[string][]situation{
		"CoderMCPNobodyGetsIn": {
			{"reviews have no answer", map[string]string{authentications("unavailable"): "0+10x30"}, "16m", []map[string]string{{}}},
			{"bad tokens", map[string]string{authentications("invalid"): "0+10x30", authentications("unavailable"): "0x30"}, "16m", nil},
		},
		"CoderMCPToolsFail": {
			{"a half", map[string]string{calls("ok"): "0+10x60", calls("unavailable"): "0+10x60"}, "30m", []map[string]string{{"tool": "list_workspaces"}}},
			{"callers without the right", map[string]string{calls("ok"): "0+10x60", calls("denied"): "0+10x60"}, "30m", nil},
		},
		"CoderMCPRateLimited": {
			{"a loop", map[string]string{limited: "0+600x60"}, "30m", []map[string]string{{}}},
			{"one a minute", map[string]string{limited: "0+1x60"}, "30m", nil},
		},
	}
}
