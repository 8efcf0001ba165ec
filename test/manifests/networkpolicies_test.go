package manifests

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// end is one end of a connection. An end without a namespace is not a pod, but a node, or an
// address outside of the cluster.
type end struct {
	namespace string
	labels    map[string]string // of the namespace
	pod       map[string]string
}

// allows reports whether the policies of coder-system allow a connection between one of its pods
// and another end, as https://kubernetes.io/docs/concepts/services-networking/network-policies/
// describes. The test evaluates the policies itself, because this cluster does not enforce them.
func allows(t *testing.T, policies []*networkingv1.NetworkPolicy, direction networkingv1.PolicyType, pod map[string]string, other end, port int32) bool {
	t.Helper()
	closed := false
	for _, policy := range policies {
		applies := false
		for _, kind := range policy.Spec.PolicyTypes {
			applies = applies || kind == direction
		}
		if !applies || !matches(t, &policy.Spec.PodSelector, pod) {
			continue
		}
		closed = true
		for _, rule := range rulesOf(policy, direction) {
			if hasPort(rule.ports, port) && hasPeer(t, rule.peers, other) {
				return true
			}
		}
	}
	return !closed
}

type rule struct {
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
}

func rulesOf(policy *networkingv1.NetworkPolicy, direction networkingv1.PolicyType) []rule {
	var rules []rule
	if direction == networkingv1.PolicyTypeIngress {
		for _, r := range policy.Spec.Ingress {
			rules = append(rules, rule{r.From, r.Ports})
		}
		return rules
	}
	for _, r := range policy.Spec.Egress {
		rules = append(rules, rule{r.To, r.Ports})
	}
	return rules
}

func hasPort(ports []networkingv1.NetworkPolicyPort, port int32) bool {
	for _, p := range ports {
		if p.Port.IntVal == port {
			return true
		}
	}
	return len(ports) == 0
}

func hasPeer(t *testing.T, peers []networkingv1.NetworkPolicyPeer, other end) bool {
	t.Helper()
	for _, peer := range peers {
		here := other.namespace == operatorNamespace
		if peer.NamespaceSelector != nil {
			here = other.namespace != "" && matches(t, peer.NamespaceSelector, other.labels)
		}
		if here && (peer.PodSelector == nil || matches(t, peer.PodSelector, other.pod)) {
			return true
		}
	}
	return len(peers) == 0
}

func matches(t *testing.T, selector *metav1.LabelSelector, set map[string]string) bool {
	t.Helper()
	match, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return match.Matches(labels.Set(set))
}

// TestNetworkPolicies checks who can connect to which port, and to what the operator can connect.
func TestNetworkPolicies(t *testing.T) {
	const in, out = networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress
	var (
		outside = end{}
		anybody = end{namespace: "team-a", pod: map[string]string{"app": "shell"}}
		tools   = end{namespace: "tools", labels: map[string]string{"coder.com/mcp-client": "true"}}
		metrics = end{namespace: "monitoring", labels: map[string]string{"coder.com/metrics-reader": "true"}}
		sibling = end{namespace: operatorNamespace, pod: map[string]string{"app": "shell"}}
	)
	for _, name := range []string{"network-policies", "everything", "namespaced-closed", "private"} {
		t.Run(name, func(t *testing.T) {
			objects := environment.installations[name]
			policies := ofKind[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy")
			running := deployments(t, objects)
			all, apiserver, mcp := parts(isSplit(name))
			callers := slices.DeleteFunc(slices.Clone(all), func(name string) bool {
				return len(all) > 1 && name == mcp[0]
			})
			for _, test := range []struct {
				what      string
				direction networkingv1.PolicyType
				other     end
				port      int32
				want      []string
			}{
				{"kube-apiserver calls the aggregated API", in, outside, apiserverPort(name), apiserver},
				{"AI tools call MCP", in, tools, 8090, mcp},
				{"nobody else calls MCP", in, anybody, 8090, nil},
				{"Prometheus reads the metrics", in, metrics, 8443, all},
				{"nobody else reads the metrics", in, anybody, 8443, nil},
				{"not even an AI tool", in, tools, 8443, nil},
				{"no other pod of the namespace", in, sibling, 8443, nil},
				{"what is not served is closed", in, anybody, 8081, nil},
				{"all ask DNS", out, outside, 53, all},
				{"also that of OpenShift", out, outside, 5353, all},
				{"all ask kube-apiserver", out, outside, 6443, all},
				{"also where it is managed", out, outside, 443, all},
				{"Coder's pods are called by those that need it", out, anybody, 8080, callers},
				{"with TLS too", out, anybody, 8443, callers},
				{"nothing outside is called at that port", out, outside, 8080, nil},
				{"no database", out, anybody, 5432, nil},
				{"no metadata of the machine", out, outside, 80, nil},
			} {
				connects(t, test.what, policies, test.direction, running, test.other, test.port, test.want)
			}
			if allows(t, policies, in, sibling.pod, anybody, 80) || allows(t, policies, out, sibling.pod, anybody, 80) {
				t.Error("a pod of the namespace that is not ours is open")
			}
		})
	}
}

// connects compares the Deployments for which a connection is allowed.
func connects(
	t *testing.T, what string, policies []*networkingv1.NetworkPolicy, direction networkingv1.PolicyType,
	running []*appsv1.Deployment, other end, port int32, want []string,
) {
	t.Helper()
	var got []string
	for _, deployment := range running {
		if allows(t, policies, direction, deployment.Spec.Template.Labels, other, port) {
			got = append(got, deployment.Name)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s (%s, port %d): %v, not %v", what, direction, port, got, want)
	}
}
