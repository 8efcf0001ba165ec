package provisioner

import (
	"fmt"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/provisioner/keys"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// scope is the state of one reconciliation of one provisioner: the object itself and the results of
// the steps. The status is computed only from the scope.
type scope struct {
	workload.Pass
	// cr is the provisioner as the cluster has it, with the status of the last write.
	cr *coderv1alpha1.CoderProvisioner
	// cp is its control plane, or nil if there is none.
	cp *coderv1alpha1.CoderControlPlane
	// inputs contains the values that the builders need in addition to the spec.
	inputs resources.ProvisionerInputs

	// key is the state of the key that the operator creates. It is empty if the operator creates
	// none. replaced is the state of the replaced keys, and left the state of the keys during a
	// deletion.
	key, replaced, left keys.Result
	// missing is the reason why the daemons cannot use the credentials of the spec.
	missing *workload.Problem
	// waits describes what a deletion waits for.
	waits string
}

// organizationProblem returns a problem if the spec combines an organization with a pre-shared key.
// The daemon does not accept an organization with such a key.
func (s *scope) organizationProblem() *workload.Problem {
	if s.cr.Spec.PSKSecretRef == nil || resources.OrganizationName(s.cr) == "default" {
		return nil
	}
	return &workload.Problem{Reason: coderv1alpha1.ReasonOrganizationNotSelectable, Message: fmt.Sprintf(
		"daemons with a pre-shared key work for the default organization, not for %q; remove spec.organizationName, or use a provisioner key",
		s.cr.Spec.OrganizationName)}
}

// missingReference returns a problem if the missing Secret contains the daemons' credentials.
func (s *scope) missingReference(ref resources.Reference, key string) *workload.Problem {
	source := resources.KeySource(s.cr, nil)
	if source == nil || ref.Kind != resources.KindSecret || ref.Name != source.Name || key != "" && key != source.Key {
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
