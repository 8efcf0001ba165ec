package resources

import (
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// A rule without ports allows all ports, and a rule without peers allows all peers. An empty list
// in the spec must result in neither.
func TestNetworkPolicyOpensNothingByAnEmptyList(t *testing.T) {
	for name, w := range workloads() {
		w.Spec.NetworkPolicy = &coderv1alpha1.NetworkPolicySpec{
			From: []networkingv1.NetworkPolicyPeer{}, MetricsFrom: []networkingv1.NetworkPolicyPeer{},
			Egress: []networkingv1.NetworkPolicyEgressRule{},
		}
		policy := NetworkPolicy(w)
		for _, rule := range policy.Spec.Ingress {
			if len(rule.Ports) == 0 || len(rule.From) == 0 {
				t.Errorf("%s: the rule %+v lets in more than it says", name, rule)
			}
		}
		if len(policy.Spec.Ingress) > 1 {
			t.Errorf("%s: besides the workload and the operator somebody is let in: %+v", name, policy.Spec.Ingress)
		}
		if len(policy.Spec.Egress) != 2 || !slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
			t.Errorf("%s: egress is %+v, want DNS and the own pods", name, policy.Spec.Egress)
		}
	}
}

func TestNetworkPolicyUnset(t *testing.T) {
	w := full()
	w.Spec.NetworkPolicy = &coderv1alpha1.NetworkPolicySpec{}
	spec := NetworkPolicy(w).Spec
	if slices.Contains(spec.PolicyTypes, networkingv1.PolicyTypeEgress) || spec.Egress != nil {
		t.Errorf("egress is restricted to %+v although nobody asked for it", spec.Egress)
	}
	if len(spec.Ingress) != 3 {
		t.Fatalf("ingress is %+v", spec.Ingress)
	}
	everybody, metrics := spec.Ingress[1], spec.Ingress[2]
	if len(everybody.From) != 0 || len(everybody.Ports) != 2 {
		t.Errorf("HTTP is for %+v on %+v, want everybody on two ports", everybody.From, everybody.Ports)
	}
	if len(metrics.From) != 1 || metrics.From[0].NamespaceSelector != nil || len(metrics.Ports) != 1 {
		t.Errorf("metrics are for %+v on %+v, want the namespace on one port", metrics.From, metrics.Ports)
	}
	if NetworkPolicy(proxy()) != nil {
		t.Error("there is a policy that nobody asked for")
	}
}

// Every policy must allow the operator to reach Coder. Otherwise it cannot create its token.
func TestNetworkPolicyLetsTheOperatorIn(t *testing.T) {
	for name, w := range map[string]Workload{"full": full(), "gateway": gateway()} {
		peers := NetworkPolicy(w).Spec.Ingress[0].From
		operator := peers[len(peers)-1]
		if operator.PodSelector.MatchLabels["app.kubernetes.io/name"] != "coder-k8s" || operator.NamespaceSelector == nil {
			t.Errorf("%s: %+v is not the operator", name, operator)
		}
		if got := operator.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"]; got != w.OperatorNamespace {
			t.Errorf("%s: the operator is sought in namespace %q, want %q", name, got, w.OperatorNamespace)
		}
	}
}
