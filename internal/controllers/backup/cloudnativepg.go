package backup

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/upgrade"
)

// cloudNativePGStatus is what the operator reads of the status of a Backup of CloudNativePG.
type cloudNativePGStatus struct {
	Phase        string       `json:"phase"`
	Error        string       `json:"error"`
	CommandError string       `json:"commandError"`
	MajorVersion int          `json:"majorVersion"`
	StartedAt    *metav1.Time `json:"startedAt"`
	StoppedAt    *metav1.Time `json:"stoppedAt"`
}

// runCloudNativePG creates the Backup of CloudNativePG, or reads how far it is. The cluster may lack the kind, and the operator
// the permission, so nothing is watched or cached.
func (r *Reconciler) runCloudNativePG(ctx context.Context, s *scope) error {
	if !s.hasControlPlane() {
		return nil
	}
	found, err := r.cloudNativePGBackup(ctx, s)
	if err == nil && found == nil {
		if err = r.kit.MayBackUp(ctx, s.backup, &s.backup.Spec.BackupTemplate); err == nil {
			found = upgrade.NewCloudNativePGBackup(s.backup.Namespace, s.backup.Spec.Destination.CloudNativePG)
			found.SetName(s.backup.Name)
			found.SetAnnotations(map[string]string{coderv1alpha1.AnnotationBackupUID: string(s.backup.UID)})
			err = cloudNativePGTrouble(s.backup.Namespace, r.kit.Uncached.Create(ctx, found))
		}
	}
	if stop := ensure.Stopped(err); stop != nil {
		s.problem = &framework.Problem{Reason: stop.Reason, Message: stop.Message}
	} else if err != nil {
		return err
	}
	deadline := s.backup.CreationTimestamp.Add(time.Duration(ptr.Deref(s.backup.Spec.ActiveDeadlineSeconds, 3600)) * time.Second)
	s.late = !s.Now.Before(deadline)
	after := framework.RetryInterval
	if s.problem == nil {
		after, s.external = framework.PollInterval, &cloudNativePGStatus{}
		status, _, _ := unstructured.NestedMap(found.Object, "status")
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(status, s.external); err != nil {
			s.external, s.problem = nil, &framework.Problem{Reason: coderv1alpha1.ReasonCloudNativePGUnavailable, Message: fmt.Sprintf(
				"the status of the Backup %q of CloudNativePG cannot be read: %s", found.GetName(), framework.Quote(err.Error()))}
		}
	}
	if phase := phaseOf(s, complete(s)); phase == coderv1alpha1.BackupCompleted || phase == coderv1alpha1.BackupFailed {
		return nil
	}
	return ensure.Waits(coderv1alpha1.ReasonBackupRunning, min(after, max(deadline.Sub(s.Now), time.Second)), "CloudNativePG makes the backup")
}

// cloudNativePGBackup returns the Backup of CloudNativePG, or nil if it does not exist.
func (r *Reconciler) cloudNativePGBackup(ctx context.Context, s *scope) (*unstructured.Unstructured, error) {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(upgrade.CloudNativePGBackup)
	err := r.kit.Uncached.Get(ctx, client.ObjectKeyFromObject(s.backup), found)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, cloudNativePGTrouble(s.backup.Namespace, err)
	// Who may change a Backup, but not delete it, could write the annotation to one that exists already. Clocks may differ a little.
	case found.GetAnnotations()[coderv1alpha1.AnnotationBackupUID] != string(s.backup.UID),
		found.GetCreationTimestamp().Add(time.Minute).Before(s.backup.CreationTimestamp.Time):
		return nil, ensure.Waits(coderv1alpha1.ReasonNotOwned, framework.RetryInterval,
			"the Backup %q of CloudNativePG in namespace %q belongs to another owner and was not changed; delete it, or create a CoderBackup with another name", found.GetName(), found.GetNamespace())
	}
	return found, nil
}

// cloudNativePGTrouble returns a Stop for an error of a request about Backups of CloudNativePG that a user must correct.
func cloudNativePGTrouble(namespace string, err error) error {
	switch {
	case err == nil, apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return err
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return ensure.Waits(coderv1alpha1.ReasonCloudNativePGUnavailable, framework.RetryInterval,
			"the cluster does not serve backups.postgresql.cnpg.io in version v1; install CloudNativePG, or use another destination")
	case apierrors.IsForbidden(err):
		return ensure.Waits(coderv1alpha1.ReasonCloudNativePGForbidden, framework.RetryInterval,
			"the operator may not use backups.postgresql.cnpg.io in namespace %q; set the value backups.cloudNativePG of the Helm chart to true: %s", namespace, framework.Quote(err.Error()))
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return ensure.Waits(coderv1alpha1.ReasonCloudNativePGUnavailable, framework.RetryInterval, "CloudNativePG rejected the Backup: %s", framework.Quote(err.Error()))
	}
	return fmt.Errorf("the Backup of CloudNativePG: %w", err)
}

// externalFailed reports whether CloudNativePG has given up.
func (s *scope) externalFailed() bool {
	return s.external != nil && (s.external.Phase == "failed" || s.external.Phase == "invalid backup definition")
}

// completeExternally is complete for a backup by CloudNativePG.
func completeExternally(s *scope) metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return framework.ConditionFalse(coderv1alpha1.ConditionComplete, reason, message)
	}
	name, late := s.backup.Name, "it was not complete in time; raise activeDeadlineSeconds"
	switch status := s.external; {
	case status == nil && s.problem == nil:
		return no(coderv1alpha1.ReasonReconciling, "the Backup of CloudNativePG is not created yet")
	case status == nil && s.late:
		return no(coderv1alpha1.ReasonDeadlineExceeded, late+": "+s.problem.Message)
	case status == nil:
		return no(s.problem.Reason, s.problem.Message)
	case status.Phase == "completed":
		return framework.ConditionTrue(coderv1alpha1.ConditionComplete, coderv1alpha1.ReasonBackupCompleted, fmt.Sprintf("the Backup %q of CloudNativePG is complete", name))
	default:
		message := fmt.Sprintf("the Backup %q of CloudNativePG has the phase %q", name, framework.Quote(cmp.Or(status.Phase, "pending")))
		if cause := cmp.Or(status.Error, status.CommandError); cause != "" {
			message += ": " + framework.Quote(cause)
		}
		switch {
		case s.externalFailed():
			return no(coderv1alpha1.ReasonBackupFailed, "the backup failed: "+message)
		case s.late:
			return no(coderv1alpha1.ReasonDeadlineExceeded, late+": "+message)
		}
		return no(coderv1alpha1.ReasonBackupRunning, message)
	}
}
