package resources

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// proxy returns a small workload with Serving.
func proxy() Workload {
	return Workload{
		Name: "wsproxy-berlin", Namespace: "edge",
		Labels: map[string]string{
			coderv1alpha1.LabelName: "coder-workspace-proxy", coderv1alpha1.LabelInstance: "berlin",
			coderv1alpha1.LabelManagedBy: coderv1alpha1.ManagedBy,
		},
		Component: "wsproxy", Container: "workspace-proxy", Image: "ghcr.io/coder/coder:v2.30.0",
		Command: []string{"/opt/coder"}, Args: []string{"wsproxy", "server", "--http-address=0.0.0.0:3001"},
		Env:                []corev1.EnvVar{FromSecret("CODER_PROXY_SESSION_TOKEN", "berlin-proxy-token", "token")},
		ServiceAccountName: "wsproxy-berlin", GracePeriodSeconds: 60,
		Spec: &coderv1alpha1.WorkloadSpec{},
		Serving: &Serving{
			Spec: &coderv1alpha1.ServingSpec{}, HTTPPort: 3001, HTTPSPort: 3443, ClusterAccessURL: true,
		},
	}
}

// daemons returns a small workload without Serving and with Rights.
func daemons() Workload {
	return Workload{
		Name: "provisioner-build", Namespace: "platform",
		Labels: map[string]string{
			coderv1alpha1.LabelName: "coder-provisioner", coderv1alpha1.LabelInstance: "build",
			coderv1alpha1.LabelManagedBy: coderv1alpha1.ManagedBy,
		},
		Component: "provisionerd", Container: "provisioner", Image: "ghcr.io/coder/coder:v2.30.0",
		Command: []string{"coder"}, Args: []string{"provisioner", "start"},
		Env:                []corev1.EnvVar{{Name: "CODER_URL", Value: "http://coder.platform.svc.cluster.local:80"}},
		ServiceAccountName: "build-provisioner", GracePeriodSeconds: 600,
		Spec: &coderv1alpha1.WorkloadSpec{},
		Rights: &Rights{
			Spec: &coderv1alpha1.RBACSpec{}, RoleName: "provisioner-build", BindingName: "provisioner-build",
			RemoteRoleName: "provisioner-build-0a1b2c3d", RemoteBindingName: "provisioner-build-0a1b2c3d",
			OwnerLabels:      map[string]string{"coder.com/provisioner": "build"},
			OwnerAnnotations: map[string]string{coderv1alpha1.AnnotationOwnerUID: "an-uid"},
		},
	}
}

// full returns a workload whose spec uses every field that can be combined, with a load balancer
// and an Ingress.
func full() Workload {
	w := proxy()
	w.Subcommand, w.Args = []string{"wsproxy", "server"}, []string{"--http-address=0.0.0.0:3001"}
	w.Checksum, w.OperatorNamespace = "9f86d081884c7d65", "coder-system"
	w.PodAnnotations = map[string]string{"coder.com/key": "7"}
	w.Spec = fullWorkloadSpec()
	w.Serving.Spec = fullServingSpec()
	w.Rights = daemons().Rights
	w.Rights.Spec = fullRBACSpec()
	return w
}

func fullWorkloadSpec() *coderv1alpha1.WorkloadSpec {
	return &coderv1alpha1.WorkloadSpec{
		ImagePullPolicy:  corev1.PullAlways,
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
		Replicas:         ptr.To[int32](3),
		Command:          []string{"/usr/local/bin/coder"},
		ExtraArgs:        []string{"--verbose"},
		ExtraEnv:         []corev1.EnvVar{{Name: "CODER_VERBOSE", Value: "true"}, {Name: "CODER_MORE", Value: "1"}},
		EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "more"},
		}}},
		Resources: &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")},
		},
		SecurityContext:               &corev1.SecurityContext{ReadOnlyRootFilesystem: ptr.To(true)},
		PlatformAssignedUser:          true,
		PodSecurityContext:            &corev1.PodSecurityContext{FSGroup: ptr.To[int64](1000)},
		TerminationGracePeriodSeconds: ptr.To[int64](90),
		Certs: coderv1alpha1.CertsSpec{Secrets: []coderv1alpha1.CertSecretSelector{
			{Name: "corp-ca", Key: "root.pem"}, {Name: "corp-ca", Key: "issuing.pem"}, {Name: "db-ca", Key: "ca.crt"},
		}},
		Volumes:      []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/tmp"}},
		NodeSelector: map[string]string{"pool": "system"},
		Tolerations:  []corev1.Toleration{{Key: "system", Operator: corev1.TolerationOpExists}},
		Affinity:     &corev1.Affinity{},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: corev1.ScheduleAnyway,
		}},
		ServiceAccount: coderv1alpha1.ServiceAccountSpec{
			Annotations: map[string]string{"iam.example.com/role": "coder"},
			Labels:      map[string]string{"team": "a", coderv1alpha1.LabelInstance: "not yours"},
		},
		Deployment: coderv1alpha1.DeploymentSpec{
			Annotations: map[string]string{"reloader.example.com/auto": "true", coderv1alpha1.AnnotationReplicas: "not yours"},
			Labels:      map[string]string{"team": "a", coderv1alpha1.LabelInstance: "not yours"},
			Strategy: &coderv1alpha1.DeploymentStrategy{Type: "RollingUpdate", RollingUpdate: &coderv1alpha1.RollingUpdate{
				MaxUnavailable: ptr.To(intstr.FromInt32(0)), MaxSurge: ptr.To(intstr.FromString("50%")),
			}},
		},
		PodDisruptionBudget: &coderv1alpha1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromString("50%"))},
		NetworkPolicy: &coderv1alpha1.NetworkPolicySpec{
			From:        []networkingv1.NetworkPolicyPeer{inNamespace("ingress")},
			MetricsFrom: []networkingv1.NetworkPolicyPeer{inNamespace("monitoring")},
			Egress:      []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{inNamespace("database")}}},
		},
		Metrics: coderv1alpha1.MetricsSpec{Enabled: true, ServiceMonitor: &coderv1alpha1.ServiceMonitorSpec{
			Labels: map[string]string{"release": "prometheus"}, Interval: "30s",
		}},
		PodTemplate: fullPodTemplate(),
	}
}

func fullPodTemplate() *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"team": "a"},
			Annotations: map[string]string{"sidecar.example.com/inject": "true"},
		},
		Spec: corev1.PodSpec{
			PriorityClassName: "important",
			RuntimeClassName:  ptr.To("gvisor"),
			DNSPolicy:         corev1.DNSClusterFirst,
			DNSConfig:         &corev1.PodDNSConfig{Searches: []string{"corp.example.com"}},
			HostAliases:       []corev1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"db.internal"}}},
			InitContainers:    []corev1.Container{{Name: "wait", Image: "busybox", Command: []string{"sh", "-c", "true"}}},
			Containers: []corev1.Container{
				{
					Name: "workspace-proxy",
					Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
						Exec: &corev1.ExecAction{Command: []string{"sleep", "5"}},
					}},
					Env: []corev1.EnvVar{FromSecret("CODER_VERBOSE", "noise", "level"), {Name: "EXTRA", Value: "1"}},
				},
				{Name: "sql-proxy", Image: "sql-proxy:1", VolumeMounts: []corev1.VolumeMount{{Name: "socket", MountPath: "/run/sql"}}},
			},
			Volumes: []corev1.Volume{{Name: "socket", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
}

func fullServingSpec() *coderv1alpha1.ServingSpec {
	return &coderv1alpha1.ServingSpec{
		Service: coderv1alpha1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Port: 443,
			SessionAffinity: corev1.ServiceAffinityClientIP, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
			LoadBalancerIP: "192.0.2.10", LoadBalancerClass: ptr.To("example.com/lb"), LoadBalancerSourceRanges: []string{"198.51.100.0/24"},
			IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicySingleStack), IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			HTTPNodePort: 30080, HTTPSNodePort: 30443,
			Annotations: map[string]string{"lb.example.com/internal": "true"},
			Labels:      map[string]string{"team": "a", coderv1alpha1.LabelInstance: "not yours"},
		},
		TLS:            coderv1alpha1.TLSSpec{SecretNames: []string{"web-tls", "wild.example.com"}},
		ReadinessProbe: coderv1alpha1.ProbeSpec{InitialDelaySeconds: 5, PeriodSeconds: ptr.To[int32](3), SuccessThreshold: ptr.To[int32](2)},
		LivenessProbe: coderv1alpha1.ProbeSpec{
			Enabled: ptr.To(true), TimeoutSeconds: ptr.To[int32](4), FailureThreshold: ptr.To[int32](10),
		},
		Expose: &coderv1alpha1.ExposeSpec{Ingress: &coderv1alpha1.IngressSpec{
			ClassName: ptr.To("nginx"), Host: "berlin.example.com", WildcardHost: "*-apps.berlin.example.com",
			Annotations: map[string]string{"cert-manager.io/cluster-issuer": "letsencrypt"},
			TLS:         &coderv1alpha1.IngressTLSSpec{SecretName: "berlin-tls", WildcardSecretName: "berlin-wild-tls"},
		}},
	}
}

func fullRBACSpec() *coderv1alpha1.RBACSpec {
	return &coderv1alpha1.RBACSpec{
		EnableDeployments:   ptr.To(false),
		ExtraRules:          []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}},
		WorkspaceNamespaces: []string{"work-a", "work-b", "edge"},
		Namespaces: []coderv1alpha1.NamespaceRBAC{
			{Name: "work-b", WorkspacePerms: ptr.To(false)},
			{Name: "work-c", EnableDeployments: ptr.To(true), ExtraRules: []rbacv1.PolicyRule{}},
		},
	}
}

// gateway returns a workload behind a Gateway that serves HTTP.
func gateway() Workload {
	w := proxy()
	w.ClusterDomain = "corp.internal"
	w.Serving.Spec.Expose = &coderv1alpha1.ExposeSpec{Gateway: &coderv1alpha1.GatewaySpec{
		Host: "berlin.example.com", WildcardHost: "*.berlin.example.com", Scheme: "http",
		ParentRefs: []coderv1alpha1.GatewayParentReference{
			{Name: "public"}, {Name: "inner", Namespace: ptr.To("gateways"), SectionName: ptr.To("https"), Kind: ptr.To("ListenerSet"), Port: ptr.To[int32](443)},
		},
		Annotations: map[string]string{"team": "a"},
	}}
	w.Spec.Deployment.Strategy = &coderv1alpha1.DeploymentStrategy{Type: "Recreate"}
	w.Spec.Args = []string{"wsproxy", "server", "--my-own"}
	w.Spec.PodDisruptionBudget = &coderv1alpha1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(1))}
	w.Spec.NetworkPolicy = &coderv1alpha1.NetworkPolicySpec{}
	w.Spec.ServiceAccount = coderv1alpha1.ServiceAccountSpec{DisableCreate: true, Name: "theirs"}
	w.Serving.Spec.Service.Type = corev1.ServiceTypeNodePort
	w.Serving.Spec.ReadinessProbe.Enabled = ptr.To(false)
	w.Serving.Spec.LivenessProbe = coderv1alpha1.ProbeSpec{Enabled: ptr.To(true), InitialDelaySeconds: 1,
		PeriodSeconds: ptr.To[int32](2), SuccessThreshold: ptr.To[int32](2)}
	w.KeepReplicas = true
	return w
}

// watched returns a workload that serves only its metrics.
func watched() Workload {
	w := daemons()
	w.Spec.Metrics = coderv1alpha1.MetricsSpec{Enabled: true, ServiceMonitor: &coderv1alpha1.ServiceMonitorSpec{}}
	w.Spec.NetworkPolicy = &coderv1alpha1.NetworkPolicySpec{Egress: []networkingv1.NetworkPolicyEgressRule{}}
	w.Rights.Spec = &coderv1alpha1.RBACSpec{
		WorkspacePerms: ptr.To(false), Namespaces: []coderv1alpha1.NamespaceRBAC{{Name: "work", WorkspacePerms: ptr.To(true)}},
	}
	return w
}

// unreachable returns a workload without a Service and with its own probes.
func unreachable() Workload {
	w := proxy()
	w.Serving.Spec.Service = coderv1alpha1.ServiceSpec{Enabled: ptr.To(false), Port: 8000}
	w.Serving.Spec.ReadinessProbe = coderv1alpha1.ProbeSpec{TimeoutSeconds: ptr.To[int32](7), FailureThreshold: ptr.To[int32](9)}
	return w
}

func workloads() map[string]Workload {
	return map[string]Workload{
		"proxy": proxy(), "daemons": daemons(), "full": full(), "gateway": gateway(), "watched": watched(), "unreachable": unreachable(),
	}
}

func inNamespace(name string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{corev1.LabelMetadataName: name},
	}}
}

// objects returns all objects of a workload by kind. Roles and RoleBindings also have their
// namespace in the key.
func objects(t *testing.T, w Workload) map[string]any {
	t.Helper()
	all := map[string]any{}
	d, err := Deployment(w)
	if err != nil {
		t.Fatal(err)
	}
	all["deployment"] = d
	add(all, "service", Service(w))
	add(all, "metricsservice", MetricsService(w))
	add(all, "servicemonitor", ServiceMonitor(w))
	add(all, "serviceaccount", ServiceAccount(w))
	add(all, "poddisruptionbudget", PodDisruptionBudget(w))
	add(all, "networkpolicy", NetworkPolicy(w))
	add(all, "ingress", Ingress(w))
	add(all, "httproute", HTTPRoute(w))
	for _, namespace := range WorkspaceNamespaces(w) {
		all["role-"+namespace] = WorkspaceRole(w, namespace)
		all["rolebinding-"+namespace] = WorkspaceRoleBinding(w, namespace)
	}
	return all
}

func add[T any](all map[string]any, kind string, obj *T) {
	if obj != nil {
		all[kind] = obj
	}
}
