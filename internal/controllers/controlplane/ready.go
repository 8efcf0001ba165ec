package controlplane

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/access"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/conditions"
)

// summary derives Ready from the parts, and Reconciling or Stalled where they are
// true, as kstatus reads them. The first part that does not hold gives reason and
// message: the later ones depend on it.
func summary(s *scope, parts []metav1.Condition) []metav1.Condition {
	if s.deleting() {
		const message = "the control plane is being deleted"
		return []metav1.Condition{
			conditions.False(coderv1alpha1.ConditionReady, coderv1alpha1.ReasonDeleting, deletionMessage(s, message)),
			conditions.True(coderv1alpha1.ConditionReconciling, coderv1alpha1.ReasonDeleting, message),
		}
	}
	part := firstFailing(s, parts)
	if part == nil && resources.Replicas(s.cp) == 0 {
		part = conditions.Find(parts, coderv1alpha1.ConditionDeploymentAvailable)
	}
	if part == nil {
		message := "Coder runs, and the operator has access to it"
		if s.accessDisabled() {
			message = "Coder runs; spec.operatorAccess.disabled keeps the operator away from it"
		}
		return []metav1.Condition{conditions.True(coderv1alpha1.ConditionReady, coderv1alpha1.ReasonReady, message)}
	}
	ready := conditions.False(coderv1alpha1.ConditionReady, part.Reason, part.Message)
	switch {
	case part.Reason == coderv1alpha1.ReasonScaledToZero:
		return []metav1.Condition{ready}
	case stalled(s, part):
		return []metav1.Condition{ready, conditions.True(coderv1alpha1.ConditionStalled, part.Reason, part.Message)}
	}
	return []metav1.Condition{ready, conditions.True(coderv1alpha1.ConditionReconciling, part.Reason, part.Message)}
}

func firstFailing(s *scope, parts []metav1.Condition) *metav1.Condition {
	for i := range parts {
		part := &parts[i]
		switch part.Type {
		case coderv1alpha1.ConditionServed, coderv1alpha1.ConditionWorkspaceAccess:
			continue
		case coderv1alpha1.ConditionCoderReachable, coderv1alpha1.ConditionOperatorAccess:
			if s.accessDisabled() {
				continue
			}
		}
		if part.Status != metav1.ConditionTrue {
			return part
		}
	}
	return nil
}

// stalled says that time alone mends nothing. A Secret, an image or a database
// that is missing may come, so those are waited for, until Kubernetes gives the
// rollout up.
func stalled(s *scope, part *metav1.Condition) bool {
	switch part.Type {
	case coderv1alpha1.ConditionDeploymentAvailable:
		return part.Reason == coderv1alpha1.ReasonDatabaseMissing || rolloutExpired(s.deployment)
	case coderv1alpha1.ConditionOperatorAccess:
		return s.access != nil && s.access.State == access.Failed
	}
	return slices.Contains([]string{
		coderv1alpha1.ReasonInvalidName, coderv1alpha1.ReasonInvalidSpec,
		coderv1alpha1.ReasonNotOwned, coderv1alpha1.ReasonNotImplemented,
	}, part.Reason)
}

// deletionMessage says what a deletion waits for.
func deletionMessage(s *scope, message string) string {
	switch {
	case s.outcome.Failed[stepRevoke] != nil:
		return message + " and waits until its token is revoked in Coder, for a minute at most: " +
			redact(s.outcome.Failed[stepRevoke].Error(), nil)
	case len(s.grants) > 0:
		return message + " and waits until its rights in other namespaces are gone: " + sentences(s.grants)
	}
	return message
}
