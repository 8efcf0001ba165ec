package monitoring

func objectAlerts() AlertGroup {
	return AlertGroup{Name: "coder-k8s.objects", Title: "Control planes, provisioners and proxies", Alerts: []Alert{
		{
			Name: "CoderControlPlaneNotReady", Severity: Critical, For: "15m",
			Expr:        `max by (namespace, name) (coder_k8s_ready{kind="CoderControlPlane"}) == 0`,
			Summary:     "Coder {{ $labels.namespace }}/{{ $labels.name }} is not Ready",
			Description: "CoderControlPlane {{ $labels.namespace }}/{{ $labels.name }} has not been Ready for 15 minutes.",
			Runbook: Runbook{
				Means: "A part of what the spec asks for does not work. Often Coder itself is down; sometimes only a part, such as its license.",
				Look: []string{
					"kubectl -n NAMESPACE get codercontrolplane NAME -o wide",
					"kubectl -n NAMESPACE describe codercontrolplane NAME",
					"kubectl -n NAMESPACE get pods,events",
				},
				Do: []string{"The reason and the message of condition Ready name the first part that does not hold and what to do. Every reason stands in [conditions.md](conditions.md)."},
			},
		},
		{
			Name: "CoderProvisionerNotReady", Severity: Warning, For: "15m",
			Expr:        `max by (namespace, name) (coder_k8s_ready{kind="CoderProvisioner"}) == 0`,
			Summary:     "Provisioners {{ $labels.namespace }}/{{ $labels.name }} are not Ready",
			Description: "CoderProvisioner {{ $labels.namespace }}/{{ $labels.name }} has not been Ready for 15 minutes. Builds that only these provisioners may do wait.",
			Runbook: Runbook{
				Means: "Builds with the tags of these provisioners wait in Coder's queue.",
				Look:  []string{"kubectl -n NAMESPACE describe coderprovisioner NAME", "kubectl -n NAMESPACE get pods,events"},
				Do:    []string{"The message of condition Ready says what to do. Without a license that has external provisioners the reason says so, and only a license helps."},
			},
		},
		{
			Name: "CoderWorkspaceProxyNotReady", Severity: Warning, For: "15m",
			Expr:        `max by (namespace, name) (coder_k8s_ready{kind="CoderWorkspaceProxy"}) == 0`,
			Summary:     "Workspace proxy {{ $labels.namespace }}/{{ $labels.name }} is not Ready",
			Description: "CoderWorkspaceProxy {{ $labels.namespace }}/{{ $labels.name }} has not been Ready for 15 minutes. Its users go the longer way, or have no connection.",
			Runbook: Runbook{
				Means: "People near this proxy have slow or no connections to their workspaces.",
				Look:  []string{"kubectl -n NAMESPACE describe coderworkspaceproxy NAME", "kubectl -n NAMESPACE get pods,events"},
				Do:    []string{"The message of condition Ready says what to do: register it again, its address, its license."},
			},
		},
		{
			Name: "CoderLicenseExpired", Severity: Critical, For: "5m",
			Expr:        `max by (namespace, name) (coder_k8s_license_expiry_timestamp_seconds) - time() <= 0`,
			Summary:     "The license of Coder {{ $labels.namespace }}/{{ $labels.name }} has run out",
			Description: "The license of CoderControlPlane {{ $labels.namespace }}/{{ $labels.name }} has run out. What it paid for is off.",
			Runbook: Runbook{
				Means: "Coder goes on without the paid features: external provisioners and proxies get no new keys, for example.",
				Look:  []string{"kubectl -n NAMESPACE get codercontrolplane NAME -o jsonpath='{.status.license}'"},
				Do:    []string{"Put the new license into the Secret that spec.licenseSecretRef names: [license-coder.md](../how-to/license-coder.md)."},
			},
		},
		{
			Name: "CoderLicenseExpiresSoon", Severity: Warning, For: "1h",
			Expr:        `0 < max by (namespace, name) (coder_k8s_license_expiry_timestamp_seconds) - time() < 14 * 86400`,
			Summary:     "The license of Coder {{ $labels.namespace }}/{{ $labels.name }} runs out in {{ $value | humanizeDuration }}",
			Description: "The license of CoderControlPlane {{ $labels.namespace }}/{{ $labels.name }} runs out in {{ $value | humanizeDuration }}.",
			Runbook: Runbook{
				Means: "Nothing yet.",
				Look:  []string{"kubectl -n NAMESPACE get codercontrolplane NAME -o jsonpath='{.status.license}'"},
				Do:    []string{"Get a new license and put it into the Secret that spec.licenseSecretRef names: [license-coder.md](../how-to/license-coder.md)."},
			},
		},
		{
			Name: "CoderOperatorTokenNotRenewed", Severity: Critical, For: "30m",
			Expr: `max by (namespace, name) (coder_k8s_operator_token_expiry_timestamp_seconds) - time() < 0
or (
  max by (namespace, name) (coder_k8s_operator_token_expiry_timestamp_seconds) - time() < 86400
  and changes((max by (namespace, name) (coder_k8s_operator_token_expiry_timestamp_seconds))[1d:5m]) == 0
)`,
			Summary:     "The operator's token for Coder {{ $labels.namespace }}/{{ $labels.name }} is not renewed",
			Description: "The operator's token for CoderControlPlane {{ $labels.namespace }}/{{ $labels.name }} runs out in {{ $value | humanizeDuration }} and was not replaced within a day, though that is done after two thirds of its life.",
			Runbook: Runbook{
				Means: "When the token has run out, workspaces and templates of this Coder are shown as they were, and cannot be changed through kubectl.",
				Look:  []string{"kubectl -n NAMESPACE get codercontrolplane NAME -o jsonpath='{.status.conditions[?(@.type==\"OperatorAccess\")]}'"},
				Do: []string{
					"A token of your own (spec.operatorAccess.tokenSecretRef) is yours to replace.",
					"Else the condition says why not: mostly that Coder allows no passwords, or does not know the operator's account any more. See [operator-access.md](../explanation/operator-access.md).",
				},
			},
		},
	}}
}
