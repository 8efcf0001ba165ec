package controlplane

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/access"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/conditions"
)

// statusOf is the status that follows from what the pass saw. Of the status
// before it only keeps what is a record rather than a finding: the prefix, the
// last version that was seen, the reference to a token that nothing speaks
// against, and the times of transitions.
func statusOf(s *scope) coderv1alpha1.CoderControlPlaneStatus {
	status := *s.cp.Status.DeepCopy()
	status.ObservedGeneration = s.cp.Generation
	status.URL = ""
	if !s.serviceForeign && invalidName(s.cp.Name) == "" {
		status.URL = s.url()
	}
	if s.deployment != nil {
		status.Replicas = s.deployment.Status.Replicas
		status.ReadyReplicas = s.deployment.Status.ReadyReplicas
	}
	if s.deploymentForeign {
		status.Replicas, status.ReadyReplicas = 0, 0
	}
	if s.build != nil {
		status.Version = s.build.Version
	}
	setToken(s, &status)
	parts := partsOf(s, &status)
	all := append(summary(s, parts), parts...)
	status.Conditions = conditions.Merge(s.cp.Status.Conditions, all, s.cp.Generation, metav1.NewTime(s.now))
	status.Phase = coderv1alpha1.PhasePending
	if meta.IsStatusConditionTrue(status.Conditions, coderv1alpha1.ConditionReady) {
		status.Phase = coderv1alpha1.PhaseReady
	}
	return status
}

// setToken writes what is known of the token. That Coder does not answer just now
// says nothing against a token that it accepted before; a Service that is someone
// else's does, because nothing may be sent there.
func setToken(s *scope, status *coderv1alpha1.CoderControlPlaneStatus) {
	switch {
	case s.accessDisabled():
		status.OperatorAccessReady = false
		if s.access == nil && s.outcome.Succeeded(stepRevoke) || s.access != nil && s.access.State == access.Ready {
			status.OperatorTokenSecretRef, status.OperatorTokenExpiresAt = nil, nil
		}
	case s.deleting(), s.serviceForeign, s.deploymentForeign:
		status.OperatorAccessReady = false
	case s.access == nil, s.access.TokenRef == nil && unanswered(s.access):
	default:
		status.OperatorTokenSecretRef = s.access.TokenRef
		status.OperatorAccessReady = s.access.TokenRef != nil
		status.OperatorTokenExpiresAt = nil
		if s.access.ExpiresAt != nil {
			// What the API server stores has no parts of a second.
			expiry := metav1.NewTime(*s.access.ExpiresAt).Rfc3339Copy()
			status.OperatorTokenExpiresAt = &expiry
		}
	}
}

// unanswered says that Coder gave no answer about the token.
func unanswered(result *access.Result) bool {
	return result.State == access.Waiting &&
		(result.Reason == coderv1alpha1.ReasonUnreachable || result.Reason == coderv1alpha1.ReasonWaiting)
}

// partsOf are the conditions from which Ready is derived, in the order in which
// one depends on another, and those beside it.
func partsOf(s *scope, status *coderv1alpha1.CoderControlPlaneStatus) []metav1.Condition {
	if invalidName(s.cp.Name) != "" {
		return []metav1.Condition{resourcesApplied(s)}
	}
	if s.deleting() {
		return nil
	}
	parts := []metav1.Condition{
		resourcesApplied(s), deploymentAvailable(s), coderReachable(s), operatorAccess(s), served(s, status), workspaceAccess(s),
	}
	if expose := s.cp.Spec.Expose; expose != nil && (expose.Ingress != nil || expose.Gateway != nil) {
		parts = append(parts, conditions.False(coderv1alpha1.ConditionExposed, coderv1alpha1.ReasonNotImplemented,
			"this version does not expose Coder; remove spec.expose and make the Ingress or HTTPRoute yourself"))
	}
	if s.cp.Spec.LicenseSecretRef != nil {
		parts = append(parts, conditions.False(coderv1alpha1.ConditionLicenseApplied, coderv1alpha1.ReasonNotImplemented,
			"this version applies no license; remove spec.licenseSecretRef and add the license in Coder"))
	}
	return parts
}

func resourcesApplied(s *scope) metav1.Condition {
	if len(s.problems) > 0 {
		return conditions.False(coderv1alpha1.ConditionResourcesApplied, s.problems[0].reason, sentences(s.problems))
	}
	if !s.outcome.Succeeded(stepFinalizer) || !s.outcome.Succeeded(stepServiceAccount) ||
		!s.outcome.Succeeded(stepDeployment) || !s.outcome.Succeeded(stepService) {
		return conditions.Unknown(coderv1alpha1.ConditionResourcesApplied, coderv1alpha1.ReasonReconciling,
			"not every object that the spec asks for is applied yet")
	}
	return conditions.True(coderv1alpha1.ConditionResourcesApplied, coderv1alpha1.ReasonApplied,
		"every object that the spec asks for is applied")
}

func deploymentAvailable(s *scope) metav1.Condition {
	const kind = coderv1alpha1.ConditionDeploymentAvailable
	wanted := resources.Replicas(s.cp)
	switch {
	case s.deployment == nil:
		return conditions.Unknown(kind, coderv1alpha1.ReasonWaiting, "waits until the Deployment is applied")
	case available(s.deployment, wanted) && wanted == 0:
		return conditions.True(kind, coderv1alpha1.ReasonScaledToZero, "spec.replicas is 0, so no pod runs")
	case available(s.deployment, wanted):
		return conditions.True(kind, coderv1alpha1.ReasonAvailable, rolloutProgress(s.deployment, wanted))
	case s.trouble != nil:
		return conditions.False(kind, s.trouble.reason, s.trouble.message)
	case rolloutExpired(s.deployment):
		return conditions.False(kind, coderv1alpha1.ReasonProgressDeadlineExceeded,
			"the rollout did not end in time: "+rolloutProgress(s.deployment, wanted))
	}
	return conditions.False(kind, coderv1alpha1.ReasonProgressing, rolloutProgress(s.deployment, wanted))
}

func coderReachable(s *scope) metav1.Condition {
	const kind = coderv1alpha1.ConditionCoderReachable
	switch {
	case s.accessDisabled():
		return conditions.Unknown(kind, coderv1alpha1.ReasonDisabled,
			"spec.operatorAccess.disabled is set, so the operator does not call Coder")
	case s.build != nil:
		return conditions.True(kind, coderv1alpha1.ReasonReachable, fmt.Sprintf("Coder %s answers at %s", s.build.Version, s.url()))
	case s.coderErr != nil:
		return conditions.False(kind, coderv1alpha1.ReasonUnreachable, redact(s.coderErr.Error(), nil))
	case s.serviceForeign, s.deploymentForeign:
		return conditions.Unknown(kind, coderv1alpha1.ReasonNotChecked,
			"nothing is sent to a Service or Deployment that is not this control plane's")
	case resources.Replicas(s.cp) == 0:
		return conditions.Unknown(kind, coderv1alpha1.ReasonScaledToZero, "spec.replicas is 0, so no pod answers")
	}
	return conditions.Unknown(kind, coderv1alpha1.ReasonWaiting, "waits until a pod of Coder is ready")
}

func operatorAccess(s *scope) metav1.Condition {
	const kind = coderv1alpha1.ConditionOperatorAccess
	switch {
	case s.accessDisabled() && s.access != nil && s.access.State != access.Ready:
		return conditions.False(kind, s.access.Reason, "the operator's token is not revoked yet: "+redact(s.access.Message, nil))
	case s.accessDisabled():
		return conditions.False(kind, coderv1alpha1.ReasonDisabled, "spec.operatorAccess.disabled is set")
	case s.access == nil:
		return conditions.Unknown(kind, coderv1alpha1.ReasonWaiting, "waits until Coder answers")
	case s.access.State == access.Ready:
		return conditions.True(kind, s.access.Reason, redact(s.access.Message, nil))
	}
	return conditions.False(kind, s.access.Reason, redact(s.access.Message, nil))
}

func served(s *scope, status *coderv1alpha1.CoderControlPlaneStatus) metav1.Condition {
	const kind = coderv1alpha1.ConditionServed
	switch {
	case s.accessDisabled():
		return conditions.False(kind, coderv1alpha1.ReasonDisabled, "spec.operatorAccess.disabled is set")
	case status.ObjectNamePrefix == nil:
		return conditions.False(kind, coderv1alpha1.ReasonWaiting, "waits until the prefix of the objects' names is decided")
	case !status.OperatorAccessReady:
		return conditions.False(kind, coderv1alpha1.ReasonWaiting, "waits for the operator's access to Coder")
	case *status.ObjectNamePrefix == "":
		return conditions.True(kind, coderv1alpha1.ReasonServed, "templates and workspaces are served under their own names")
	}
	return conditions.True(kind, coderv1alpha1.ReasonServed,
		fmt.Sprintf("templates and workspaces are served with %q in front of their names", *status.ObjectNamePrefix))
}

func workspaceAccess(s *scope) metav1.Condition {
	const kind = coderv1alpha1.ConditionWorkspaceAccess
	switch {
	case len(s.grants) > 0:
		return conditions.False(kind, s.grants[0].reason, sentences(s.grants))
	case !s.outcome.Succeeded(stepWorkspaces):
		return conditions.Unknown(kind, coderv1alpha1.ReasonReconciling, "the rights of workspaces are not granted yet")
	case len(resources.WorkspaceNamespaces(s.cp)) == 0:
		return conditions.True(kind, coderv1alpha1.ReasonDisabled, "spec.rbac.workspacePerms is false, so nothing is granted")
	}
	return conditions.True(kind, coderv1alpha1.ReasonGranted, "Coder may make workspaces in "+quotedList(resources.WorkspaceNamespaces(s.cp)))
}

func sentences(problems []problem) string {
	var all []string
	for _, p := range problems {
		all = append(all, p.message)
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
