package workload

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// refusedRoute returns the first refusal if every Gateway that has a status refuses the route. A
// Gateway that has not reported a status yet does not count as a refusal.
func refusedRoute(route *gatewayv1.HTTPRoute) *Problem {
	var first *Problem
	for i := range route.Status.Parents {
		refused := refusedBy(&route.Status.Parents[i])
		if refused == nil {
			return nil
		}
		if first == nil {
			first = refused
		}
	}
	return first
}

func refusedBy(parent *gatewayv1.RouteParentStatus) *Problem {
	for _, kind := range []gatewayv1.RouteConditionType{gatewayv1.RouteConditionAccepted, gatewayv1.RouteConditionResolvedRefs} {
		condition := meta.FindStatusCondition(parent.Conditions, string(kind))
		if condition != nil && condition.Status == metav1.ConditionFalse {
			return &Problem{coderv1alpha1.ReasonRouteRefused, fmt.Sprintf("Gateway %q refuses the HTTPRoute: %s: %s; configure it to accept routes of this namespace and host, or correct spec.expose",
				parent.ParentRef.Name, condition.Reason, Quote(condition.Message))}
		}
	}
	return nil
}

// Exposed returns the condition about the Ingress or HTTPRoute, or nil if the spec asks for
// neither.
func (p *Pass) Exposed() *metav1.Condition {
	kind := ""
	switch serving := p.Workload.Serving; {
	case serving == nil || serving.Spec.Expose == nil:
		return nil
	case serving.Spec.Expose.Ingress != nil:
		kind = "Ingress"
	case serving.Spec.Expose.Gateway != nil:
		kind = "HTTPRoute"
	default:
		return nil
	}
	return p.ofChild(StepExposure, p.Exposure, fmt.Sprintf("%s %q", kind, p.Workload.Name),
		ConditionTrue(coderv1alpha1.ConditionExposed, coderv1alpha1.ReasonExposed, "routes to the Service"))
}

// MetricsExported returns the condition about the ServiceMonitor, or nil if the spec asks for none.
func (p *Pass) MetricsExported() *metav1.Condition {
	if spec := p.Workload.Spec.Metrics; !spec.Enabled || spec.ServiceMonitor == nil {
		return nil
	}
	return p.ofChild(StepServiceMonitor, p.Monitoring, fmt.Sprintf("ServiceMonitor %q", p.Workload.Name),
		ConditionTrue(coderv1alpha1.ConditionMetricsExported, coderv1alpha1.ReasonMetricsExported, "selects the Service of the metrics"))
}

// ofChild returns the condition about a child that has one of its own: works if the child is
// applied. The message of works follows the name of the child.
func (p *Pass) ofChild(step string, problem *Problem, name string, works metav1.Condition) *metav1.Condition {
	switch {
	case problem != nil:
		return new(ConditionFalse(works.Type, problem.Reason, problem.Message))
	case !p.Outcome.Succeeded(step):
		return new(ConditionFalse(works.Type, coderv1alpha1.ReasonReconciling, name+" is not applied yet"))
	}
	works.Message = name + " " + works.Message
	return &works
}
