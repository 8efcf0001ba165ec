package resources

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

var update = flag.Bool("update", false, "write the golden files anew")

// minimal returns a control plane with only the API server's defaults and a database.
func minimal() *coderv1alpha1.CoderControlPlane {
	return &coderv1alpha1.CoderControlPlane{
		ObjectMeta: metav1.ObjectMeta{Name: "coder", Namespace: "coder", UID: "11111111-2222-3333-4444-555555555555"},
		Spec: coderv1alpha1.CoderControlPlaneSpec{
			Image: "ghcr.io/coder/coder:v2.30.0",
			WorkloadSpec: coderv1alpha1.WorkloadSpec{
				Replicas: ptr.To[int32](1),
				ExtraEnv: []corev1.EnvVar{workloadresources.FromSecret(EnvDatabase, "coder-db", "url")},
			},
			ServingSpec: coderv1alpha1.ServingSpec{
				Service: coderv1alpha1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Port: 80},
			},
		},
	}
}

// full returns a control plane that uses every field that affects the children.
func full() *coderv1alpha1.CoderControlPlane {
	cp := minimal()
	cp.Name, cp.Namespace = "team-a", "platform"
	spec := &cp.Spec
	spec.Replicas = ptr.To[int32](2)
	spec.ImagePullPolicy = corev1.PullAlways
	spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	spec.Service = coderv1alpha1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Port: 443, Annotations: map[string]string{"lb.example.com/internal": "true"},
	}
	spec.ExtraArgs = []string{"--verbose"}
	spec.ExtraEnv = append(spec.ExtraEnv, corev1.EnvVar{Name: "KUBE_POD_IP", Value: "10.0.0.1"}, corev1.EnvVar{Name: "CODER_VERBOSE", Value: "1"})
	spec.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "more"}}}}
	spec.ServiceAccount = coderv1alpha1.ServiceAccountSpec{
		Name: "coder-sa", Annotations: map[string]string{"iam.example.com/role": "coder"}, Labels: map[string]string{"team": "a"},
	}
	spec.RBAC = coderv1alpha1.RBACSpec{
		EnableDeployments:   ptr.To(false),
		ExtraRules:          []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}},
		WorkspaceNamespaces: []string{"work-a", "platform", "work-a"},
	}
	spec.Resources = &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi")},
	}
	spec.PodSecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To[int64](1000)}
	spec.SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: ptr.To(true)}
	spec.TLS.SecretNames = []string{"web-tls", "wild.example.com"}
	spec.Certs.Secrets = []coderv1alpha1.CertSecretSelector{
		{Name: "corp-ca", Key: "root.pem"}, {Name: "corp-ca", Key: "issuing.pem"}, {Name: "db-ca", Key: "ca.crt"}, {Name: "db-ca", Key: "ca.crt"},
	}
	spec.ReadinessProbe = coderv1alpha1.ProbeSpec{Enabled: ptr.To(true), InitialDelaySeconds: 5, PeriodSeconds: ptr.To[int32](3)}
	spec.LivenessProbe = coderv1alpha1.ProbeSpec{Enabled: ptr.To(true), FailureThreshold: ptr.To[int32](10)}
	spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	spec.VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/tmp"}}
	spec.NodeSelector = map[string]string{"pool": "system"}
	spec.Tolerations = []corev1.Toleration{{Key: "system", Operator: corev1.TolerationOpExists}}
	spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{
			LabelSelector: &metav1.LabelSelector{MatchLabels: Labels(cp)}, TopologyKey: "kubernetes.io/hostname",
		}}},
	}}
	spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: Labels(cp)},
	}}
	return cp
}

// exposed returns a control plane with the fields that the predecessor did not have.
func exposed() *coderv1alpha1.CoderControlPlane {
	cp := minimal()
	cp.Spec.ExtraEnv = nil
	cp.Spec.ExtraArgs = []string{"--postgres-connection-auth", "awsiamrds", "--verbose"}
	cp.Spec.Database = &coderv1alpha1.DatabaseSpec{CloudNativePG: &coderv1alpha1.CloudNativePGReference{ClusterName: "coder-db"}}
	cp.Spec.ProvisionerPSKSecretRef = &coderv1alpha1.PSKSecretReference{Name: "psk", Key: "psk"}
	cp.Spec.Metrics.Enabled = true
	cp.Spec.Expose = &coderv1alpha1.ExposeSpec{Ingress: &coderv1alpha1.IngressSpec{
		Host: "coder.example.com", WildcardHost: "*-apps.example.com", TLS: &coderv1alpha1.IngressTLSSpec{SecretName: "coder-tls"},
	}}
	cp.Spec.PodTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		PriorityClassName: "important",
		InitContainers:    []corev1.Container{{Name: "sql-proxy", Image: "sql-proxy:1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
		Containers: []corev1.Container{
			{Name: ContainerName, Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}}},
			{Name: "log-shipper", Image: "log-shipper:1"},
		},
	}}
	return cp
}

func TestGolden(t *testing.T) {
	in := Inputs{EnvFromNames: map[string]bool{"SOMETHING": true}}
	for name, cp := range map[string]*coderv1alpha1.CoderControlPlane{"minimal": minimal(), "full": full(), "exposed": exposed()} {
		namespace := cp.Namespace
		if n := cp.Spec.RBAC.WorkspaceNamespaces; len(n) > 0 {
			namespace = n[0]
		}
		for child, obj := range map[string]any{
			"deployment":     deployment(t, cp, in),
			"service":        Service(cp),
			"serviceaccount": ServiceAccount(cp),
			"role":           WorkspaceRole(cp, namespace),
			"rolebinding":    WorkspaceRoleBinding(cp, namespace),
			"adminjob":       AdminJob(cp, in, cp.Name+"-operator-credentials"),
		} {
			t.Run(name+"/"+child, func(t *testing.T) { compareGolden(t, name+"-"+child+".yaml", obj) })
		}
	}
}

func deployment(t *testing.T, cp *coderv1alpha1.CoderControlPlane, in Inputs) *appsv1.Deployment {
	t.Helper()
	d, err := Deployment(cp, in)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func compareGolden(t *testing.T, file string, obj any) {
	t.Helper()
	got, err := yaml.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	read := reflect.New(reflect.TypeOf(obj).Elem()).Interface()
	if err := yaml.UnmarshalStrict(want, read); err != nil {
		t.Errorf("%s is no %T: %v", file, obj, err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; go test -update writes it anew):\n%s", file, diff)
	}
}
