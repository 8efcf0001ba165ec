package resources

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// Ingress returns the Ingress that exposes the plain HTTP port of the Service, or nil if the spec
// does not ask for one.
func Ingress(w Workload) *networkingv1.Ingress {
	if w.Serving == nil || w.Serving.Spec.Expose == nil || w.Serving.Spec.Expose.Ingress == nil {
		return nil
	}
	spec := w.Serving.Spec.Expose.Ingress.DeepCopy()
	rules := []networkingv1.IngressRule{ingressRule(w, spec.Host)}
	if spec.WildcardHost != "" {
		rules = append(rules, ingressRule(w, routedWildcard(spec.WildcardHost)))
	}
	return &networkingv1.Ingress{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "Ingress"},
		ObjectMeta: meta(w, w.Name, nil, spec.Annotations),
		Spec:       networkingv1.IngressSpec{IngressClassName: spec.ClassName, TLS: ingressTLS(spec), Rules: rules},
	}
}

func ingressRule(w Workload, host string) networkingv1.IngressRule {
	return networkingv1.IngressRule{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{
		HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
			Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix),
			Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
				Name: w.Name, Port: networkingv1.ServiceBackendPort{Number: HTTPPort(w)},
			}},
		}}},
	}}
}

func ingressTLS(spec *coderv1alpha1.IngressSpec) []networkingv1.IngressTLS {
	if spec.TLS == nil {
		return nil
	}
	var all []networkingv1.IngressTLS
	if spec.TLS.SecretName != "" {
		all = append(all, networkingv1.IngressTLS{Hosts: []string{spec.Host}, SecretName: spec.TLS.SecretName})
	}
	if spec.TLS.WildcardSecretName != "" && spec.WildcardHost != "" {
		all = append(all, networkingv1.IngressTLS{
			Hosts: []string{routedWildcard(spec.WildcardHost)}, SecretName: spec.TLS.WildcardSecretName,
		})
	}
	return all
}
