package controlplane

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	recordsv1alpha1 "github.com/coder-k8s/coder-k8s/api/records/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/upgrade"
)

// statusOf returns the status that follows from the result of the pass. From the previous status it
// keeps only recorded values: the prefix, the last known version, image and access URL, the reference
// to a token that no result contradicts, the last known licenses and grants, and the transition times.
func statusOf(s *scope) coderv1alpha1.CoderControlPlaneStatus {
	status := *s.cp.Status.DeepCopy()
	if s.ServiceForeign || framework.InvalidName(&s.Pass) != "" {
		status.URL, status.AccessURL = "", ""
	} else {
		status.URL = s.url()
		// Without the names from spec.envFrom the access URL is unknown, and another one would roll the pods of all proxies.
		if !s.Deleting() && s.Outcome.Succeeded(framework.StepReferences) {
			status.AccessURL = resources.AccessURL(s.Workload)
		}
	}
	// While pods of two versions run, the newer one has migrated the database.
	if s.build != nil && (!upgrade.Older(s.build.Version, status.Version) || framework.RolledOut(s.Deployment)) {
		status.Version = s.build.Version
	}
	if image := runningImage(s); image != "" {
		status.Image = image
	}
	status.ObjectNamePrefix = s.prefix
	from := s.restoreSource()
	if run := s.restore; run != nil && run.Ended == batchv1.JobComplete && !restored(&status, from) {
		status.Restore = &coderv1alpha1.RestoreStatus{
			Backup: sourceName(from), CompletedAt: run.Job.Status.CompletionTime.DeepCopy(),
			CoderVersion: run.Result["coderVersion"], SchemaVersion: resources.ResultNumber(run.Result, "schemaVersion"),
		}
	}
	status.Upgrade = s.upgrade
	// With StoppedAt, it is that of an earlier attempt.
	if u := s.upgrade; u != nil && (u.Phase == coderv1alpha1.UpgradeStoppingProvisioners || u.Phase == coderv1alpha1.UpgradeStopping) &&
		u.StoppedAt == nil && u.ExternalBackup != "" {
		status.LastExternalBackup = upgrade.Reference(u.ToImage) + "/" + u.ExternalBackup
	}
	setToken(s, &status)
	setEverServed(s, &status)
	if s.Granted != nil {
		status.WorkspaceNamespaces = s.Granted
	}
	status.IncompleteObjects = s.incomplete
	setLicense(s, &status)
	status.WorkloadStatus = s.Status(summary(s, &status))
	return status
}

// runningImage returns the image of the Coder that answers, or an empty string if that is
// uncertain. During a rollout, which may be paused or may fail, pods of two images run. Images are
// not compared, because a tag or digest does not determine the version, and because an adopted
// Deployment has an image that the spec does not name.
func runningImage(s *scope) string {
	d := s.Deployment
	answers := s.build != nil || s.accessDisabled()
	if d == nil || s.DeploymentForeign || !answers || !framework.Serves(d) {
		return ""
	}
	return resources.ImageOf(s.Workload, &d.Spec.Template)
}

func summary(s *scope, status *coderv1alpha1.CoderControlPlaneStatus) framework.Summary {
	sum := framework.Summary{
		Works: "Coder runs, and the operator has access to it", Stalled: s.stalled,
		Beside: []string{
			coderv1alpha1.ConditionHighAvailabilityEntitled, coderv1alpha1.ConditionDatabaseExclusive, coderv1alpha1.ConditionVersionSupported,
		},
	}
	switch {
	case framework.InvalidName(&s.Pass) != "":
		sum.Parts = []metav1.Condition{s.ResourcesApplied()}
	case !s.Deleting():
		// A condition may depend on those before it.
		sum.Parts = framework.Parts(
			databaseRestored(s, status), new(s.ResourcesApplied()), versionAllowed(s), s.upgraded(), versionSupported(s, status),
			new(s.DeploymentAvailable()), new(coderReachable(s)), new(operatorAccess(s)), new(served(s, status)), s.databaseExclusive(),
			licenseApplied(s, status), highAvailabilityEntitled(s, status), s.WorkspaceAccess(), s.Exposed(), s.MetricsExported(),
		)
	}
	if result := s.license.result; !s.licenseAsked() || result != nil && result.Reason == coderv1alpha1.ReasonNotSupported {
		// A Coder that does not support licenses works as well as it can, and a retry would not change that.
		sum.Beside = append(sum.Beside, coderv1alpha1.ConditionLicenseApplied)
	}
	if s.accessDisabled() {
		sum.Works = "Coder runs; spec.operatorAccess.disabled is set, so the operator does not call it"
		sum.Beside = append(sum.Beside, coderv1alpha1.ConditionCoderReachable, coderv1alpha1.ConditionOperatorAccess)
	}
	if s.unread == nil {
		sum.Beside = append(sum.Beside, coderv1alpha1.ConditionServed)
	}
	if err := s.Outcome.Failed[stepRevoke]; err != nil {
		sum.Deleting = framework.UntilDeleted("its token is revoked in Coder", err.Error())
	}
	return sum
}

// stalled reports whether a user must act.
func (s *scope) stalled(part *metav1.Condition) bool {
	if part.Reason == coderv1alpha1.ReasonDatabaseMissing || part.Reason == coderv1alpha1.ReasonDatabaseSchemaNewer {
		return true
	}
	switch part.Type {
	case coderv1alpha1.ConditionVersionAllowed:
		return !s.versionComes
	case coderv1alpha1.ConditionUpgraded:
		u := s.upgrade
		return s.upgradeProblem != nil || u != nil && (u.FinishedAt != nil || u.Phase == coderv1alpha1.UpgradeWaitingForBackup || s.revertTrouble() != nil)
	case coderv1alpha1.ConditionDatabaseRestored:
		stop := ensure.Stopped(s.Outcome.Failed[stepRestore])
		return stop != nil && stop.State == ensure.Failed
	case coderv1alpha1.ConditionOperatorAccess:
		return s.access != nil && s.access.State == ensure.Failed
	case coderv1alpha1.ConditionLicenseApplied:
		result := s.license.result
		return s.accessDisabled() || s.license.missing == nil && result != nil && result.State == ensure.Failed
	}
	return false
}

// setToken writes the state of the token to the status. If Coder does not answer, a token that it
// accepted before remains valid. If the Service belongs to another owner, the token counts as not
// ready, because nothing may be sent there.
func setToken(s *scope, status *coderv1alpha1.CoderControlPlaneStatus) {
	switch {
	case s.accessDisabled():
		status.OperatorAccessReady = false
		if s.access == nil && s.Outcome.Succeeded(stepRevoke) || s.access != nil && s.access.State == ensure.Ready {
			status.OperatorTokenSecretRef, status.OperatorTokenExpiresAt = nil, nil
		}
	case s.Deleting(), s.ServiceForeign, s.DeploymentForeign:
		status.OperatorAccessReady = false
	case s.access == nil:
	case s.access.TokenRef == nil && s.access.State == ensure.Waiting &&
		(s.access.Reason == coderv1alpha1.ReasonUnreachable || s.access.Reason == coderv1alpha1.ReasonWaiting):
		// Coder did not answer about the token.
	default:
		status.OperatorTokenSecretRef = s.access.TokenRef.DeepCopy()
		status.OperatorAccessReady = s.access.TokenRef != nil
		status.OperatorTokenExpiresAt = storedTime(s.access.ExpiresAt)
	}
}

// setEverServed records whether the aggregated API may have served the objects. The status of an
// older operator does not contain this. The value remains unknown until the token was ready once.
func setEverServed(s *scope, status *coderv1alpha1.CoderControlPlaneStatus) {
	before := &s.cp.Status
	switch {
	case status.OperatorAccessReady, before.OperatorAccessReady, before.OperatorTokenSecretRef != nil:
		status.EverServed = ptr.To(true)
	case before.EverServed == nil && (before.ObjectNamePrefix == nil || before.Version == ""):
		status.EverServed = ptr.To(false)
	}
}

func coderReachable(s *scope) metav1.Condition {
	const kind = coderv1alpha1.ConditionCoderReachable
	switch {
	case s.accessDisabled():
		return framework.ConditionUnknown(kind, coderv1alpha1.ReasonDisabled,
			"spec.operatorAccess.disabled is set, so the operator does not call Coder")
	case s.build != nil:
		return framework.ConditionTrue(kind, coderv1alpha1.ReasonReachable, fmt.Sprintf("Coder %s answers at %s", s.build.Version, s.url()))
	case s.coderErr != nil && s.justReady && coderd.IsUnreachable(s.coderErr):
		return framework.ConditionFalse(kind, coderv1alpha1.ReasonWaiting, "the pods are ready; waiting until the Service routes to them")
	case s.coderErr != nil:
		return framework.ConditionFalse(kind, coderv1alpha1.ReasonUnreachable, framework.Redact(s.coderErr.Error())+
			"; see the log of Coder, and check that NetworkPolicies allow the operator to reach its pods")
	case s.ServiceForeign, s.DeploymentForeign:
		return framework.ConditionUnknown(kind, coderv1alpha1.ReasonNotChecked,
			"not checked, because the Service or the Deployment belongs to another owner; see the condition ResourcesApplied")
	case s.Wanted() == 0:
		return framework.ConditionUnknown(kind, coderv1alpha1.ReasonScaledToZero, "Coder is scaled to 0, so no pod responds")
	}
	return framework.ConditionUnknown(kind, coderv1alpha1.ReasonWaiting, "waiting until a pod of Coder is ready")
}

func operatorAccess(s *scope) metav1.Condition {
	const kind = coderv1alpha1.ConditionOperatorAccess
	switch {
	case s.accessDisabled() && s.access != nil && s.access.State != ensure.Ready:
		return framework.ConditionFalse(kind, s.access.Reason, "the operator's token is not revoked yet: "+framework.Redact(s.access.Message))
	case s.accessDisabled():
		return framework.ConditionFalse(kind, coderv1alpha1.ReasonDisabled, "spec.operatorAccess.disabled is set")
	case s.access == nil:
		return framework.ConditionUnknown(kind, coderv1alpha1.ReasonWaiting, "waiting until Coder responds")
	case s.access.State == ensure.Ready:
		return framework.ConditionTrue(kind, s.access.Reason, framework.Redact(s.access.Message))
	}
	return framework.ConditionFalse(kind, s.access.Reason, framework.Redact(s.access.Message))
}

// readMirror reads whether the aggregated API has the objects of the control plane, and whether it is quarantined. Without a
// CoderMirrorState, which exists a second after the control plane, no replica runs the aggregated API. The
// CoderMirrorState may be that of an earlier control plane of the same name. A control plane that was
// served stays served while Coder or the aggregated API does not respond.
func (r *Reconciler) readMirror(ctx context.Context, s *scope) error {
	state := &recordsv1alpha1.CoderMirrorState{}
	err := r.kit.Client.Get(ctx, client.ObjectKeyFromObject(s.cp), state)
	uid := state.Spec.ControlPlaneUID
	other := uid != "" && uid != s.cp.UID
	unread := !state.Spec.Seen || other
	s.quarantined = err == nil && !other && state.Spec.State == "Quarantined"
	if err == nil && unread && !meta.IsStatusConditionTrue(s.Previous.Conditions, coderv1alpha1.ConditionServed) {
		s.unread = &state.Spec
	}
	if err == nil && uid == s.cp.UID {
		s.incomplete = state.Spec.Incomplete
	}
	return client.IgnoreNotFound(err)
}

func served(s *scope, status *coderv1alpha1.CoderControlPlaneStatus) metav1.Condition {
	const kind = coderv1alpha1.ConditionServed
	switch {
	case s.accessDisabled():
		return framework.ConditionFalse(kind, coderv1alpha1.ReasonDisabled, "spec.operatorAccess.disabled is set")
	case status.ObjectNamePrefix == nil:
		return framework.ConditionFalse(kind, coderv1alpha1.ReasonWaiting, "waiting until status.objectNamePrefix is set")
	case !status.OperatorAccessReady:
		return framework.ConditionFalse(kind, coderv1alpha1.ReasonWaiting, "waiting for the operator's access to Coder; see the condition OperatorAccess")
	case s.unread != nil:
		message := "waiting until the aggregated API has read the templates and workspaces for the first time"
		if s.unread.Message != "" {
			message += ": " + framework.Redact(s.unread.Message)
		}
		return framework.ConditionFalse(kind, coderv1alpha1.ReasonWaiting, message)
	case *status.ObjectNamePrefix == "":
		return framework.ConditionTrue(kind, coderv1alpha1.ReasonServed, "templates and workspaces are served; their names have no prefix")
	}
	return framework.ConditionTrue(kind, coderv1alpha1.ReasonServed,
		fmt.Sprintf("templates and workspaces are served; their names have the prefix %q", *status.ObjectNamePrefix))
}
