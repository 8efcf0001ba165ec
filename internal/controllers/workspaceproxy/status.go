package workspaceproxy

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workspaceproxy/registration"
)

// statusOf returns the status that follows from the result of the pass. From the previous status it
// keeps only recorded values: the registration and the access URL if they are unknown, and the transition times.
func statusOf(s *scope) coderv1alpha1.CoderWorkspaceProxyStatus {
	status := *s.proxy.Status.DeepCopy()
	switch {
	case s.Deleting():
	case s.ServiceForeign, framework.InvalidName(&s.Pass) != "":
		status.URL, status.AccessURL = "", ""
	default:
		status.URL = resources.URL(s.Workload)
		// Without the names from spec.envFrom the access URL is unknown.
		if s.Outcome.Succeeded(framework.StepReferences) {
			status.AccessURL = resources.AccessURL(s.Workload)
		}
	}
	if result := s.registration; result != nil {
		status.ProxyID, status.ProxyName = result.ProxyID, result.ProxyName
		status.ProxyTokenSecretRef = result.TokenRef
		if result.Registered != nil {
			status.Registered = *result.Registered
		}
	}
	summary := framework.Summary{Works: "the proxy runs and is registered in Coder", Stalled: s.stalled, Deleting: s.waits}
	switch {
	case framework.InvalidName(&s.Pass) != "":
		summary.Parts = []metav1.Condition{s.ResourcesApplied()}
	case !s.Deleting():
		summary.Parts = framework.Parts(
			controlPlaneReady(s), registered(s), new(s.ResourcesApplied()), new(s.DeploymentAvailable()), s.Exposed(), s.MetricsExported())
	}
	if s.registration != nil && s.registration.State == registration.Unverified {
		summary.Beside = []string{coderv1alpha1.ConditionRegistered}
		summary.Works = "the proxy runs"
	}
	status.WorkloadStatus = s.Status(summary)
	return status
}

func registered(s *scope) *metav1.Condition {
	const kind = coderv1alpha1.ConditionRegistered
	result := s.registration
	switch {
	case result == nil:
		return new(framework.ConditionUnknown(kind, coderv1alpha1.ReasonReconciling, "the registration is not checked yet"))
	case result.State == ensure.Ready:
		return new(framework.ConditionTrue(kind, result.Reason, framework.Redact(result.Message)))
	case result.State == registration.Unverified:
		return new(framework.ConditionUnknown(kind, result.Reason, framework.Redact(result.Message)))
	}
	if cp := controlPlaneReady(s); cp != nil && cp.Status != metav1.ConditionTrue {
		return new(framework.ConditionUnknown(kind, coderv1alpha1.ReasonWaiting, "waiting for the control plane"))
	}
	return new(framework.ConditionFalse(kind, result.Reason, framework.Redact(result.Message)))
}

// stalled reports whether a user must act. A missing control plane or Secret may still be created.
func (s *scope) stalled(part *metav1.Condition) bool {
	switch part.Type {
	case coderv1alpha1.ConditionControlPlaneReady:
		return part.Reason == coderv1alpha1.ReasonOperatorAccessDisabled
	case coderv1alpha1.ConditionRegistered:
		return s.registration != nil && s.registration.State == ensure.Failed && part.Reason != coderv1alpha1.ReasonTokenSecretMissing
	}
	return false
}
