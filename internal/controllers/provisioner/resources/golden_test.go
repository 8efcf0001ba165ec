package resources

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

// minimal returns a provisioner with only the API server's defaults.
func minimal() *coderv1alpha1.CoderProvisioner {
	return &coderv1alpha1.CoderProvisioner{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu", Namespace: "coder", UID: "11111111-2222-3333-4444-555555555555"},
		Spec: coderv1alpha1.CoderProvisionerSpec{
			ControlPlaneRef:  &coderv1alpha1.ControlPlaneReference{Name: "coder"},
			OrganizationName: "default",
			Key:              coderv1alpha1.ProvisionerKeySpec{SecretKey: "key"},
			WorkloadSpec:     coderv1alpha1.WorkloadSpec{Replicas: ptr.To[int32](1)},
		},
	}
}

// full returns a provisioner that uses every field that affects the objects.
func full() *coderv1alpha1.CoderProvisioner {
	p := minimal()
	p.Spec.Image = "registry.example.com/coder:v2.30.0"
	p.Spec.Tags = map[string]string{"zone": "a"}
	p.Spec.Key = coderv1alpha1.ProvisionerKeySpec{
		Name: "shared", SecretName: "keys", SecretKey: "gpu", RotateAfter: &metav1.Duration{Duration: 720 * time.Hour},
	}
	w := &p.Spec.WorkloadSpec
	w.ImagePullPolicy = corev1.PullAlways
	w.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	w.Replicas = ptr.To[int32](3)
	w.ExtraArgs = []string{"--verbose"}
	w.ExtraEnv = []corev1.EnvVar{{Name: "TF_LOG", Value: "INFO"}}
	w.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cloud"}}}}
	w.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}}
	w.SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](2000)}
	w.PodSecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To[int64](2000)}
	w.TerminationGracePeriodSeconds = ptr.To[int64](1800)
	w.Certs.Secrets = []coderv1alpha1.CertSecretSelector{{Name: "ca", Key: "ca.crt"}}
	w.Volumes = []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	w.VolumeMounts = []corev1.VolumeMount{{Name: "cache", MountPath: "/home/coder/.cache"}}
	w.NodeSelector = map[string]string{"gpu": "yes"}
	w.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	w.Affinity = &corev1.Affinity{}
	w.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.ScheduleAnyway,
	}}
	w.ServiceAccount = coderv1alpha1.ServiceAccountSpec{Name: "terraform", Annotations: map[string]string{"iam.example.com/role": "tf"}}
	w.Deployment = coderv1alpha1.DeploymentSpec{Annotations: map[string]string{"team": "a"}, Strategy: &coderv1alpha1.DeploymentStrategy{Type: "Recreate"}}
	w.Metrics.Enabled = true
	w.PodTemplate = &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{"team": "a"},
			Annotations: map[string]string{
				"example.com/note": "kept", coderv1alpha1.AnnotationProvisionerKeyID: "forged",
			},
		},
		Spec: corev1.PodSpec{
			PriorityClassName: "batch",
			InitContainers:    []corev1.Container{{Name: "warm", Image: "busybox"}},
			Containers: []corev1.Container{{Name: Container, Lifecycle: &corev1.Lifecycle{
				PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sleep", "5"}}},
			}}},
		},
	}
	p.Spec.RBAC = coderv1alpha1.RBACSpec{
		ExtraRules:          []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}},
		WorkspaceNamespaces: []string{"work"},
	}
	return p
}

func inputs() Inputs {
	return Inputs{
		URL: "http://coder.coder.svc.cluster.local", ControlPlaneImage: "ghcr.io/coder/coder:v2.30.0", KeyID: "key-id",
		KeySecret: &coderv1alpha1.ProvisionerKeySecretReference{Name: "gpu-provisioner-key", Key: "key"},
	}
}

// K17: the predecessor's provisioner lacks most settings of Coder's chart.
func TestK17GoldenObjects(t *testing.T) {
	psk := minimal()
	psk.Spec.PSKSecretRef = &coderv1alpha1.PSKSecretReference{Name: "psk"}
	psk.Spec.Tags = map[string]string{"zone": "a", "note": `one, "two"`}
	external := minimal()
	external.Spec.ControlPlaneRef, external.Spec.URL = nil, "https://coder.example.com"
	external.Spec.Key.SecretRef = &coderv1alpha1.ProvisionerKeySecretReference{Name: "mine", Key: "provisioner"}
	long := minimal()
	long.Name = "a.name-that-is-much-longer-than-a-label-may-be-and-has-a-dot-as-well-1"
	withoutKey := Inputs{URL: "https://coder.example.com"}
	for name, c := range map[string]struct {
		p  *coderv1alpha1.CoderProvisioner
		in Inputs
	}{
		"minimal": {minimal(), inputs()}, "full": {full(), inputs()}, "psk": {psk, withoutKey},
		"external": {external, withoutKey}, "long": {long, inputs()},
	} {
		w := Workload(c.p, c.in)
		deployment, err := workloadresources.Deployment(w)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+"-deployment", deployment)
		if name == "minimal" || name == "full" {
			golden(t, name+"-serviceaccount", workloadresources.ServiceAccount(w))
			golden(t, name+"-role", workloadresources.WorkspaceRole(w, w.Namespace))
			golden(t, name+"-rolebinding", workloadresources.WorkspaceRoleBinding(w, "work"))
		}
	}
}

func golden(t *testing.T, name string, obj any) {
	t.Helper()
	got, err := yaml.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name+".yaml")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
