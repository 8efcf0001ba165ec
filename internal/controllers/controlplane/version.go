package controlplane

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/upgrade"
)

// decideVersion decides whether the pods get the image of the spec, and whether the old pods stop
// first. If the image is refused, the Deployment keeps its image, and all other steps go on. It runs
// before the steps that build the Deployment.
func decideVersion(_ context.Context, s *scope) error {
	facts := upgrade.FactsOf(s.cp)
	facts.Wanted = resources.WantedImage(s.Workload)
	if d := s.Current; d != nil {
		facts.Image = resources.ImageOf(s.Workload, &d.Spec.Template)
		// These pods were not asked yet: the Deployment was taken over, or the operator was away while they
		// became ready. status.version is that of other pods.
		if facts.Image != s.cp.Status.Image && workload.Serves(d) {
			facts.Running, s.versionComes = upgrade.Reference(facts.Image), !s.accessDisabled()
		}
		s.Workload.StopFirst = workload.StopsFirst(d)
	}
	decision := upgrade.Decide(facts)
	if decision.Reason == "" {
		s.Workload.StopFirst = s.Workload.StopFirst || decision.StopFirst
		return nil
	}
	s.refused = &workload.Problem{Reason: decision.Reason, Message: workload.Redact(decision.Message)}
	s.Workload.HeldImage = facts.Image
	if s.versionComes {
		return ensure.Waits(decision.Reason, workload.PollInterval, "waiting until Coder tells its version")
	}
	return nil
}

// versionAllowed returns a condition only if the image of the spec is refused.
func versionAllowed(s *scope) *metav1.Condition {
	if s.refused == nil {
		return nil
	}
	return new(workload.ConditionFalse(coderv1alpha1.ConditionVersionAllowed, s.refused.Reason, s.refused.Message))
}
