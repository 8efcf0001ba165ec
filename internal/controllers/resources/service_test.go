package resources

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// Kubernetes rejects a Service with a field that its type does not support. Admission rejects such
// a spec, but an object may be older than that check.
func TestAServiceSaysOnlyWhatItsTypeKnows(t *testing.T) {
	type outside struct {
		Policy       corev1.ServiceExternalTrafficPolicy
		NodePorts    []int32
		LoadBalancer bool
	}
	for kind, want := range map[corev1.ServiceType]outside{
		"":                             {NodePorts: []int32{0, 0}},
		corev1.ServiceTypeClusterIP:    {NodePorts: []int32{0, 0}},
		corev1.ServiceTypeNodePort:     {corev1.ServiceExternalTrafficPolicyLocal, []int32{30443, 30080}, false},
		corev1.ServiceTypeLoadBalancer: {corev1.ServiceExternalTrafficPolicyLocal, []int32{30443, 30080}, true},
	} {
		w := full()
		w.Serving.Spec.Service.Type = kind
		service := Service(w).Spec
		got := outside{Policy: service.ExternalTrafficPolicy, LoadBalancer: service.LoadBalancerClass != nil}
		if given := service.LoadBalancerIP != "" && len(service.LoadBalancerSourceRanges) > 0; given != got.LoadBalancer {
			t.Errorf("%s: the load balancer is told a part: %+v", kind, service)
		}
		for _, port := range service.Ports {
			got.NodePorts = append(got.NodePorts, port.NodePort)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", kind, diff)
		}
	}
}

func TestNoServiceWhereNobodyAsksForOne(t *testing.T) {
	w := proxy()
	w.Serving.Spec.Service = coderv1alpha1.ServiceSpec{Enabled: ptr.To(false)}
	if Service(w) != nil || Service(daemons()) != nil {
		t.Error("there is a Service that nobody asked for")
	}
}

// TestRelayURL checks that the relay URL of a replica is valid with an address of either family.
// Otherwise Coder 2.34 does not start.
func TestRelayURL(t *testing.T) {
	for address, ipv6 := range map[string]bool{"10.0.0.7": false, "2001:db8::7": true} {
		for name, w := range map[string]Workload{"control plane": full(), "proxy": proxy()} {
			w.PodIPv6 = ipv6
			w.Spec.ExtraEnv = nil
			found := false
			for _, env := range environment(w) {
				if env.Name != "CODER_DERP_SERVER_RELAY_URL" {
					continue
				}
				found = true
				relay, err := url.Parse(strings.ReplaceAll(env.Value, "$(KUBE_POD_IP)", address))
				if err != nil || relay.Hostname() != address || relay.Port() == "" {
					t.Errorf("%s at %s: %q becomes %v: %v", name, address, env.Value, relay, err)
				}
			}
			if !found {
				t.Errorf("%s has no relay URL", name)
			}
		}
	}
}
