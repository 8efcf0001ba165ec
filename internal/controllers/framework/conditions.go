package framework

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// ResourcesApplied returns the condition ResourcesApplied, which reports whether the children are
// applied.
func (p *Pass) ResourcesApplied() metav1.Condition {
	if len(p.Problems) > 0 {
		return ConditionFalse(coderv1alpha1.ConditionResourcesApplied, p.Problems[0].Reason, sentences(p.Problems))
	}
	// Children with a condition of their own do not count.
	for _, step := range []string{
		StepFinalizer, StepServiceAccount, StepDeployment, StepService, StepDisruptionBudget, StepNetworkPolicy, StepMetricsService, StepPrune,
	} {
		if !p.Outcome.Succeeded(step) {
			return ConditionUnknown(coderv1alpha1.ConditionResourcesApplied, coderv1alpha1.ReasonReconciling,
				"not all objects that the spec requires are applied yet")
		}
	}
	return ConditionTrue(coderv1alpha1.ConditionResourcesApplied, coderv1alpha1.ReasonApplied,
		"all objects that the spec requires are applied")
}

// DeploymentAvailable returns the condition DeploymentAvailable, which reports whether the pods are
// ready.
func (p *Pass) DeploymentAvailable() metav1.Condition {
	const kind = coderv1alpha1.ConditionDeploymentAvailable
	wanted := p.Wanted()
	switch {
	case p.Deployment == nil:
		return ConditionUnknown(kind, coderv1alpha1.ReasonWaiting, "waiting until the Deployment is applied")
	case p.Available() && wanted == 0 && p.Workload.HeldReplicas != nil:
		return ConditionTrue(kind, coderv1alpha1.ReasonScaledToZero, "the pods are stopped for an upgrade")
	case p.Available() && wanted == 0 && p.Workload.KeepReplicas:
		return ConditionTrue(kind, coderv1alpha1.ReasonScaledToZero, "the Deployment was scaled to 0, so no pod runs")
	case p.Available() && wanted == 0:
		return ConditionTrue(kind, coderv1alpha1.ReasonScaledToZero, "spec.replicas is 0, so no pod runs")
	case p.Available() && len(p.Missing) > 0:
		return ConditionTrue(kind, p.Missing[0].Reason, rolloutProgress(p.Deployment, wanted)+", but new pods cannot start: "+sentences(p.Missing))
	case p.Available():
		return ConditionTrue(kind, coderv1alpha1.ReasonAvailable, rolloutProgress(p.Deployment, wanted))
	case p.Trouble != nil:
		return ConditionFalse(kind, p.Trouble.Reason, p.Trouble.Message)
	case rolloutExpired(p.Deployment):
		return ConditionFalse(kind, coderv1alpha1.ReasonProgressDeadlineExceeded,
			"the rollout did not complete before its deadline: "+rolloutProgress(p.Deployment, wanted))
	}
	return ConditionFalse(kind, coderv1alpha1.ReasonProgressing, rolloutProgress(p.Deployment, wanted))
}

// WorkspaceAccess returns the condition about the permissions for workspaces, or nil if the kind
// grants none.
func (p *Pass) WorkspaceAccess() *metav1.Condition {
	const kind = coderv1alpha1.ConditionWorkspaceAccess
	namespaces := resources.WorkspaceNamespaces(p.Workload)
	switch {
	case p.Workload.Rights == nil:
		return nil
	case len(p.Grants) > 0:
		return new(ConditionFalse(kind, p.Grants[0].Reason, sentences(p.Grants)))
	case !p.Outcome.Succeeded(StepWorkspaces):
		return new(ConditionUnknown(kind, coderv1alpha1.ReasonReconciling, "the permissions for workspaces are not granted yet"))
	case len(namespaces) == 0:
		return new(ConditionTrue(kind, coderv1alpha1.ReasonDisabled, "spec.rbac.workspacePerms is false, so no permissions are granted"))
	}
	noun := "namespace"
	if len(namespaces) > 1 {
		noun = "namespaces"
	}
	return new(ConditionTrue(kind, coderv1alpha1.ReasonGranted,
		fmt.Sprintf(`Coder may create workspaces in %s "%s"`, noun, strings.Join(namespaces, `", "`))))
}

// evictable returns the condition about a PodDisruptionBudget that allows no eviction even if all pods are ready, or nil. Some
// users want that, so it is no error.
func (p *Pass) evictable() *metav1.Condition {
	budget, wanted := p.Workload.Spec.PodDisruptionBudget, int(p.Wanted())
	if budget == nil || wanted == 0 || p.Deleting() || InvalidName(p) != "" {
		return nil
	}
	allowed, why := 0, ""
	// Like Kubernetes, both round a percentage up.
	if limit := budget.MinAvailable; limit != nil {
		required, _ := intstr.GetScaledValueFromIntOrPercent(limit, wanted, true)
		allowed, why = wanted-required, "minAvailable is "+limit.String()
	} else if limit := budget.MaxUnavailable; limit != nil {
		allowed, _ = intstr.GetScaledValueFromIntOrPercent(limit, wanted, true)
		why = "maxUnavailable is " + limit.String()
	}
	if allowed > 0 {
		return nil
	}
	return new(ConditionFalse(coderv1alpha1.ConditionEvictable, coderv1alpha1.ReasonBudgetBlocksDrain, fmt.Sprintf(
		"the PodDisruptionBudget %q allows no eviction, because %s and the number of pods is %d, so kubectl drain of their nodes never ends; "+
			"set spec.podDisruptionBudget to maxUnavailable: 1, or remove it", p.Workload.Name, why, wanted)))
}

func sentences(problems []Problem) string {
	var all []string
	for _, p := range problems {
		all = append(all, p.Message)
	}
	return strings.Join(all, "; ")
}

// maxConditionMessage is the maximum length of a message in bytes. It is below the limit of
// metav1.Condition.
const maxConditionMessage = 4096

// ConditionTrue returns a condition with status True.
func ConditionTrue(conditionType, reason, message string) metav1.Condition {
	return NewCondition(conditionType, metav1.ConditionTrue, reason, message)
}

// ConditionFalse returns a condition with status False.
func ConditionFalse(conditionType, reason, message string) metav1.Condition {
	return NewCondition(conditionType, metav1.ConditionFalse, reason, message)
}

// ConditionUnknown returns a condition with status Unknown.
func ConditionUnknown(conditionType, reason, message string) metav1.Condition {
	return NewCondition(conditionType, metav1.ConditionUnknown, reason, message)
}

// NewCondition returns a condition. A message that is too long is truncated.
func NewCondition(conditionType string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: redaction.Truncate(message, maxConditionMessage)}
}

// Parts returns the conditions that are not nil.
func Parts(conditions ...*metav1.Condition) []metav1.Condition {
	var parts []metav1.Condition
	for _, c := range conditions {
		if c != nil {
			parts = append(parts, *c)
		}
	}
	return parts
}

// mergeConditions returns next for the given generation. A condition whose status did not change keeps the
// transition time from previous. Conditions that are not in next are dropped.
func mergeConditions(previous, next []metav1.Condition, generation int64, now metav1.Time) []metav1.Condition {
	merged := make([]metav1.Condition, 0, len(next))
	for _, c := range next {
		c.ObservedGeneration = generation
		c.LastTransitionTime = now
		if old := meta.FindStatusCondition(previous, c.Type); old != nil && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		merged = append(merged, c)
	}
	return merged
}

// changedConditions returns the conditions of next whose status or reason differs from previous.
func changedConditions(previous, next []metav1.Condition) []metav1.Condition {
	var changed []metav1.Condition
	for _, c := range next {
		if old := meta.FindStatusCondition(previous, c.Type); old == nil || old.Status != c.Status || old.Reason != c.Reason {
			changed = append(changed, c)
		}
	}
	return changed
}

// refusedRoute returns the first refusal if every Gateway that has a status refuses the route. A
// Gateway that has not reported a status yet does not count as a refusal.
func refusedRoute(route *gatewayv1.HTTPRoute) *Problem {
	var first *Problem
	for _, parent := range route.Status.Parents {
		var refused *metav1.Condition
		for _, kind := range []gatewayv1.RouteConditionType{gatewayv1.RouteConditionAccepted, gatewayv1.RouteConditionResolvedRefs} {
			c := meta.FindStatusCondition(parent.Conditions, string(kind))
			if refused == nil && c != nil && c.Status == metav1.ConditionFalse {
				refused = c
			}
		}
		if refused == nil {
			return nil
		}
		if first == nil {
			first = &Problem{coderv1alpha1.ReasonRouteRefused, fmt.Sprintf(
				"Gateway %q refuses the HTTPRoute: %s: %s; configure it to accept routes of this namespace and host, or correct spec.expose",
				parent.ParentRef.Name, refused.Reason, Quote(refused.Message))}
		}
	}
	return first
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
