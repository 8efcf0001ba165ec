package resources

import (
	"encoding/csv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// The names are exactly those of the public predecessor.
func TestNames(t *testing.T) {
	long := strings.Repeat("a", 52)
	for _, c := range []struct{ what, got, want string }{
		{"Deployment", DeploymentName("gpu"), "provisioner-gpu"},
		{"longest Deployment", DeploymentName(long[:51]), "provisioner-" + long[:51]},
		{"long Deployment", DeploymentName(long), "provisioner-" + long[:42] + "-" + workloadresources.Hash(long)},
		{"ServiceAccount", ServiceAccountName(named(t, "gpu")), "gpu-provisioner"},
		{"Secret", KeySecretName(named(t, "gpu")), "gpu-provisioner-key"},
		{"key of the Secret", KeySecretKey(&coderv1alpha1.CoderProvisioner{}), "key"},
		{"key", KeyName(named(t, "gpu")), "gpu"},
		{"label", Labels(strings.Repeat("a", 64))[coderv1alpha1.LabelInstance], strings.Repeat("a", 54) + "-" + workloadresources.Hash(strings.Repeat("a", 64))},
		{"name label", Labels("gpu")[coderv1alpha1.LabelName], "coder-provisioner"},
		{"organization", OrganizationName(&coderv1alpha1.CoderProvisioner{}), "default"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.what, c.got, c.want)
		}
	}
}

func TestNamesOfLongNamesAreValid(t *testing.T) {
	p := named(t, strings.Repeat("a", 253))
	for _, name := range []string{DeploymentName(p.Name), ServiceAccountName(p), KeySecretName(p)} {
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

func named(t *testing.T, name string) *coderv1alpha1.CoderProvisioner {
	t.Helper()
	p := minimal()
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
	p := minimal()
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
