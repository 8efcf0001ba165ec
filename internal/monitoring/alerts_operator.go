package monitoring

import "slices"

// lookAtOperator are the commands of every runbook that is about the operator itself.
func lookAtOperator() []string {
	return []string{
		"kubectl -n coder-system get pods -o wide",
		"kubectl -n coder-system logs -l app.kubernetes.io/name=coder-k8s --tail=100",
	}
}

func operatorAlerts() AlertGroup {
	return AlertGroup{Name: "coder-k8s.operator", Title: "The operator", Alerts: slices.Concat(presenceAlerts(), controllerAlerts())}
}

// presenceAlerts tell whether the operator runs, and who leads.
func presenceAlerts() []Alert {
	return []Alert{
		{
			Name: "CoderK8sDown", Severity: Critical, For: "5m",
			Expr:        ours(`absent(up{JOB} == 1)`),
			Summary:     "Prometheus reaches no pod of the operator",
			Description: "For 5 minutes Prometheus has got no metrics from any pod behind Service coder-k8s-metrics. Running Coders go on; nobody repairs or changes them, and where the aggregated API is down too, kubectl shows no workspaces and namespaces cannot be deleted.",
			Runbook: Runbook{
				Means: "Either the operator does not run, or Prometheus cannot get in. Coder itself, and workspaces that run, do not depend on the operator.",
				Look: append(lookAtOperator(),
					"kubectl get apiservice v1alpha1.aggregation.coder.com",
					"kubectl -n coder-system get endpointslices -l kubernetes.io/service-name=coder-k8s-metrics",
				),
				Do: []string{
					"No pod: look at the events of the Deployment (`kubectl -n coder-system describe deployment`): quota, image, admission.",
					"A pod that crashes: its last log line says what is missing, for example a custom resource definition or a right.",
					"Pods are Ready: then it is the way of the metrics. The page Targets of Prometheus says which: 401, 403 or 500 is the token in Secret `coder-k8s-metrics-reader` or its binding, a certificate error is Secret `coder-k8s-metrics-tls`, a timeout is a NetworkPolicy on port 8443.",
				},
			},
		},
		{
			Name: "CoderK8sReplicaDown", Severity: Warning, For: "10m",
			Expr:        ours(`up{JOB} == 0`),
			Summary:     "Prometheus does not reach pod {{ $labels.pod }} of the operator",
			Description: "For 10 minutes Prometheus has got no metrics from {{ $labels.instance }} (pod {{ $labels.namespace }}/{{ $labels.pod }}).",
			Runbook: Runbook{
				Means: "One replica hangs, is not ready, or cannot be reached from Prometheus. The others go on.",
				Look:  lookAtOperator(),
				Do: []string{
					"Pod not Ready: its /readyz says which part is not (`kubectl -n coder-system get --raw /api/v1/namespaces/coder-system/pods/POD:8081/proxy/readyz?verbose`).",
					"Pod Ready: as for CoderK8sDown, it is the way from Prometheus to port 8443.",
				},
			},
		},
		{
			Name: "CoderK8sNoLeader", Severity: Critical, For: "5m",
			Expr:        ours(`sum(leader_election_master_status{JOB, name="coder-k8s-controller.coder.com"}) != 1`),
			Summary:     "{{ $value }} replicas run the controllers, not one",
			Description: "For 5 minutes not exactly one replica has held the Lease coder-k8s-controller.coder.com: {{ $value }} say that they do. With none, nothing that the objects of coder.com ask for is done.",
			Runbook: Runbook{
				Means: "The controllers run on the replica that holds the Lease. None holds it, or several operators are installed under one name of Service.",
				Look: append([]string{
					"kubectl -n coder-system get lease coder-k8s-controller.coder.com -o yaml",
				}, lookAtOperator()...),
				Do: []string{
					"The log says `leases.coordination.k8s.io is forbidden`: apply the RBAC of the installation again.",
					"The holder in the Lease is a pod that is gone: another takes over within 15 seconds; if not, its log says why.",
					"More than one: look for a second installation, `kubectl get deployments -A -l app.kubernetes.io/name=coder-k8s`.",
				},
			},
		},
	}
}

// controllerAlerts tell whether it does its work.
func controllerAlerts() []Alert {
	return []Alert{
		{
			Name: "CoderK8sReconcileErrors", Severity: Warning, For: "15m",
			Expr:        ours(`sum by (controller) (rate(controller_runtime_reconcile_errors_total{JOB}[10m])) > 0.1`),
			Summary:     "Passes of controller {{ $labels.controller }} fail",
			Description: "Controller {{ $labels.controller }} has ended {{ $value | humanize }} passes a second with an error for 15 minutes. It tries again by itself, each time after a longer pause.",
			Runbook: Runbook{
				Means: "Something that the objects ask for cannot be done, or kube-apiserver refuses or loses requests. Objects that are ready stay so.",
				Look: []string{
					"kubectl get codercontrolplanes,coderprovisioners,coderworkspaceproxies -A",
					"kubectl -n coder-system logs -l app.kubernetes.io/name=coder-k8s --tail=-1 | grep '\"level\":\"error\"'",
				},
				Do: []string{
					"`forbidden`: apply the RBAC of the installation again.",
					"An admission webhook or policy refuses a child object: its message stands in the condition ResourcesApplied.",
					"Timeouts: look at kube-apiserver.",
				},
			},
		},
		{
			Name: "CoderK8sReconcileHangs", Severity: Warning, For: "5m",
			Expr:        ours(`max by (name) (workqueue_longest_running_processor_seconds{JOB}) > 600`),
			Summary:     "A pass of controller {{ $labels.name }} does not end",
			Description: "Controller {{ $labels.name }} has worked on one object for {{ $value | humanizeDuration }}. Nothing takes a pass that long.",
			Runbook: Runbook{
				Means: "One object, and with several such all objects of the kind, get no attention any more.",
				Look:  lookAtOperator(),
				Do:    []string{"Restart the operator (`kubectl -n coder-system rollout restart deployment`), which changes nothing for running Coders, and report it with a support bundle taken before."},
			},
		},
		{
			Name: "CoderK8sQueueGrows", Severity: Warning, For: "15m",
			Expr:        ours(`max by (name) (workqueue_depth{JOB}) > 100`),
			Summary:     "Controller {{ $labels.name }} does not keep up",
			Description: "{{ $value }} objects have waited for controller {{ $labels.name }} for 15 minutes.",
			Runbook: Runbook{
				Means: "Changes are seen late.",
				Look:  []string{"PromQL: histogram_quantile(0.9, sum by (le, controller) (rate(controller_runtime_reconcile_time_seconds_bucket[5m])))"},
				Do: []string{
					"Passes are slow: see which calls are, of kube-apiserver (`rest_client_request_duration_seconds`) or of Coder (alert CoderRequestsSlow).",
					"The pod is throttled: give it more CPU.",
				},
			},
		},
		{
			Name: "CoderK8sKubeAPIErrors", Severity: Warning, For: "15m",
			Expr: ours(`sum(rate(rest_client_requests_total{JOB, code=~"5..|<error>"}[10m]))
  / sum(rate(rest_client_requests_total{JOB}[10m])) > 0.05`),
			Summary:     "Requests of the operator to kube-apiserver fail",
			Description: "{{ $value | humanizePercentage }} of the operator's requests to kube-apiserver have failed for 15 minutes.",
			Runbook: Runbook{
				Means: "kube-apiserver is overloaded, restarts, or cannot be reached from the pods.",
				Look:  []string{"kubectl get --raw '/readyz?verbose'", "PromQL: sum by (method, code) (rate(rest_client_requests_total{job=\"coder-k8s-metrics\"}[10m]))"},
				Do:    []string{"Look at kube-apiserver and at NetworkPolicies for egress from coder-system. The operator goes on by itself."},
			},
		},
		{
			Name: "CoderK8sVersionSkew", Severity: Warning, For: "1h",
			Expr:        `count(count by (version) (coder_k8s_build_info)) > 1`,
			Summary:     "{{ $value }} versions of the operator run beside each other",
			Description: "For an hour pods of {{ $value }} versions of the operator have run. An update takes minutes.",
			Runbook: Runbook{
				Means: "An update has stopped half-way, or one of the Deployments of a split installation was forgotten.",
				Look:  []string{"kubectl -n coder-system get pods -o custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[0].image", "kubectl -n coder-system rollout status deployment"},
				Do:    []string{"Finish the update, or go back: `kubectl -n coder-system rollout undo deployment/NAME`."},
			},
		},
		{
			Name: "CoderK8sCertificateExpires", Severity: Critical, For: "15m",
			Expr:        `min by (secret) (coder_k8s_certificate_expiry_timestamp_seconds) - time() < 7 * 86400`,
			Summary:     "The certificate in Secret {{ $labels.secret }} runs out",
			Description: "The certificate that the operator serves with, from {{ $labels.secret }}, runs out in {{ $value | humanizeDuration }} and was not renewed.",
			Runbook: Runbook{
				Means: "With that of the aggregated API, kube-apiserver will refuse the operator and workspaces cannot be reached through kubectl; with that of the metrics, Prometheus will.",
				Look: []string{
					"kubectl -n coder-system get secret coder-k8s-apiserver-tls coder-k8s-metrics-tls -o custom-columns=NAME:.metadata.name,MANAGED:.metadata.labels.app\\.kubernetes\\.io/managed-by",
					"kubectl -n coder-system logs -l app.kubernetes.io/name=coder-k8s --tail=-1 | grep -i certificate",
				},
				Do: []string{
					"The label says coder-k8s: the operator renews it weeks before; its log says what keeps it from that, mostly a right that is missing.",
					"cert-manager made it: look at its Certificate, `kubectl -n coder-system describe certificate`.",
					"It comes from files: replace them; they are read again without a restart.",
				},
			},
		},
	}
}
