package workspaceproxy

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// TestAnyPathLeadsToTheSameEnd checks that a spec that follows another one reaches the same state,
// in the cluster and in the Coders, as if it had been the first.
func TestAnyPathLeadsToTheSameEnd(t *testing.T) {
	kubetest.SkipWithRace(t)
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0)) // #nosec G404 -- what is tried, not a secret.
			first, second := anySpec(random), anySpec(random)

			walked := newFixture(t, newProxy(func(p *coderv1alpha1.CoderWorkspaceProxy) { p.Spec = *first.DeepCopy() }))
			walked.addOwnToken()
			walked.run()
			walked.edit(func(s *coderv1alpha1.CoderWorkspaceProxySpec) { *s = *second.DeepCopy() })
			walked.run()

			straight := newFixture(t, newProxy(func(p *coderv1alpha1.CoderWorkspaceProxy) { p.Spec, p.Generation = *second.DeepCopy(), 2 }))
			straight.addOwnToken()
			straight.run()

			if diff := cmp.Diff(straight.picture(), walked.picture()); diff != "" {
				t.Errorf("seed %d, from\n%+v\nto\n%+v\n(-straight +walked):\n%s", seed, first, second, diff)
			}
		})
	}
}

// addOwnToken creates the session token of a proxy that a user registered.
func (f *fixture) addOwnToken() {
	f.T.Helper()
	f.Create(secretOf("mine", f.coder.AddProxy("by-hand", "By hand", "/x.png").Token))
}

func anySpec(random *rand.Rand) *coderv1alpha1.CoderWorkspaceProxySpec {
	spec := newProxy().Spec
	maybe := func(do func()) {
		if random.IntN(2) == 0 {
			do()
		}
	}
	maybe(func() { spec.Bootstrap.ProxyName = "oceania" })
	maybe(func() { spec.Bootstrap.DisplayName = "Oceania" })
	maybe(func() { spec.Bootstrap.Icon = "/emojis/1f30f.png" })
	maybe(func() { spec.DerpOnly = true })
	maybe(func() { spec.Image = "registry.example.com/coder:v2.30.0" })
	maybe(func() { spec.Replicas = ptr.To(random.Int32N(3)) })
	maybe(func() { spec.Service.Port = 8080 })
	maybe(func() { spec.TLS.SecretNames = []string{"tls"} })
	maybe(func() { spec.Metrics.Enabled = true })
	maybe(func() { spec.ExtraEnv = []corev1.EnvVar{{Name: "CODER_VERBOSE", Value: "true"}} })
	maybe(func() { spec.NetworkPolicy = &coderv1alpha1.NetworkPolicySpec{} })
	maybe(func() {
		spec.PodDisruptionBudget = &coderv1alpha1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(1))}
	})
	maybe(func() {
		spec.Expose = &coderv1alpha1.ExposeSpec{Ingress: &coderv1alpha1.IngressSpec{Host: "sydney.example.com"}}
	})
	return &spec
}
