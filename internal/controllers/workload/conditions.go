package workload

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// ResourcesApplied returns the condition ResourcesApplied, which reports whether the children are
// applied. further names the kind's own steps that apply children.
func (p *Pass) ResourcesApplied() metav1.Condition {
	if len(p.Problems) > 0 {
		return ConditionFalse(coderv1alpha1.ConditionResourcesApplied, p.Problems[0].Reason, sentences(p.Problems))
	}
	// Children with a condition of their own do not count.
	for _, step := range append(childSteps(func(c child) bool { return c.problem == nil }), StepFinalizer, StepPrune) {
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
	case p.Available() && wanted == 0:
		return ConditionTrue(kind, coderv1alpha1.ReasonScaledToZero, p.scaledToZero())
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

func (p *Pass) scaledToZero() string {
	if p.Workload.KeepReplicas {
		return "the Deployment was scaled to 0, so no pod runs"
	}
	return "spec.replicas is 0, so no pod runs"
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
	return new(ConditionTrue(kind, coderv1alpha1.ReasonGranted, "Coder may create workspaces in "+quotedList(namespaces)))
}

func sentences(problems []Problem) string {
	var all []string
	for _, p := range problems {
		all = append(all, p.Message)
	}
	return strings.Join(all, "; ")
}

func quotedList(names []string) string {
	noun := "namespace "
	if len(names) > 1 {
		noun = "namespaces "
	}
	return noun + `"` + strings.Join(names, `", "`) + `"`
}
