package resources

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

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
	return &gatewayv1.HTTPRoute{
		TypeMeta:   metav1.TypeMeta{APIVersion: gatewayv1.GroupVersion.String(), Kind: "HTTPRoute"},
		ObjectMeta: meta(w, w.Name, nil, spec.Annotations),
		Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: parentRefs(spec.ParentRefs)},
			Hostnames:       hosts,
			Rules:           []gatewayv1.HTTPRouteRule{httpRouteRule(w)},
		},
	}
}

func httpRouteRule(w Workload) gatewayv1.HTTPRouteRule {
	return gatewayv1.HTTPRouteRule{
		Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{
			Type: ptr.To(gatewayv1.PathMatchPathPrefix), Value: ptr.To("/"),
		}}},
		BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{
			BackendObjectReference: gatewayv1.BackendObjectReference{
				Name: gatewayv1.ObjectName(w.Name), Port: ptr.To(HTTPPort(w)),
			},
		}}},
	}
}

func parentRefs(refs []coderv1alpha1.GatewayParentReference) []gatewayv1.ParentReference {
	all := make([]gatewayv1.ParentReference, 0, len(refs))
	for _, ref := range refs {
		parent := gatewayv1.ParentReference{Name: gatewayv1.ObjectName(ref.Name)}
		if ref.Kind != nil && *ref.Kind != "" {
			parent.Kind = ptr.To(gatewayv1.Kind(*ref.Kind))
		}
		if ref.Port != nil {
			parent.Port = ptr.To(*ref.Port)
		}
		if ref.Namespace != nil && *ref.Namespace != "" {
			parent.Namespace = ptr.To(gatewayv1.Namespace(*ref.Namespace))
		}
		if ref.SectionName != nil && *ref.SectionName != "" {
			parent.SectionName = ptr.To(gatewayv1.SectionName(*ref.SectionName))
		}
		all = append(all, parent)
	}
	return all
}
