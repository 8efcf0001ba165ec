package resources

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

const (
	dnsPort = 53
	// openShiftDNSPort is the port of the DNS pods of OpenShift. A NetworkPolicy applies to the
	// port of the pod, not to that of the Service.
	openShiftDNSPort = 5353
)

// NetworkPolicy returns the policy that restricts the traffic of the pods, or nil if the spec does
// not ask for one. A list that is not set allows the traffic that its field documents. An empty
// list allows none.
func NetworkPolicy(w Workload) *networkingv1.NetworkPolicy {
	spec := w.Spec.NetworkPolicy.DeepCopy()
	if spec == nil {
		return nil
	}
	policy := &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: meta(w, w.Name, nil, nil),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: selector(w),
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     ingressRules(w, spec),
		},
	}
	if spec.Egress != nil {
		policy.Spec.PolicyTypes = append(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		// DNS to any destination, and the other pods of the workload, are always allowed.
		policy.Spec.Egress = append([]networkingv1.NetworkPolicyEgressRule{
			{Ports: []networkingv1.NetworkPolicyPort{udp(dnsPort), tcp(dnsPort), udp(openShiftDNSPort), tcp(openShiftDNSPort)}},
			{To: []networkingv1.NetworkPolicyPeer{ownPods(w)}},
		}, spec.Egress...)
	}
	return policy
}

// ingressRules returns the ingress rules. Each names its ports, because a rule without ports allows
// all ports.
func ingressRules(w Workload, spec *coderv1alpha1.NetworkPolicySpec) []networkingv1.NetworkPolicyIngressRule {
	var serving, metrics []networkingv1.NetworkPolicyPort
	for _, port := range containerPorts(w) {
		if port.Name == portMetrics {
			metrics = append(metrics, tcp(port.ContainerPort))
			continue
		}
		serving = append(serving, tcp(port.ContainerPort))
	}
	var rules []networkingv1.NetworkPolicyIngressRule
	add := func(from []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) {
		if len(ports) > 0 {
			rules = append(rules, networkingv1.NetworkPolicyIngressRule{From: from, Ports: ports})
		}
	}
	// The operator calls Coder to create its token and to read the status. All its manifests have this name label.
	operator := networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{},
		PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{coderv1alpha1.LabelName: "coder-k8s"}},
	}
	if w.OperatorNamespace != "" {
		operator.NamespaceSelector.MatchLabels = map[string]string{corev1.LabelMetadataName: w.OperatorNamespace}
	}
	add([]networkingv1.NetworkPolicyPeer{ownPods(w), operator}, append(serving[:len(serving):len(serving)], metrics...))
	var peer []networkingv1.NetworkPolicyPort
	for _, port := range w.PeerPorts {
		peer = append(peer, tcp(port))
	}
	add([]networkingv1.NetworkPolicyPeer{ownPods(w)}, peer)
	// A rule with an empty list of peers allows all peers.
	if spec.From == nil || len(spec.From) > 0 {
		add(spec.From, serving)
	}
	switch {
	case spec.MetricsFrom == nil:
		add([]networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}, metrics)
	case len(spec.MetricsFrom) > 0:
		add(spec.MetricsFrom, metrics)
	}
	return rules
}

func ownPods(w Workload) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: ptr.To(selector(w))}
}

func udp(port int32) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: ptr.To(corev1.ProtocolUDP), Port: ptr.To(intstr.FromInt32(port))}
}

func tcp(port int32) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(intstr.FromInt32(port))}
}
