package provisioner

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

var seeds = flag.Uint64("seeds", 20, "how many pairs of specs to try")

// TestAnyPathSameEnd checks that spec A followed by spec B reaches the same state as spec B alone,
// also if spec B arrives while spec A is being applied.
func TestAnyPathSameEnd(t *testing.T) {
	kubetest.SkipWithRace(t)
	for seed := range *seeds {
		random := rand.New(rand.NewPCG(seed, 7))
		a, b := anySpec(random), anySpec(random)
		fresh := walk(t, 0, b)
		for _, passes := range []int{0, 1 + random.IntN(4)} {
			if diff := cmp.Diff(fresh, walk(t, passes, a, b)); diff != "" {
				first, _ := json.Marshal(a)
				second, _ := json.Marshal(b)
				t.Fatalf("seed %d, %d passes:\nfrom %s\nto   %s\n(-from scratch +by the way)\n%s", seed, passes, first, second, diff)
			}
		}
	}
}

// walk applies the specs to the provisioner one after the other, each for the given number of
// passes or, if that is 0, until everything is done. The last spec is always applied until
// everything is done.
func walk(t *testing.T, passes int, specs ...coderv1alpha1.CoderProvisionerSpec) string {
	t.Helper()
	f := newFixture(t, newControlPlane(), newProvisioner(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec = specs[0] }),
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"},
			Data:       map[string][]byte{"key": []byte("one"), "psk": []byte("two")},
		})
	f.coder.AddOrganization("sales")
	for _, spec := range specs[1:] {
		if passes == 0 {
			f.Settle()
		}
		for range passes {
			f.Reconcile()
			f.roll()
		}
		f.Edit(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec = spec })
	}
	f.Settle()
	// The number of the generation is the number of edits.
	cr := f.Object()
	if cr.Status.ObservedGeneration != cr.Generation {
		t.Errorf("the status is about generation %d of %d", cr.Status.ObservedGeneration, cr.Generation)
	}
	cr.Status.ObservedGeneration = 0
	for i := range cr.Status.Conditions {
		cr.Status.Conditions[i].ObservedGeneration = 0
	}
	f.UpdateStatus(cr)
	return f.picture()
}

// anySpec returns a random valid spec.
func anySpec(random *rand.Rand) coderv1alpha1.CoderProvisionerSpec {
	pick := func(values ...string) string { return values[random.IntN(len(values))] }
	spec := newProvisioner().Spec
	spec.Replicas = ptr.To(random.Int32N(3))
	spec.Image = pick("", "registry.example.com/one", "registry.example.com/two")
	spec.ExtraEnv = nil
	if zone := pick("", "a", "b"); zone != "" {
		spec.ExtraEnv = []corev1.EnvVar{{Name: "ZONE", Value: zone}}
	}
	if random.IntN(3) == 0 {
		spec.PodDisruptionBudget = &coderv1alpha1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(1))}
	}
	spec.Metrics.Enabled = random.IntN(3) == 0
	if random.IntN(4) == 0 {
		spec.RBAC.WorkspacePerms = ptr.To(false)
	}
	spec.Tags = nil
	switch random.IntN(6) {
	case 0:
		spec.Key.SecretRef = &coderv1alpha1.ProvisionerKeySecretReference{Name: "mine", Key: "key"}
		return spec
	case 1:
		spec.PSKSecretRef = &coderv1alpha1.PSKSecretReference{Name: "mine", Key: "psk"}
		return spec
	}
	if zone := pick("", "a", "b"); zone != "" {
		spec.Tags = map[string]string{"zone": zone}
	}
	spec.Key.Name = pick("", "new")
	if random.IntN(3) == 0 {
		spec.Key.RotateAfter = &metav1.Duration{Duration: 24 * time.Hour}
	}
	return spec
}
