package admission

var workloadRules = []rule{
	{
		name: "a variable without a name", kinds: allKinds, at: "spec.extraEnv", says: "each variable has a name",
		bad: "extraEnv: [{name: '', value: a}]", good: "extraEnv: [{name: A, value: a}]",
	},
	{
		name: "a variable twice", kinds: allKinds, at: "spec.extraEnv[1]", says: "Duplicate value",
		bad: "extraEnv: [{name: A, value: a}, {name: A, value: b}]", good: "extraEnv: [{name: A, value: a}, {name: B, value: b}]",
	},
	{
		name: "a variable with two values", kinds: allKinds, at: "spec.extraEnv", says: "has a value or a valueFrom, not both; remove one",
		bad:  "extraEnv: [{name: A, value: a, valueFrom: {secretKeyRef: {name: s, key: k}}}]",
		good: "extraEnv: [{name: A, value: '', valueFrom: {secretKeyRef: {name: s, key: k}}}]",
	},
	{
		name: "a variable from nowhere", kinds: allKinds, at: "spec.extraEnv", says: "names exactly one source",
		bad: "extraEnv: [{name: A, valueFrom: {}}]", good: "extraEnv: [{name: A, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]",
	},
	{
		name: "an environment from two sources", kinds: allKinds, at: "spec.envFrom", says: "write two entries",
		bad:  "envFrom: [{configMapRef: {name: a}, secretRef: {name: b}}]",
		good: "envFrom: [{configMapRef: {name: a}}, {secretRef: {name: b}}]",
	},
	{
		name: "an environment from no source", kinds: allKinds, at: "spec.envFrom", says: "give exactly one",
		bad: "envFrom: [{prefix: A_}]", good: "envFrom: [{prefix: A_, secretRef: {name: b}}]",
	},
	{
		name: "a request above the limit", kinds: allKinds, at: "spec.resources", says: "lower the request or raise the limit",
		bad: "resources: {requests: {cpu: 2, memory: 1Gi}, limits: {cpu: 1500m}}", good: "resources: {requests: {cpu: 2, memory: 1Gi}, limits: {cpu: '2.0'}}",
	},
	{
		name: "a negative limit", kinds: allKinds, at: "spec.resources", says: "must not be negative",
		bad: "resources: {limits: {memory: '-1Gi'}}", good: "resources: {limits: {memory: 1Gi}}",
	},
	{
		name: "root that is not root", kinds: allKinds, at: "spec.securityContext", says: "set runAsNonRoot to false",
		bad: "securityContext: {runAsNonRoot: true, runAsUser: 0}", good: "securityContext: {runAsNonRoot: false, runAsUser: 0}",
	},
	{
		name: "privileged without escalation", kinds: allKinds, at: "spec.securityContext", says: "remove privileged",
		bad:  "securityContext: {privileged: true, allowPrivilegeEscalation: false}",
		good: "securityContext: {privileged: false, allowPrivilegeEscalation: false}",
	},
	{
		name: "pods of root that is not root", kinds: allKinds, at: "spec.podSecurityContext", says: "choose another user",
		bad: "podSecurityContext: {runAsNonRoot: true, runAsUser: 0}", good: "podSecurityContext: {runAsNonRoot: true, runAsUser: 1}",
	},
	{
		name: "a certificate of no Secret", kinds: allKinds, at: "spec.certs.secrets[0].name", says: `"My_CA": must be the name of a Secret`,
		bad: "certs: {secrets: [{name: My_CA, key: ca.crt}]}", good: "certs: {secrets: [{name: my-ca, key: ca.crt}]}",
	},
	{
		name: "a certificate of no key", kinds: allKinds, at: "spec.certs.secrets[0].key", says: `"a/b": must be a key of a Secret`,
		bad: "certs: {secrets: [{name: my-ca, key: a/b}]}", good: "certs: {secrets: [{name: my-ca, key: A_b.crt}]}",
	},
	{
		name: "a certificate twice", kinds: allKinds, at: "spec.certs.secrets[1]", says: "Duplicate value",
		bad: "certs: {secrets: [{name: a, key: b}, {name: a, key: b}]}", good: "certs: {secrets: [{name: a, key: b}, {name: a, key: c}]}",
	},
	{
		name: "a volume twice", kinds: allKinds, at: "spec.volumes[1]", says: "Duplicate value",
		bad: "volumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]", good: "volumes: [{name: a, emptyDir: {}}, {name: b, emptyDir: {}}]",
	},
	{
		name: "two mounts at one place", kinds: allKinds, at: "spec.volumeMounts[1]", says: "Duplicate value",
		bad:  "volumeMounts: [{name: a, mountPath: /a}, {name: b, mountPath: /a}]",
		good: "volumeMounts: [{name: a, mountPath: /a}, {name: a, mountPath: /b}]",
	},
	{
		name: "a ServiceAccount of no name", kinds: allKinds, at: "spec.serviceAccount.name", says: `"My Account": must be the name of a ServiceAccount`,
		bad: "serviceAccount: {name: My Account}", good: "serviceAccount: {name: my.account}",
	},
	{
		name: "a rolling update that recreates", kinds: allKinds, at: "spec.deployment.strategy", says: "set that type instead of Recreate",
		bad:  "deployment: {strategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}}",
		good: "deployment: {strategy: {rollingUpdate: {maxSurge: 1}}}",
	},
	{
		name: "a rolling update that cannot begin", kinds: allKinds, at: "spec.deployment.strategy.rollingUpdate", says: "raise one of them",
		bad:  "deployment: {strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0%}}}",
		good: "deployment: {strategy: {rollingUpdate: {maxSurge: 1%, maxUnavailable: 0}}}",
	},
	{
		name: "a negative surge", kinds: allKinds, at: "spec.deployment.strategy.rollingUpdate.maxSurge", says: "-1: must be a number, or a percentage such as 25%",
		bad: "deployment: {strategy: {rollingUpdate: {maxSurge: -1}}}", good: "deployment: {strategy: {rollingUpdate: {maxSurge: 200%}}}",
	},
	{
		name: "more than all unavailable", kinds: allKinds, at: "spec.deployment.strategy.rollingUpdate.maxUnavailable", says: `"101%": must be a number, or a percentage from 0% to 100%`,
		bad: "deployment: {strategy: {rollingUpdate: {maxUnavailable: 101%}}}", good: "deployment: {strategy: {rollingUpdate: {maxUnavailable: 100%}}}",
	},
	{
		name: "a budget of two kinds", kinds: allKinds, at: "spec.podDisruptionBudget", says: "give exactly one",
		bad: "podDisruptionBudget: {minAvailable: 1, maxUnavailable: 1}", good: "podDisruptionBudget: {minAvailable: 1}",
	},
	{
		name: "a budget of no kind", kinds: allKinds, at: "spec.podDisruptionBudget", says: "give exactly one",
		bad: "podDisruptionBudget: {}", good: "podDisruptionBudget: {maxUnavailable: 0}",
	},
	{
		name: "a budget of a word", kinds: allKinds, at: "spec.podDisruptionBudget.minAvailable", says: `"half": must be a number, or a percentage`,
		bad: "podDisruptionBudget: {minAvailable: half}", good: "podDisruptionBudget: {minAvailable: 50%}",
	},
	{
		name: "a negative budget", kinds: allKinds, at: "spec.podDisruptionBudget.maxUnavailable", says: "-2: must be a number, or a percentage",
		bad: "podDisruptionBudget: {maxUnavailable: -2}", good: "podDisruptionBudget: {maxUnavailable: 2}",
	},
	{
		name: "a peer that is two", kinds: allKinds, at: "spec.networkPolicy.from", says: "write two entries",
		bad:  "networkPolicy: {from: [{ipBlock: {cidr: 10.0.0.0/8}, podSelector: {}}]}",
		good: "networkPolicy: {from: [{ipBlock: {cidr: 10.0.0.0/8}}, {podSelector: {}, namespaceSelector: {}}]}",
	},
	{
		name: "a peer that is nobody", kinds: allKinds, at: "spec.networkPolicy.metricsFrom", says: "each entry is an ipBlock, or pods",
		bad: "networkPolicy: {metricsFrom: [{}]}", good: "networkPolicy: {metricsFrom: [{podSelector: {}}]}",
	},
	{
		name: "a monitor without metrics", kinds: allKinds, at: "spec.metrics", says: "set metrics.enabled to true",
		bad: "metrics: {serviceMonitor: {}}", good: "metrics: {enabled: true, serviceMonitor: {}}",
	},
	{
		name: "an interval of a word", kinds: allKinds, at: "spec.metrics.serviceMonitor.interval", says: `"often": must be a duration as Prometheus writes it, for example 30s`,
		bad: "metrics: {enabled: true, serviceMonitor: {interval: often}}", good: "metrics: {enabled: true, serviceMonitor: {interval: 1m30s}}",
	},
	{
		name: "pods that may end", kinds: allKinds, at: "spec.podTemplate", says: "spec.restartPolicy must be Always",
		bad: "podTemplate: {spec: {restartPolicy: Never}}", good: "podTemplate: {spec: {restartPolicy: Always}}",
	},
	{
		name: "pods that must end", kinds: allKinds, at: "spec.podTemplate", says: "spec.activeDeadlineSeconds is not allowed in a Deployment; remove it",
		bad: "podTemplate: {spec: {activeDeadlineSeconds: 5}}", good: "podTemplate: {spec: {terminationGracePeriodSeconds: 5}}",
	},
	{
		name: "a ServiceAccount in the pod template", kinds: allKinds, at: "spec.podTemplate", says: "spec.serviceAccount.name",
		bad: "podTemplate: {spec: {serviceAccountName: other}}", good: "{podTemplate: {spec: {}}, serviceAccount: {name: other}}",
	},
	{
		name: "an init container without image", kinds: allKinds, at: "spec.podTemplate", says: "spec.initContainers: each needs an image",
		bad: "podTemplate: {spec: {initContainers: [{name: a}]}}", good: "podTemplate: {spec: {initContainers: [{name: a, image: b}]}}",
	},
	{
		name: "another kind's container", kinds: []string{controlPlane}, at: "spec.podTemplate.spec.containers", says: "has the name coder",
		bad:  "podTemplate: {spec: {containers: [{name: provisioner, stdin: true}]}}",
		good: "podTemplate: {spec: {containers: [{name: coder, stdin: true}, {name: a, image: b}]}}",
	},
	{
		name: "another kind's container", kinds: []string{provisioner}, at: "spec.podTemplate.spec.containers", says: "has the name provisioner",
		bad:  "podTemplate: {spec: {containers: [{name: coder, stdin: true}]}}",
		good: "podTemplate: {spec: {containers: [{name: provisioner, stdin: true}]}}",
	},
	{
		name: "another kind's container", kinds: []string{proxy}, at: "spec.podTemplate.spec.containers", says: "has the name workspace-proxy",
		bad:  "podTemplate: {spec: {containers: [{name: coder, stdin: true}]}}",
		good: "podTemplate: {spec: {containers: [{name: workspace-proxy, stdin: true}]}}",
	},
	{
		name: "an image with a blank", kinds: allKinds, at: "spec.image", says: `"coder: v2": must be an image without blanks`,
		bad: "image: 'coder: v2'", good: "image: coder:v2",
	},
}

var rbacRules = []rule{
	{
		name: "a rule of the whole cluster", kinds: []string{controlPlane, provisioner}, at: "spec.rbac.extraRules", says: "no nonResourceURLs",
		bad:  "rbac: {extraRules: [{nonResourceURLs: [/metrics], verbs: [get]}]}",
		good: "rbac: {extraRules: [{apiGroups: [''], resources: [services], verbs: [get]}]}",
	},
	{
		name: "a rule without resources", kinds: []string{controlPlane, provisioner}, at: "spec.rbac.namespaces[0].extraRules", says: "give apiGroups, resources and verbs",
		bad:  "rbac: {namespaces: [{name: a, extraRules: [{apiGroups: [''], verbs: [get]}]}]}",
		good: "rbac: {namespaces: [{name: a, extraRules: []}]}",
	},
	{
		name: "a namespace of no name", kinds: []string{controlPlane, provisioner}, at: "spec.rbac.workspaceNamespaces[0]", says: `"Team_A": must be the name of a namespace`,
		bad: "rbac: {workspaceNamespaces: [Team_A]}", good: "rbac: {workspaceNamespaces: [team-a]}",
	},
	{
		name: "a namespace twice", kinds: []string{controlPlane, provisioner}, at: "spec.rbac.workspaceNamespaces[1]", says: `Duplicate value: "a"`,
		bad: "rbac: {workspaceNamespaces: [a, a]}", good: "rbac: {workspaceNamespaces: [a, b]}",
	},
	{
		name: "a namespace of its own twice", kinds: []string{controlPlane, provisioner}, at: "spec.rbac.namespaces[1]", says: `Duplicate value`,
		bad: "rbac: {namespaces: [{name: a}, {name: a}]}", good: "rbac: {namespaces: [{name: a}, {name: b}]}",
	},
	{
		name: "a namespace in both lists", kinds: []string{controlPlane, provisioner}, at: "spec.rbac", says: "remove it from one of them",
		bad: "rbac: {workspaceNamespaces: [a], namespaces: [{name: a}]}", good: "rbac: {workspaceNamespaces: [a], namespaces: [{name: b}]}",
	},
	{
		name: "a namespace of its own without name", kinds: []string{controlPlane, provisioner}, at: "spec.rbac.namespaces[0].name", says: `"": must be the name of a namespace`,
		bad: "rbac: {namespaces: [{name: ''}]}", good: "rbac: {namespaces: [{name: a}]}",
	},
}
