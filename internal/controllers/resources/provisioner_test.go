package resources

import (
	"encoding/csv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// minimalProvisioner returns a provisioner with only the API server's defaults.
func minimalProvisioner() *coderv1alpha1.CoderProvisioner {
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

// fullProvisioner returns a provisioner that uses every field that affects the objects.
func fullProvisioner() *coderv1alpha1.CoderProvisioner {
	p := minimalProvisioner()
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
			Containers: []corev1.Container{{Name: ProvisionerContainer, Lifecycle: &corev1.Lifecycle{
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

func provisionerInputs() ProvisionerInputs {
	return ProvisionerInputs{
		URL: "http://coder.coder.svc.cluster.local", ControlPlaneImage: "ghcr.io/coder/coder:v2.30.0", KeyID: "key-id",
		KeySecret: &coderv1alpha1.ProvisionerKeySecretReference{Name: "gpu-provisioner-key", Key: "key"},
	}
}

// K17: the predecessor's provisioner lacks most settings of Coder's chart.
func TestK17GoldenObjects(t *testing.T) {
	psk := minimalProvisioner()
	psk.Spec.PSKSecretRef = &coderv1alpha1.PSKSecretReference{Name: "psk"}
	psk.Spec.Tags = map[string]string{"zone": "a", "note": `one, "two"`}
	external := minimalProvisioner()
	external.Spec.ControlPlaneRef, external.Spec.URL = nil, "https://coder.example.com"
	external.Spec.Key.SecretRef = &coderv1alpha1.ProvisionerKeySecretReference{Name: "mine", Key: "provisioner"}
	long := minimalProvisioner()
	long.Name = "a.name-that-is-much-longer-than-a-label-may-be-and-has-a-dot-as-well-1"
	files := map[string]any{}
	withoutKey := ProvisionerInputs{URL: "https://coder.example.com"}
	for name, c := range map[string]struct {
		p  *coderv1alpha1.CoderProvisioner
		in ProvisionerInputs
	}{
		"minimal": {minimalProvisioner(), provisionerInputs()}, "full": {fullProvisioner(), provisionerInputs()}, "psk": {psk, withoutKey},
		"external": {external, withoutKey}, "long": {long, provisionerInputs()},
	} {
		w := Provisioner(c.p, c.in)
		files[name+"-deployment"] = deployment(t, w)
		if name == "minimal" || name == "full" {
			files[name+"-serviceaccount"] = ServiceAccount(w)
			files[name+"-role"] = WorkspaceRole(w, w.Namespace)
			files[name+"-rolebinding"] = WorkspaceRoleBinding(w, "work")
		}
	}
	compareGoldens(t, "provisioner", files)
}

// The names are exactly those of the public predecessor.
func TestNamesOfAProvisioner(t *testing.T) {
	long := strings.Repeat("a", 52)
	for _, c := range []struct{ what, got, want string }{
		{"Deployment", ProvisionerDeploymentName("gpu"), "provisioner-gpu"},
		{"longest Deployment", ProvisionerDeploymentName(long[:51]), "provisioner-" + long[:51]},
		{"long Deployment", ProvisionerDeploymentName(long), "provisioner-" + long[:42] + "-" + Hash(long)},
		{"ServiceAccount", provisionerAccount(provisionerNamed(t, "gpu")), "gpu-provisioner"},
		{"Secret", KeySecretName(provisionerNamed(t, "gpu")), "gpu-provisioner-key"},
		{"key of the Secret", KeySecretKey(&coderv1alpha1.CoderProvisioner{}), "key"},
		{"key", KeyName(provisionerNamed(t, "gpu")), "gpu"},
		{"label", ProvisionerLabels(strings.Repeat("a", 64))[coderv1alpha1.LabelInstance], strings.Repeat("a", 54) + "-" + Hash(strings.Repeat("a", 64))},
		{"name label", ProvisionerLabels("gpu")[coderv1alpha1.LabelName], "coder-provisioner"},
		{"organization", OrganizationName(&coderv1alpha1.CoderProvisioner{}), "default"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.what, c.got, c.want)
		}
	}
}

func TestNamesOfLongNamesAreValid(t *testing.T) {
	p := provisionerNamed(t, strings.Repeat("a", 253))
	for _, name := range []string{ProvisionerDeploymentName(p.Name), provisionerAccount(p), KeySecretName(p)} {
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Errorf("%q: %v", name, problems)
		}
	}
	for _, name := range KeyNames(p) {
		if len(name) > 64 {
			t.Errorf("%q has %d characters", name, len(name))
		}
	}
}

func provisionerNamed(t *testing.T, name string) *coderv1alpha1.CoderProvisioner {
	t.Helper()
	p := minimalProvisioner()
	p.Name = name
	return p
}

// K18: 32 bits are not enough to distinguish tags.
func TestK18TagsHash(t *testing.T) {
	seen := map[string]bool{}
	for _, tags := range []map[string]string{nil, {"a": ""}, {"a": "b"}, {"a": "b", "c": ""}, {"ab": ""}} {
		seen[TagsHash(tags)] = true
		if len(TagsHash(tags)) != 64 {
			t.Errorf("%q is no SHA-256", TagsHash(tags))
		}
	}
	if len(seen) != 5 {
		t.Errorf("%d hashes of 5 sets of tags", len(seen))
	}
	if TagsHash(nil) != TagsHash(map[string]string{}) {
		t.Error("no tags have two hashes")
	}
}

// The daemon must read back the same tags.
func TestTagsVariable(t *testing.T) {
	got := tagsVariable(map[string]string{"zone": "a", "note": `one, "two"`, "b": "x=y"})
	fields, err := csv.NewReader(strings.NewReader(got)).Read()
	if err != nil {
		t.Fatal(err)
	}
	if want := "b=x=y|note=one, \"two\"|zone=a"; strings.Join(fields, "|") != want {
		t.Errorf("%q, want %q", fields, want)
	}
}

func TestGracePeriod(t *testing.T) {
	p := minimalProvisioner()
	if got := GracePeriodSeconds(p); got != 600 {
		t.Errorf("default %d", got)
	}
	p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](7)
	if got := GracePeriodSeconds(p); got != 7 {
		t.Errorf("of the spec %d", got)
	}
	p.Spec.PodTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](5)}}
	if got := GracePeriodSeconds(p); got != 5 {
		t.Errorf("of the pod template, which is merged over it, %d", got)
	}
}
