package workspaceproxy

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
)

// This test only registers the controller. The tests against a real API server cover the watches.
func TestSetupWithManager(t *testing.T) {
	mgr := controllertest.OfflineManager(t, framework.CacheOptions())
	kit, err := framework.New(mgr, framework.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := New(kit, func(types.NamespacedName) {}).SetupWithManager(t.Context(), mgr); err != nil {
		t.Fatal(err)
	}
}

func TestEverySecretThatItDependsOnIsWatched(t *testing.T) {
	names := func(proxy *coderv1alpha1.CoderWorkspaceProxy) []string {
		var out []string
		for _, reference := range referencesOf(proxy) {
			out = append(out, reference.Kind+"/"+reference.Name)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	for name, c := range map[string]struct {
		change func(*coderv1alpha1.CoderWorkspaceProxySpec)
		want   []string
	}{
		"control plane": {func(*coderv1alpha1.CoderWorkspaceProxySpec) {}, []string{"Secret/sydney-proxy-token"}},
		"bootstrap": {func(s *coderv1alpha1.CoderWorkspaceProxySpec) {
			s.Bootstrap.CredentialsSecretRef = &coderv1alpha1.TokenSecretReference{Name: "owner"}
			s.Bootstrap.GeneratedTokenSecretName = "generated"
		}, []string{"Secret/generated", "Secret/owner"}},
		"own token, TLS, environment": {func(s *coderv1alpha1.CoderWorkspaceProxySpec) {
			s.ProxySessionTokenSecretRef = &coderv1alpha1.TokenSecretReference{Name: "mine"}
			s.TLS.SecretNames = []string{"tls"}
			s.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "env"}}}}
		}, []string{"ConfigMap/env", "Secret/mine", "Secret/tls"}},
	} {
		proxy := newProxy(func(p *coderv1alpha1.CoderWorkspaceProxy) { c.change(&p.Spec) })
		if got := names(proxy); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
