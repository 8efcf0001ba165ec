package controlplane

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/upgrade"
)

// decideVersion decides whether the pods get the image of the spec, and whether the old pods stop
// first. If the image is refused, the Deployment keeps its image, and all other steps go on. It runs
// before the steps that build the Deployment.
func decideVersion(_ context.Context, s *scope) error {
	facts := upgrade.FactsOf(s.cp)
	facts.Wanted, facts.Overlapping = resources.WantedImage(s.Workload), s.overlapping
	if d := s.Current; d != nil {
		facts.Image = resources.ImageOf(s.Workload, &d.Spec.Template)
		if facts.Answered != "" && stopped(d) {
			facts.Image = facts.Answered // No pod ran with an image that the Deployment got since.
		}
		// These pods were not asked yet: the Deployment was taken over, or the operator was away while they
		// became ready. status.version is that of other pods.
		if facts.Image != s.cp.Status.Image && framework.Serves(d) {
			facts.Running, s.versionComes = upgrade.Reference(facts.Image), !s.accessDisabled()
		}
		// A rollout that stops the old pods first keeps its strategy until it is complete. With another one, Kubernetes would
		// start new pods while the old ones end.
		complete := framework.Serves(d) || framework.RolledOut(d) && ptr.Deref(d.Spec.Replicas, 1) == 0
		s.Workload.StopFirst = d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && !complete
	}
	s.facts, s.decision = facts, upgrade.Decide(facts)
	if s.decision.Reason == "" {
		return nil
	}
	s.refused = &framework.Problem{Reason: s.decision.Reason, Message: framework.Redact(s.decision.Message)}
	s.Workload.HeldImage = facts.Image
	if s.versionComes {
		return ensure.Waits(s.decision.Reason, framework.PollInterval, "waiting until Coder tells its version")
	}
	return nil
}

// stopped reports whether a Deployment has no pods, and none are wanted.
func stopped(d *appsv1.Deployment) bool {
	return ptr.Deref(d.Spec.Replicas, 1) == 0 && d.Status.ObservedGeneration >= d.Generation && d.Status.Replicas == 0
}

// versionAllowed returns a condition only if the image of the spec is refused.
func versionAllowed(s *scope) *metav1.Condition {
	if s.refused == nil {
		return nil
	}
	return new(framework.ConditionFalse(coderv1alpha1.ConditionVersionAllowed, s.refused.Reason, s.refused.Message))
}

// versionSupported returns the condition about the version that Coder reported last. A proxy or a
// Service with foreign pods may answer in place of the pods, so the message names their image if its
// tag is of another minor version.
func versionSupported(s *scope, status *coderv1alpha1.CoderControlPlaneStatus) *metav1.Condition {
	facts := upgrade.FactsOf(&coderv1alpha1.CoderControlPlane{Spec: s.cp.Spec, Status: *status})
	if facts.Running == "" {
		return nil
	}
	supported, reason, message := upgrade.Supported(facts.Running)
	if image := upgrade.Reference(facts.Image); s.build != nil && s.Deployment != nil && framework.Serves(s.Deployment) && upgrade.Differ(image, facts.Running) {
		message += fmt.Sprintf("; the pods have the image %s: if that is a version of Coder, something else answers at %s", image, s.url())
	}
	return new(framework.NewCondition(coderv1alpha1.ConditionVersionSupported, supported, reason, framework.Redact(message)))
}
