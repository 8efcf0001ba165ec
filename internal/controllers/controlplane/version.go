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
	template, err := resources.PodTemplate(s.Workload)
	if err != nil {
		// The step of the Deployment reports this error, and applies nothing.
		template = resources.PlainPodTemplate(s.Workload)
	}
	facts := upgrade.FactsOf(s.cp)
	// The image may also come from spec.podTemplate.
	facts.Wanted = resources.ImageOf(s.Workload, &template)
	if d := s.Current; d != nil {
		facts.Image = resources.ImageOf(s.Workload, &d.Spec.Template)
		// A Deployment that was taken over runs a Coder that was not asked yet.
		if facts.Running == "" && workload.Serves(d) {
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
