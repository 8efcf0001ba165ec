package resources

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// minimalProxy returns a proxy with only the API server's defaults.
func minimalProxy() (*coderv1alpha1.CoderWorkspaceProxy, WorkspaceProxyInputs) {
	proxy := &coderv1alpha1.CoderWorkspaceProxy{
		ObjectMeta: metav1.ObjectMeta{Name: "sydney", Namespace: "coder", UID: "11111111-2222-3333-4444-555555555555"},
		Spec: coderv1alpha1.CoderWorkspaceProxySpec{
			ControlPlaneRef: &coderv1alpha1.ControlPlaneReference{Name: "coder"},
			WorkloadSpec:    coderv1alpha1.WorkloadSpec{Replicas: ptr.To[int32](1)},
			ServingSpec: coderv1alpha1.ServingSpec{
				Service:        coderv1alpha1.ServiceSpec{Enabled: ptr.To(true), Type: corev1.ServiceTypeClusterIP, Port: 80},
				ReadinessProbe: coderv1alpha1.ProbeSpec{Enabled: ptr.To(true)},
			},
		},
	}
	return proxy, WorkspaceProxyInputs{
		Image: "ghcr.io/coder/coder:v2.30.1", PrimaryAccessURL: "https://coder.example.com",
		Token: coderv1alpha1.TokenSecretReference{Name: "sydney-proxy-token", Key: "token"},
	}
}

// fullProxy returns a proxy that is exposed, serves TLS and uses most fields.
func fullProxy() (*coderv1alpha1.CoderWorkspaceProxy, WorkspaceProxyInputs) {
	proxy, in := minimalProxy()
	proxy.Name = strings.Repeat("a-very-long-name-", 3) + "of-a-proxy-in-sydney"
	spec := &proxy.Spec
	spec.Image = "registry.example.com/coder:v2.30.0"
	spec.DerpOnly = true
	spec.Replicas = ptr.To[int32](2)
	spec.ExtraArgs = []string{"--verbose"}
	spec.ExtraEnv = []corev1.EnvVar{{Name: "CODER_TRACE_ENABLE", Value: "true"}}
	spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}}
	spec.TLS.SecretNames = []string{"proxy-tls"}
	spec.Service.Port = 443
	spec.Metrics.Enabled = true
	spec.LivenessProbe.Enabled = ptr.To(true)
	spec.Expose = &coderv1alpha1.ExposeSpec{Ingress: &coderv1alpha1.IngressSpec{
		ClassName: ptr.To("nginx"), Host: "sydney.example.com", WildcardHost: "*-apps.sydney.example.com",
		TLS: &coderv1alpha1.IngressTLSSpec{SecretName: "proxy-tls", WildcardSecretName: "proxy-wildcard-tls"},
	}}
	in.Token = coderv1alpha1.TokenSecretReference{Name: "mine"}
	in.ClusterDomain = "corp.internal"
	return proxy, in
}

// routedProxy returns a proxy that is exposed through a Gateway.
func routedProxy() (*coderv1alpha1.CoderWorkspaceProxy, WorkspaceProxyInputs) {
	proxy, in := minimalProxy()
	proxy.Spec.Expose = &coderv1alpha1.ExposeSpec{Gateway: &coderv1alpha1.GatewaySpec{
		Host: "sydney.example.com", WildcardHost: "*.sydney.example.com", Scheme: "https",
		ParentRefs: []coderv1alpha1.GatewayParentReference{{Name: "public"}},
	}}
	return proxy, in
}

func TestGoldenWorkspaceProxy(t *testing.T) {
	files := map[string]any{}
	for name, build := range map[string]func() (*coderv1alpha1.CoderWorkspaceProxy, WorkspaceProxyInputs){
		"minimal": minimalProxy, "full": fullProxy, "routed": routedProxy,
	} {
		w := WorkspaceProxy(build())
		files[name+"-deployment"], files[name+"-service"], files[name+"-serviceaccount"] = deployment(t, w), Service(w), ServiceAccount(w)
		if ingress := Ingress(w); ingress != nil {
			files[name+"-ingress"] = ingress
		}
		if route := HTTPRoute(w); route != nil {
			files[name+"-httproute"] = route
		}
	}
	compareGoldens(t, "workspaceproxy", files)
}

// TestC6StartsWithTheOfficialImage covers a fault of the public predecessor. The entry point of the
// image is "coder server", which accepts no other subcommand.
func TestC6StartsWithTheOfficialImage(t *testing.T) {
	for name, change := range map[string]func(*coderv1alpha1.CoderWorkspaceProxySpec){
		"plain":     func(*coderv1alpha1.CoderWorkspaceProxySpec) {},
		"derp only": func(s *coderv1alpha1.CoderWorkspaceProxySpec) { s.DerpOnly = true },
		"arguments": func(s *coderv1alpha1.CoderWorkspaceProxySpec) { s.ExtraArgs = []string{"--verbose"} },
	} {
		t.Run(name, func(t *testing.T) {
			proxy, in := minimalProxy()
			change(&proxy.Spec)
			container := deployment(t, WorkspaceProxy(proxy, in)).Spec.Template.Spec.Containers[0]
			started := slices.Concat(container.Command, container.Args)
			want := []string{"/opt/coder", "wsproxy", "server", "--http-address=0.0.0.0:3001"}
			if len(started) < len(want) || !slices.Equal(started[:len(want)], want) {
				t.Errorf("the container runs %q, want it to begin with %q", started, want)
			}
		})
	}
}

func TestAnotherImageKeepsTheCommand(t *testing.T) {
	proxy, in := minimalProxy()
	proxy.Spec.Command = []string{"/usr/bin/coder"}
	container := deployment(t, WorkspaceProxy(proxy, in)).Spec.Template.Spec.Containers[0]
	want := []string{"/usr/bin/coder", "wsproxy", "server", "--http-address=0.0.0.0:3001"}
	if got := slices.Concat(container.Command, container.Args); !slices.Equal(got, want) {
		t.Errorf("the container runs %q, want %q", got, want)
	}
}

func TestNamesOfThePredecessor(t *testing.T) {
	long := strings.Repeat("x", 60)
	for _, c := range []struct{ name, wantName, wantSecret, wantInstance string }{
		{"sydney", "wsproxy-sydney", "sydney-proxy-token", "sydney"},
		// The truncated name ends in the 32-bit FNV-1a hash of the whole name.
		{long, "wsproxy-" + long[:46] + "-37d12e35", long + "-proxy-token", long},
	} {
		proxy := &coderv1alpha1.CoderWorkspaceProxy{ObjectMeta: metav1.ObjectMeta{Name: c.name}}
		if got := workspaceProxyName(proxy); got != c.wantName || len(got) > 63 {
			t.Errorf("workspaceProxyName(%q) = %q, want %q", c.name, got, c.wantName)
		}
		if got := ProxyTokenSecretName(proxy); got != c.wantSecret {
			t.Errorf("ProxyTokenSecretName(%q) = %q, want %q", c.name, got, c.wantSecret)
		}
		if got := WorkspaceProxyLabels(proxy)[coderv1alpha1.LabelInstance]; got != c.wantInstance {
			t.Errorf("instance label of %q is %q, want %q", c.name, got, c.wantInstance)
		}
		if got := WorkspaceProxyLabels(proxy)[coderv1alpha1.LabelName]; got != "coder-workspace-proxy" {
			t.Errorf("name label is %q", got)
		}
	}
}
