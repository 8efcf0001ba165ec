package provisioner

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// statusOf returns the status that follows from the result of the pass. From the previous status it
// keeps only recorded values: the URL, and the last known key, which is needed if the Secret is
// deleted.
func statusOf(s *scope) coderv1alpha1.CoderProvisionerStatus {
	status := *s.cr.Status.DeepCopy()
	if s.inputs.URL != "" {
		status.ControlPlaneURL = s.inputs.URL
	}
	if !s.Deleting() {
		setKey(s, &status)
	}
	summary := framework.Summary{Works: "the provisioners run, and their key works", Stalled: s.stalled, Deleting: s.waits}
	const typeEntitled = coderv1alpha1.ConditionExternalProvisionersEntitled
	switch {
	case s.Deleting():
	case framework.InvalidName(&s.Pass) != "":
		summary.Parts = []metav1.Condition{s.ResourcesApplied()}
	default:
		entitled := framework.ConditionUnknown(typeEntitled, coderv1alpha1.ReasonNotChecked, "not checked, because the operator creates no key")
		if resources.MakesKey(s.cr) {
			entitled = checked(typeEntitled, s.key.Entitled)
		}
		summary.Parts = framework.Parts(new(controlPlaneReady(s)), &entitled, new(keyReady(s)), new(secretReady(s)),
			new(s.ResourcesApplied()), new(s.DeploymentAvailable()), s.WorkspaceAccess(), s.MetricsExported())
	}
	if !resources.MakesKey(s.cr) {
		summary.Works = "the provisioners run; the operator does not check their credentials in Coder"
	}
	if s.key.Entitled.Status != metav1.ConditionFalse {
		// If the entitlement is unknown, the condition about the key contains a better message.
		summary.Beside = []string{typeEntitled}
	}
	status.WorkloadStatus = s.Status(summary)
	return status
}

// setKey writes the state of the key to the status. Unknown results keep the previous values.
func setKey(s *scope, status *coderv1alpha1.CoderProvisionerStatus) {
	if !resources.MakesKey(s.cr) {
		status.SecretRef = resources.KeySource(s.cr, nil)
		if s.replaced.Forgotten {
			status.ControlPlaneRefName, status.OrganizationID, status.OrganizationName = "", "", ""
			status.ProvisionerKeyID, status.ProvisionerKeyName, status.TagsHash = "", "", ""
		}
		return
	}
	if !s.Outcome.Succeeded(framework.StepFinalizer) {
		return
	}
	status.SecretRef = s.key.SecretRef
	r := s.key.Record
	if ref := s.cr.Spec.ControlPlaneRef; ref != nil && (s.key.Claimed || r != nil) {
		// As long as it is set, the API server rejects changes of the fields that identify the key.
		status.ControlPlaneRefName = ref.Name
	}
	if r == nil {
		return
	}
	if s.key.OrganizationID == r.OrganizationID {
		status.OrganizationName = s.key.OrganizationName
	} else if status.OrganizationID != r.OrganizationID {
		status.OrganizationName = ""
	}
	status.OrganizationID = r.OrganizationID
	status.ProvisionerKeyID, status.ProvisionerKeyName, status.TagsHash = r.ID, r.Name, r.TagsHash
}

func controlPlaneReady(s *scope) metav1.Condition {
	const kind = coderv1alpha1.ConditionControlPlaneReady
	ref := s.cr.Spec.ControlPlaneRef
	switch {
	case ref == nil:
		return framework.ConditionTrue(kind, coderv1alpha1.ReasonExternalURL, "the daemons belong to the Coder at "+s.cr.Spec.URL)
	case !s.Outcome.Succeeded(stepControlPlane):
		return framework.ConditionUnknown(kind, coderv1alpha1.ReasonReconciling, "the control plane is not checked yet")
	case s.cp == nil:
		return framework.ConditionFalse(kind, coderv1alpha1.ReasonControlPlaneUnavailable,
			fmt.Sprintf("CoderControlPlane %q does not exist in this namespace; create it, or correct spec.controlPlaneRef", ref.Name))
	case !s.cp.DeletionTimestamp.IsZero():
		return framework.ConditionFalse(kind, coderv1alpha1.ReasonControlPlaneUnavailable, fmt.Sprintf("CoderControlPlane %q is being deleted", ref.Name))
	case s.inputs.URL == "":
		return framework.ConditionFalse(kind, coderv1alpha1.ReasonControlPlaneUnavailable, fmt.Sprintf("CoderControlPlane %q has no URL yet", ref.Name))
	case s.key.ControlPlane != nil:
		return checked(kind, *s.key.ControlPlane)
	}
	return framework.ConditionTrue(kind, coderv1alpha1.ReasonControlPlaneAvailable, fmt.Sprintf("CoderControlPlane %q has the URL %s", ref.Name, s.inputs.URL))
}

func keyReady(s *scope) metav1.Condition {
	const kind = coderv1alpha1.ConditionProvisionerKeyReady
	problem := s.organizationProblem()
	switch {
	case problem != nil:
		return framework.ConditionFalse(kind, problem.Reason, problem.Message)
	case s.cr.Spec.PSKSecretRef != nil:
		return framework.ConditionTrue(kind, coderv1alpha1.ReasonPreSharedKey, "the daemons authenticate with the pre-shared key of spec.pskSecretRef"+s.remains())
	case !resources.MakesKey(s.cr):
		return framework.ConditionTrue(kind, coderv1alpha1.ReasonOwnKey, "the daemons authenticate with the key of spec.key.secretRef"+s.remains())
	}
	condition := checked(kind, s.key.Key)
	if condition.Status == metav1.ConditionTrue {
		condition.Message += s.remains()
	}
	return condition
}

// remains returns a text that names the keys that must still be deleted, or an empty string.
func (s *scope) remains() string {
	if len(s.replaced.Left) == 0 {
		return ""
	}
	text := fmt.Sprintf("; the old key %q is deleted when no pod uses it any more", s.replaced.Left[0].Name)
	if s.replaced.Key.Message != "" {
		text = fmt.Sprintf("; the old key %q is not deleted yet: %s", s.replaced.Left[0].Name, framework.Redact(s.replaced.Key.Message))
	}
	return text
}

func secretReady(s *scope) metav1.Condition {
	const kind = coderv1alpha1.ConditionProvisionerKeySecretReady
	switch source := resources.KeySource(s.cr, nil); {
	case source == nil:
		return checked(kind, s.key.Secret)
	case s.replaced.Secret.Status != "":
		return checked(kind, s.replaced.Secret)
	case s.missing != nil:
		return framework.ConditionFalse(kind, s.missing.Reason, s.missing.Message)
	case !s.Outcome.Succeeded(framework.StepReferences):
		return framework.ConditionUnknown(kind, coderv1alpha1.ReasonWaiting, "the Secret is not checked yet")
	default:
		return framework.ConditionTrue(kind, coderv1alpha1.ReasonSecretReady, fmt.Sprintf("Secret %q contains it in the key %q", source.Name, source.Key))
	}
}

// checked returns a condition without secrets, or one that says that it was not checked.
func checked(kind string, c metav1.Condition) metav1.Condition {
	if c.Status == "" {
		return framework.ConditionUnknown(kind, coderv1alpha1.ReasonReconciling, "not checked yet")
	}
	c.Message = framework.Redact(c.Message)
	return c
}

func (s *scope) stalled(part *metav1.Condition) bool {
	if part.Reason == coderv1alpha1.ReasonOrganizationNotSelectable {
		return true
	}
	ours := []string{
		coderv1alpha1.ConditionExternalProvisionersEntitled, coderv1alpha1.ConditionProvisionerKeyReady,
		coderv1alpha1.ConditionProvisionerKeySecretReady,
	}
	return slices.Contains(ours, part.Type) && (s.key.Stalled || part.Reason == coderv1alpha1.ReasonNotEntitled)
}
