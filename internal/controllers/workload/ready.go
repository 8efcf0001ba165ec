package workload

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/conditions"
)

// Summary is how Ready follows from its parts.
type Summary struct {
	// Parts are the conditions of the pass, in the order in which one depends on
	// another.
	Parts []metav1.Condition
	// Beside are the types among them that do not decide about Ready, besides
	// WorkspaceAccess and MetricsExported.
	Beside []string
	// Works is the message of Ready where it is true.
	Works string
	// Stalled says of a part that does not hold that only a person can help, where
	// that does not follow from the reason. Nil is never.
	Stalled func(part *metav1.Condition) bool
	// Deleting says what the deletion waits for, or nothing.
	Deleting string
}

// Status is the shared part of the status that follows from what the pass saw. Of
// the one before it keeps the times of transitions alone, and the numbers of pods
// where nothing was seen of them.
func (p *Pass) Status(s Summary) coderv1alpha1.WorkloadStatus {
	status := *p.Previous.DeepCopy()
	status.ObservedGeneration = p.Object.GetGeneration()
	// While the Deployment goes, or cannot be read, its pods are still those of before.
	if p.Outcome.Succeeded(StepAdoption) || status.Selector == "" {
		status.Selector = labels.SelectorFromSet(resources.PodLabels(p.Workload)).String()
	}
	if p.Deployment != nil {
		status.Replicas = p.Deployment.Status.Replicas
		status.ReadyReplicas = p.Deployment.Status.ReadyReplicas
	}
	if p.DeploymentForeign {
		status.Replicas, status.ReadyReplicas = 0, 0
	}
	all := slices.Concat(p.summary(s), s.Parts)
	status.Conditions = conditions.Merge(p.Previous.Conditions, all, p.Object.GetGeneration(), metav1.NewTime(p.Now))
	status.Phase = coderv1alpha1.PhasePending
	if conditions.IsTrue(status.Conditions, coderv1alpha1.ConditionReady) {
		status.Phase = coderv1alpha1.PhaseReady
	}
	return status
}

// summary derives Ready from the parts, and Reconciling or Stalled where they are
// true, as kstatus reads them. The first part that does not hold gives reason and
// message: the later ones depend on it.
func (p *Pass) summary(s Summary) []metav1.Condition {
	if p.Deleting() {
		message := "the " + p.Kind.Noun + " is being deleted"
		return []metav1.Condition{
			conditions.False(coderv1alpha1.ConditionReady, coderv1alpha1.ReasonDeleting, message+p.deletionWaits(s)),
			conditions.True(coderv1alpha1.ConditionReconciling, coderv1alpha1.ReasonDeleting, message),
		}
	}
	part := firstFailing(s)
	if part == nil && p.Wanted() == 0 {
		part = conditions.Find(s.Parts, coderv1alpha1.ConditionDeploymentAvailable)
	}
	if part == nil {
		return []metav1.Condition{conditions.True(coderv1alpha1.ConditionReady, coderv1alpha1.ReasonReady, s.Works)}
	}
	ready := conditions.False(coderv1alpha1.ConditionReady, part.Reason, part.Message)
	switch {
	case part.Reason == coderv1alpha1.ReasonScaledToZero:
		// Nothing runs because nothing is wanted: the object is as its spec says, and
		// whoever waits for it waits for nothing.
		return []metav1.Condition{conditions.True(coderv1alpha1.ConditionReady, part.Reason, part.Message)}
	case p.stalled(s, part):
		return []metav1.Condition{ready, conditions.True(coderv1alpha1.ConditionStalled, part.Reason, part.Message)}
	}
	return []metav1.Condition{ready, conditions.True(coderv1alpha1.ConditionReconciling, part.Reason, part.Message)}
}

func firstFailing(s Summary) *metav1.Condition {
	beside := append([]string{coderv1alpha1.ConditionWorkspaceAccess, coderv1alpha1.ConditionMetricsExported}, s.Beside...)
	for i := range s.Parts {
		part := &s.Parts[i]
		if part.Status != metav1.ConditionTrue && !slices.Contains(beside, part.Type) {
			return part
		}
	}
	return nil
}

// stalled says that time alone mends nothing. A Secret, an image or a database
// that is missing may come, so those are waited for, until Kubernetes gives the
// rollout up.
func (p *Pass) stalled(s Summary, part *metav1.Condition) bool {
	if part.Type == coderv1alpha1.ConditionDeploymentAvailable && p.Deployment != nil && rolloutExpired(p.Deployment) {
		return true
	}
	if s.Stalled != nil && s.Stalled(part) {
		return true
	}
	return slices.Contains([]string{
		coderv1alpha1.ReasonInvalidName, coderv1alpha1.ReasonInvalidSpec,
		coderv1alpha1.ReasonNotOwned,
	}, part.Reason)
}

// deletionWaits says what a deletion waits for.
func (p *Pass) deletionWaits(s Summary) string {
	switch {
	case s.Deleting != "":
		return " and waits " + s.Deleting
	case len(p.Grants) > 0:
		return " and waits until its rights in other namespaces are gone: " + sentences(p.Grants)
	}
	return ""
}
