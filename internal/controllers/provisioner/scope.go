package provisioner

import (
	"fmt"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/provisioner/keys"
	"github.com/coder-k8s/coder-k8s/internal/controllers/provisioner/resources"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// scope is one provisioner during one pass: what it is, and what the steps saw.
// The status is computed from it alone.
type scope struct {
	workload.Pass
	// cr is the provisioner as the cluster has it, with the status of the last write.
	cr *coderv1alpha1.CoderProvisioner
	// cp is its control plane, or nil where there is none.
	cp *coderv1alpha1.CoderControlPlane
	// inputs is what the builders need besides the spec.
	inputs resources.Inputs

	// key is how the key stands that the operator makes, or nothing where it makes
	// none. replaced is how it stands with those of before, left with those of a
	// deletion.
	key, replaced, left keys.Result
	// missing is what keeps the daemons from logging in with what the spec names.
	missing *workload.Problem
	// waits says what a deletion waits for.
	waits string
}

// organizationProblem is an organization that daemons with a pre-shared key cannot
// work for, or nil: their program takes no organization beside such a key.
func (s *scope) organizationProblem() *workload.Problem {
	if s.cr.Spec.PSKSecretRef == nil || resources.OrganizationName(s.cr) == "default" {
		return nil
	}
	return &workload.Problem{Reason: coderv1alpha1.ReasonOrganizationNotSelectable, Message: fmt.Sprintf(
		"daemons with a pre-shared key work for the default organization, not for %q; remove spec.organizationName, or use a provisioner key",
		s.cr.Spec.OrganizationName)}
}

// missingReference tells of the Secret with which the daemons log in.
func (s *scope) missingReference(ref workloadresources.Reference, key string) *workload.Problem {
	source := resources.KeySource(s.cr, nil)
	if source == nil || ref.Kind != workloadresources.KindSecret || ref.Name != source.Name || key != "" && key != source.Key {
		return nil
	}
	field := "spec.key.secretRef"
	if s.cr.Spec.PSKSecretRef != nil {
		field = "spec.pskSecretRef"
	}
	message := fmt.Sprintf("Secret %q of %s does not exist; make it", ref.Name, field)
	if key != "" {
		message = fmt.Sprintf("Secret %q of %s has no key %q; add it", ref.Name, field, key)
	}
	s.missing = &workload.Problem{Reason: coderv1alpha1.ReasonSecretMissing, Message: message}
	return s.missing
}
