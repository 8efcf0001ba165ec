package framework

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// Summary describes how Ready follows from the other conditions.
type Summary struct {
	// Parts are the conditions of the pass. A condition may depend on those before it.
	Parts []metav1.Condition
	// Beside are the types that do not affect Ready, in addition to WorkspaceAccess and
	// MetricsExported.
	Beside []string
	// Works is the message of Ready if it is true.
	Works string
	// Stalled reports whether a user must act on a failing part although its reason does not imply
	// that. Nil means never.
	Stalled func(part *metav1.Condition) bool
	// Deleting describes what the deletion waits for. It is empty if the deletion does not wait.
	Deleting string
}

// Status returns the shared part of the status for the result of the pass. From the previous status
// it keeps only the transition times, and the numbers of pods if they were not read.
func (p *Pass) Status(s Summary) coderv1alpha1.WorkloadStatus {
	status := *p.Previous.DeepCopy()
	status.ObservedGeneration = p.Object.GetGeneration()
	// While the Deployment is being deleted or cannot be read, its pods keep the previous labels. A pass
	// over a deleted object has no StepAdoption.
	if !p.Deleting() && p.Outcome.Succeeded(StepAdoption) || status.Selector == "" {
		status.Selector = labels.SelectorFromSet(resources.PodLabels(p.Workload)).String()
	}
	if p.Deployment != nil {
		status.Replicas = p.Deployment.Status.Replicas
		status.ReadyReplicas = p.Deployment.Status.ReadyReplicas
	}
	if p.DeploymentForeign {
		status.Replicas, status.ReadyReplicas = 0, 0
	}
	all := slices.Concat(p.summary(s), s.Parts, Parts(p.evictable()))
	status.Conditions = mergeConditions(p.Previous.Conditions, all, p.Object.GetGeneration(), metav1.NewTime(p.Now))
	status.Phase = coderv1alpha1.PhasePending
	if meta.IsStatusConditionTrue(status.Conditions, coderv1alpha1.ConditionReady) {
		status.Phase = coderv1alpha1.PhaseReady
	}
	return status
}

// summary derives Ready from the parts. It adds Reconciling or Stalled if they are true, as kstatus
// expects. Reason and message come from the first failing part, because the later parts depend on
// it.
func (p *Pass) summary(s Summary) []metav1.Condition {
	if p.Deleting() {
		message := "the " + p.Kind.Noun + " is being deleted"
		waits := ""
		switch {
		case s.Deleting != "":
			waits = " and waits " + s.Deleting
		case len(p.Grants) > 0:
			waits = " and waits until its permissions in other namespaces are removed: " + sentences(p.Grants)
		}
		return []metav1.Condition{
			ConditionFalse(coderv1alpha1.ConditionReady, coderv1alpha1.ReasonDeleting, message+waits),
			ConditionTrue(coderv1alpha1.ConditionReconciling, coderv1alpha1.ReasonDeleting, message),
		}
	}
	beside := append([]string{coderv1alpha1.ConditionWorkspaceAccess, coderv1alpha1.ConditionMetricsExported}, s.Beside...)
	var part *metav1.Condition
	if at := slices.IndexFunc(s.Parts, func(c metav1.Condition) bool {
		return c.Status != metav1.ConditionTrue && !slices.Contains(beside, c.Type)
	}); at >= 0 {
		part = &s.Parts[at]
	} else if p.Wanted() == 0 {
		part = meta.FindStatusCondition(s.Parts, coderv1alpha1.ConditionDeploymentAvailable)
	}
	if part == nil {
		return []metav1.Condition{ConditionTrue(coderv1alpha1.ConditionReady, coderv1alpha1.ReasonReady, s.Works)}
	}
	ready := ConditionFalse(coderv1alpha1.ConditionReady, part.Reason, part.Message)
	// A missing Secret, image or database may still appear, so these are waited for until the rollout of the
	// Deployment exceeds its deadline.
	hopeless := part.Type == coderv1alpha1.ConditionDeploymentAvailable && p.Deployment != nil && (p.keepsCrashing || rolloutExpired(p.Deployment))
	switch {
	case part.Reason == coderv1alpha1.ReasonScaledToZero:
		// No pod runs because none is wanted. The object matches its spec, so a client that waits
		// for Ready must not wait any longer.
		return []metav1.Condition{ConditionTrue(coderv1alpha1.ConditionReady, part.Reason, part.Message)}
	case hopeless, s.Stalled != nil && s.Stalled(part), slices.Contains([]string{
		coderv1alpha1.ReasonInvalidName, coderv1alpha1.ReasonInvalidSpec, coderv1alpha1.ReasonNotOwned,
	}, part.Reason):
		return []metav1.Condition{ready, ConditionTrue(coderv1alpha1.ConditionStalled, part.Reason, part.Message)}
	}
	return []metav1.Condition{ready, ConditionTrue(coderv1alpha1.ConditionReconciling, part.Reason, part.Message)}
}
