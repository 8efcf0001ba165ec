package resources

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
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
	var tls []networkingv1.IngressTLS
	if spec.TLS != nil && spec.TLS.SecretName != "" {
		tls = append(tls, networkingv1.IngressTLS{Hosts: []string{spec.Host}, SecretName: spec.TLS.SecretName})
	}
	if spec.TLS != nil && spec.TLS.WildcardSecretName != "" && spec.WildcardHost != "" {
		tls = append(tls, networkingv1.IngressTLS{
			Hosts: []string{routedWildcard(spec.WildcardHost)}, SecretName: spec.TLS.WildcardSecretName,
		})
	}
	return &networkingv1.Ingress{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "Ingress"},
		ObjectMeta: meta(w, w.Name, nil, spec.Annotations),
		Spec:       networkingv1.IngressSpec{IngressClassName: spec.ClassName, TLS: tls, Rules: rules},
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

// HTTPRoute returns the HTTPRoute that exposes the plain HTTP port of the Service through a
// Gateway, or nil if the spec does not ask for one. The cluster may not serve this kind.
func HTTPRoute(w Workload) *gatewayv1.HTTPRoute {
	if w.Serving == nil || w.Serving.Spec.Expose == nil || w.Serving.Spec.Expose.Gateway == nil {
		return nil
	}
	spec := w.Serving.Spec.Expose.Gateway
	hosts := []gatewayv1.Hostname{gatewayv1.Hostname(spec.Host)}
	if spec.WildcardHost != "" {
		hosts = append(hosts, gatewayv1.Hostname(routedWildcard(spec.WildcardHost)))
	}
	parents := make([]gatewayv1.ParentReference, 0, len(spec.ParentRefs))
	for _, ref := range spec.ParentRefs {
		parent := gatewayv1.ParentReference{
			Name: gatewayv1.ObjectName(ref.Name), Kind: notEmpty[gatewayv1.Kind](ref.Kind),
			Namespace: notEmpty[gatewayv1.Namespace](ref.Namespace), SectionName: notEmpty[gatewayv1.SectionName](ref.SectionName),
		}
		if ref.Port != nil {
			parent.Port = ptr.To(*ref.Port)
		}
		parents = append(parents, parent)
	}
	return &gatewayv1.HTTPRoute{
		TypeMeta:   metav1.TypeMeta{APIVersion: gatewayv1.GroupVersion.String(), Kind: "HTTPRoute"},
		ObjectMeta: meta(w, w.Name, nil, spec.Annotations),
		Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: parents},
			Hostnames:       hosts,
			Rules: []gatewayv1.HTTPRouteRule{{
				Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{
					Type: ptr.To(gatewayv1.PathMatchPathPrefix), Value: ptr.To("/"),
				}}},
				BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{
					BackendObjectReference: gatewayv1.BackendObjectReference{
						Name: gatewayv1.ObjectName(w.Name), Port: ptr.To(HTTPPort(w)),
					},
				}}},
			}},
		},
	}
}

// notEmpty returns a copy of a text, or nil if it is empty.
func notEmpty[T ~string](text *string) *T {
	if text == nil || *text == "" {
		return nil
	}
	return ptr.To(T(*text))
}
