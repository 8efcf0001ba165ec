package controlplane

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
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

// specGenerator generates valid specs.
type specGenerator struct{ *rand.Rand }

func newSpecGenerator(seed uint64) specGenerator {
	return specGenerator{rand.New(rand.NewPCG(seed, 11))} // #nosec G404 -- what is tried, not a secret.
}

// maybe calls do with probability one third.
func (d specGenerator) maybe(do func()) {
	if d.IntN(3) == 0 {
		do()
	}
}

func pick[T any](d specGenerator, values ...T) T { return values[d.IntN(len(values))] }

// spec returns a random valid spec.
func (d specGenerator) spec() coderv1alpha1.CoderControlPlaneSpec {
	spec := coderv1alpha1.CoderControlPlaneSpec{}
	d.process(&spec.WorkloadSpec)
	d.pods(&spec.WorkloadSpec)
	d.around(&spec.WorkloadSpec)
	d.serving(&spec.ServingSpec)
	d.coder(&spec)
	return spec
}

func (d specGenerator) process(w *coderv1alpha1.WorkloadSpec) {
	d.maybe(func() { w.ImagePullPolicy = pick(d, corev1.PullAlways, corev1.PullIfNotPresent) })
	d.maybe(func() { w.ImagePullSecrets = []corev1.LocalObjectReference{{Name: pick(d, "registry", "mirror")}} })
	w.Replicas = ptr.To(pick[int32](d, 0, 1, 1, 1, 2))
	d.maybe(func() { w.Command = []string{pick(d, "/opt/coder", "/usr/bin/coder")} })
	d.maybe(func() { w.Args = []string{"server", pick(d, "--verbose", "--trace")} })
	d.maybe(func() { w.ExtraArgs = []string{"--cache-dir", pick(d, "/a", "/b")} })
	d.maybe(func() {
		w.ExtraEnv = append(w.ExtraEnv, corev1.EnvVar{Name: "CODER_VERBOSE", Value: pick(d, "true", "false")}, corev1.EnvVar{
			Name: "ZONE", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: pick(d, "some", "missing")}, Key: "zone",
			}},
		})
	})
	d.maybe(func() {
		w.ExtraEnv = append(w.ExtraEnv, corev1.EnvVar{Name: "CODER_ACCESS_URL", Value: "https://mine.example.com"})
	})
	d.maybe(func() {
		w.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "some"}}}}
	})
	d.maybe(func() {
		w.Resources = &corev1.ResourceRequirements{}
		d.maybe(func() {
			w.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(pick(d, "100m", "2"))}
		})
	})
	d.maybe(func() { w.SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](1001)} })
	d.maybe(func() { w.PlatformAssignedUser = true })
	d.maybe(func() { w.Certs.Secrets = []coderv1alpha1.CertSecretSelector{{Name: "some", Key: "ca.crt"}} })
	d.maybe(func() {
		w.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		w.VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
	})
}

func (d specGenerator) pods(w *coderv1alpha1.WorkloadSpec) {
	d.maybe(func() { w.PodSecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To[int64](1001)} })
	d.maybe(func() { w.TerminationGracePeriodSeconds = ptr.To(pick[int64](d, 0, 30)) })
	d.maybe(func() { w.NodeSelector = map[string]string{pick(d, "zone", "pool"): "a"} })
	d.maybe(func() {
		w.Tolerations = []corev1.Toleration{{Key: pick(d, "gpu", "spot"), Operator: corev1.TolerationOpExists}}
	})
	d.maybe(func() {
		w.Affinity = pick(d, &corev1.Affinity{}, &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}})
	})
	d.maybe(func() {
		w.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: pick(d, "zone", "host"), WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		}}
	})
	d.maybe(func() {
		w.PodTemplate = &corev1.PodTemplateSpec{}
		d.maybe(func() { w.PodTemplate.Annotations = map[string]string{pick(d, "one", "two"): "x"} })
		d.maybe(func() { w.PodTemplate.Spec.PriorityClassName = "high" })
		d.maybe(func() {
			w.PodTemplate.Spec.InitContainers = []corev1.Container{{Name: "wait", Image: pick(d, "busybox:1", "busybox:2")}}
		})
		d.maybe(func() {
			w.PodTemplate.Spec.Containers = []corev1.Container{{Name: pick(d, "sidecar", "proxy"), Image: "s:1"}}
		})
		d.maybe(func() {
			w.PodTemplate.Spec.Containers = []corev1.Container{{Name: "coder", WorkingDir: "/x", Ports: []corev1.ContainerPort{{Name: "debug", ContainerPort: 7000}}}}
		})
	})
}

func (d specGenerator) around(w *coderv1alpha1.WorkloadSpec) {
	labels := func() map[string]string { return map[string]string{pick(d, "team", "cost"): pick(d, "a", "b")} }
	d.maybe(func() { w.ServiceAccount.Name = pick(d, "terraform", "builder") })
	d.maybe(func() { w.ServiceAccount.Annotations = labels() })
	d.maybe(func() { w.ServiceAccount.Labels = labels() })
	d.maybe(func() { w.ServiceAccount.DisableCreate = true })
	d.maybe(func() { w.Deployment.Annotations = labels() })
	d.maybe(func() { w.Deployment.Labels = labels() })
	d.maybe(func() {
		w.Deployment.Strategy = &coderv1alpha1.DeploymentStrategy{Type: "Recreate"}
		d.maybe(func() {
			w.Deployment.Strategy = &coderv1alpha1.DeploymentStrategy{Type: "RollingUpdate", RollingUpdate: &coderv1alpha1.RollingUpdate{
				MaxSurge: ptr.To(pick(d, intstr.FromInt32(1), intstr.FromString("50%"))),
			}}
			d.maybe(func() { w.Deployment.Strategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromInt32(1)) })
		})
	})
	d.maybe(func() {
		w.PodDisruptionBudget = &coderv1alpha1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(1))}
		d.maybe(func() {
			w.PodDisruptionBudget = &coderv1alpha1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromString("50%"))}
		})
	})
	d.maybe(func() {
		peers := func() []networkingv1.NetworkPolicyPeer {
			return []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: labels()}}}
		}
		w.NetworkPolicy = &coderv1alpha1.NetworkPolicySpec{}
		d.maybe(func() { w.NetworkPolicy.From = peers() })
		d.maybe(func() { w.NetworkPolicy.MetricsFrom = peers() })
		d.maybe(func() { w.NetworkPolicy.Egress = []networkingv1.NetworkPolicyEgressRule{{To: peers()}} })
	})
	d.maybe(func() {
		w.Metrics.Enabled = true
		d.maybe(func() {
			w.Metrics.ServiceMonitor = &coderv1alpha1.ServiceMonitorSpec{}
			d.maybe(func() { w.Metrics.ServiceMonitor.Labels = labels() })
			d.maybe(func() { w.Metrics.ServiceMonitor.Interval = pick(d, "30s", "1m") })
		})
	})
}

func (d specGenerator) serving(s *coderv1alpha1.ServingSpec) {
	d.service(&s.Service)
	d.maybe(func() { s.TLS.SecretNames = pick(d, []string{"tls"}, []string{"tls", "tls-2"}) })
	s.ReadinessProbe.Enabled, s.LivenessProbe.Enabled = ptr.To(true), ptr.To(false)
	for _, probe := range []*coderv1alpha1.ProbeSpec{&s.ReadinessProbe, &s.LivenessProbe} {
		d.maybe(func() { probe.Enabled = ptr.To(!*probe.Enabled) })
		d.maybe(func() { probe.InitialDelaySeconds = 5 })
		probe.PeriodSeconds, probe.TimeoutSeconds = ptr.To(pick[int32](d, 10, 20)), ptr.To(pick[int32](d, 1, 2))
		probe.SuccessThreshold, probe.FailureThreshold = ptr.To[int32](1), ptr.To(pick[int32](d, 3, 5))
	}
	wildcard := func() string { return pick(d, "", "*.example.com", "*-apps.example.com") }
	host := func() string { return pick(d, "coder.example.com", "dev.example.org") }
	annotations := map[string]string{pick(d, "one", "two"): "x"}
	switch d.IntN(3) {
	case 0:
		ingress := &coderv1alpha1.IngressSpec{Host: host(), WildcardHost: wildcard()}
		d.maybe(func() { ingress.ClassName = ptr.To(pick(d, "nginx", "traefik")) })
		d.maybe(func() { ingress.Annotations = annotations })
		d.maybe(func() {
			ingress.TLS = &coderv1alpha1.IngressTLSSpec{SecretName: "tls"}
			if ingress.WildcardHost != "" {
				ingress.TLS.WildcardSecretName = pick(d, "", "tls-2")
			}
		})
		s.Expose = &coderv1alpha1.ExposeSpec{Ingress: ingress}
	case 1:
		parent := coderv1alpha1.GatewayParentReference{Name: "gateway"}
		d.maybe(func() { parent.Kind = ptr.To("ListenerSet") })
		d.maybe(func() { parent.Namespace = ptr.To("other") })
		d.maybe(func() { parent.SectionName = ptr.To("https") })
		d.maybe(func() { parent.Port = ptr.To[int32](443) })
		s.Expose = &coderv1alpha1.ExposeSpec{Gateway: &coderv1alpha1.GatewaySpec{
			Host: host(), WildcardHost: wildcard(), ParentRefs: []coderv1alpha1.GatewayParentReference{parent}, Scheme: pick(d, "http", "https"),
		}}
		d.maybe(func() { s.Expose.Gateway.Annotations = annotations })
	}
}

func (d specGenerator) service(s *coderv1alpha1.ServiceSpec) {
	s.Enabled, s.Port = ptr.To(true), pick[int32](d, 80, 80, 8080, 443)
	s.Type = pick(d, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer)
	d.maybe(func() { s.SessionAffinity = pick(d, corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP) })
	d.maybe(func() { s.Annotations = map[string]string{pick(d, "one", "two"): "x"} })
	d.maybe(func() { s.Labels = map[string]string{pick(d, "team", "cost"): "a"} })
	d.maybe(func() {
		s.IPFamilyPolicy = ptr.To(pick(d, corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack))
		s.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	})
	if s.Type == corev1.ServiceTypeClusterIP {
		return
	}
	d.maybe(func() {
		s.ExternalTrafficPolicy = pick(d, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)
	})
	d.maybe(func() { s.HTTPNodePort = pick[int32](d, 30080, 30081) })
	d.maybe(func() { s.HTTPSNodePort = 30443 })
	if s.Type == corev1.ServiceTypeNodePort {
		return
	}
	// The class cannot change while the type stays the same. Admission rejects that.
	s.LoadBalancerClass = ptr.To("example.com/balancer")
	d.maybe(func() { s.LoadBalancerIP = pick(d, "203.0.113.10", "203.0.113.11") })
	d.maybe(func() { s.LoadBalancerSourceRanges = []string{pick(d, "198.51.100.0/24", "203.0.113.0/24")} })
}

func (d specGenerator) coder(s *coderv1alpha1.CoderControlPlaneSpec) {
	s.Image = pick(d, "ghcr.io/coder/coder:v2.30.0", "ghcr.io/coder/coder:v2.30.1")
	switch d.IntN(4) {
	case 0:
		s.Database = &coderv1alpha1.DatabaseSpec{SecretRef: &coderv1alpha1.DatabaseSecretReference{Name: pick(d, "db", "db-2"), Key: "url"}}
	case 1:
		s.Database = &coderv1alpha1.DatabaseSpec{CloudNativePG: &coderv1alpha1.CloudNativePGReference{ClusterName: "pg"}}
	default:
		s.ExtraEnv = append(s.ExtraEnv, newControlPlane().Spec.ExtraEnv...)
	}
	d.maybe(func() {
		s.Upgrade = &coderv1alpha1.UpgradeSpec{
			Backup:    pick(d, coderv1alpha1.UpgradeBackupRequired, coderv1alpha1.UpgradeBackupIfScheduled, coderv1alpha1.UpgradeBackupNever),
			OnFailure: pick(d, coderv1alpha1.UpgradeRevert, coderv1alpha1.UpgradeHold),
		}
	})
	d.maybe(func() { s.EnvUseClusterAccessURL = ptr.To(false) })
	d.maybe(func() { s.ProvisionerPSKSecretRef = &coderv1alpha1.PSKSecretReference{Name: "some", Key: "psk"} })
	// The first admin is created once and does not follow later changes of the spec.
	s.InitialAdmin = newControlPlane().Spec.InitialAdmin
	switch d.IntN(5) {
	case 0:
		s.OperatorAccess.Disabled = true
		d.maybe(func() {
			s.Service = coderv1alpha1.ServiceSpec{Enabled: ptr.To(false), Type: corev1.ServiceTypeClusterIP, Port: 80}
		})
	case 1:
		s.OperatorAccess.TokenSecretRef = &coderv1alpha1.TokenSecretReference{Name: "own", Key: "token"}
	}
	if !s.OperatorAccess.Disabled {
		d.maybe(func() {
			s.LicenseSecretRef = &coderv1alpha1.SecretKeyReference{Name: "license", Key: pick(d, "license", "other")}
		})
	}
	d.rights(&s.RBAC)
	d.maybe(func() { s.Identity.Rules = []coderv1alpha1.IdentityRule{d.rule(), d.rule()} })
	d.maybe(func() {
		s.TemplateTests = &coderv1alpha1.TemplateTestsSpec{OwnerUsername: "tester", CreateOwner: d.IntN(2) == 0, MaxConcurrent: 2}
	})
}

func (d specGenerator) rule() (r coderv1alpha1.IdentityRule) {
	switch d.IntN(4) {
	case 0:
		r.Match.UserName = pick(d, "alice", "oidc:*")
	case 1:
		r.Match.Group = pick(d, "ops", "people")
	case 2:
		r.Match.Extra = &coderv1alpha1.ExtraMatch{Key: "example.com/email", Value: pick(d, "*", "*@example.com")}
	default:
		r.Match.ServiceAccount = &coderv1alpha1.ServiceAccountMatch{Namespace: "flux-system", Name: pick(d, "kustomize-controller", "*")}
	}
	switch d.IntN(4) {
	case 0:
		r.CoderUser = &coderv1alpha1.CoderUserReference{Username: pick(d, "alice", "{name}")}
	case 1:
		r.CoderUser = &coderv1alpha1.CoderUserReference{Email: "alice@example.com"}
	case 2:
		r.Operator = true
	default:
		r.Nobody = true
	}
	return r
}

func (d specGenerator) rights(s *coderv1alpha1.RBACSpec) {
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{pick(d, "services", "secrets")}, Verbs: []string{"get"}}}
	d.maybe(func() { s.WorkspacePerms = ptr.To(pick(d, true, false)) })
	d.maybe(func() { s.EnableDeployments = ptr.To(pick(d, true, false)) })
	d.maybe(func() { s.ExtraRules = rules })
	d.maybe(func() { s.WorkspaceNamespaces = pick(d, []string{"work"}, []string{"work", "more"}) })
	d.maybe(func() {
		n := coderv1alpha1.NamespaceRBAC{Name: "special"}
		d.maybe(func() { n.WorkspacePerms = ptr.To(false) })
		d.maybe(func() { n.EnableDeployments = ptr.To(false) })
		d.maybe(func() { n.ExtraRules = rules })
		s.Namespaces = []coderv1alpha1.NamespaceRBAC{n}
	})
}

// TestTheGeneratorReachesEveryField fails if the generator never sets a field of the spec. A field that
// has the same value in all specs is listed here.
func TestTheGeneratorReachesEveryField(t *testing.T) {
	seen, all := map[string]bool{}, map[string]bool{}
	typeFields(reflect.TypeFor[coderv1alpha1.CoderControlPlaneSpec](), "spec", all)
	for seed := range uint64(400) {
		setFields(reflect.ValueOf(newSpecGenerator(seed).spec()), "spec", seen)
	}
	// The first admin is created once, and the Secret of the operator's token keeps its name. A restore happens
	// once, before everything else (restore_test.go).
	constant := []string{"spec.initialAdmin.disabled", "spec.operatorAccess.generatedTokenSecretName"}
	for path := range all {
		if !seen[path] && !slices.Contains(constant, path) && !strings.HasPrefix(path, "spec.bootstrap.") {
			t.Errorf("no spec sets %s", path)
		}
	}
	if len(all) < 80 {
		t.Errorf("only %d fields found", len(all))
	}
}

const ownTypes = "github.com/coder-k8s/coder-k8s/api/v1alpha1"

// typeFields records the fields of this API's own types, recursively.
func typeFields(typ reflect.Type, path string, into map[string]bool) {
	for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice}, typ.Kind()) {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ.PkgPath() != ownTypes {
		into[path] = true
		return
	}
	for i := range typ.NumField() {
		typeFields(typ.Field(i).Type, fieldPath(path, typ.Field(i)), into)
	}
}

func setFields(value reflect.Value, path string, into map[string]bool) {
	switch {
	case value.Kind() == reflect.Pointer && !value.IsNil():
		into[path] = true
		setFields(value.Elem(), path, into)
	case value.Kind() == reflect.Slice && value.Type().Elem().PkgPath() == ownTypes:
		for i := range value.Len() {
			setFields(value.Index(i), path, into)
		}
	case value.Kind() == reflect.Struct && value.Type().PkgPath() == ownTypes:
		for i := range value.NumField() {
			setFields(value.Field(i), fieldPath(path, value.Type().Field(i)), into)
		}
	case value.IsValid() && (value.Kind() == reflect.Bool && path != "" || !value.IsZero()):
		into[path] = true
	}
}

func fieldPath(path string, field reflect.StructField) string {
	name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	if options == "inline" {
		return path
	}
	return path + "." + name
}
