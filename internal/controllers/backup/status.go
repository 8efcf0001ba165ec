package backup

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// statusOf returns the status that follows from the result of the pass. The status of an ended
// backup does not change, except for its generation.
func statusOf(s *scope) coderv1alpha1.CoderBackupStatus {
	status := *s.backup.Status.DeepCopy()
	status.ObservedGeneration = s.backup.Generation
	if ended(s.backup) && !s.Deleting() {
		for i := range status.Conditions {
			status.Conditions[i].ObservedGeneration = s.backup.Generation
		}
		return status
	}
	var parts []metav1.Condition
	if !s.Deleting() {
		if s.backup.Spec.Destination.CloudNativePG == nil {
			status.Directory = directoryOf(s.backup)
		}
		if run := s.run; run != nil {
			status.StartedAt = run.Job.Status.StartTime.DeepCopy()
		}
		if s.external != nil {
			if status.CloudNativePGBackupName == "" {
				// The control plane may have another version when the backup is complete.
				status.CloudNativePGBackupName, status.CoderVersion = s.backup.Name, s.controlPlane.Status.Version
			}
			now := metav1.NewTime(s.Now).Rfc3339Copy()
			status.StartedAt = cmp.Or(s.external.StartedAt, status.StartedAt, &now).DeepCopy()
			if s.external.Phase == "completed" {
				status.CompletedAt = cmp.Or(s.external.StoppedAt, &now).DeepCopy()
			}
			if s.external.MajorVersion > 0 {
				status.PostgresVersion = strconv.Itoa(s.external.MajorVersion)
			}
		}
		complete := complete(s)
		parts = append(parts, complete)
		status.Phase = phaseOf(s, complete)
		if status.Phase == coderv1alpha1.BackupCompleted {
			setResult(s, &status)
			parts = append(parts, selfContained(s))
		}
	}
	works := "the backup is complete, and was read back"
	if s.external != nil {
		works = "the backup is complete"
	}
	summary := framework.Summary{
		Parts: parts, Beside: []string{coderv1alpha1.ConditionSelfContained}, Works: works,
		Stalled: func(*metav1.Condition) bool { return status.Phase == coderv1alpha1.BackupFailed },
	}
	if s.Deleting() && s.problem != nil {
		summary.Deleting = "until it is deleted where it is stored, for at most five minutes: " + s.problem.Message
	}
	status.Conditions = s.Status(summary).Conditions
	return status
}

func complete(s *scope) metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return framework.ConditionFalse(coderv1alpha1.ConditionComplete, reason, message)
	}
	switch {
	case s.backup.Spec.Destination.CloudNativePG != nil && s.controlPlane != nil:
		return completeExternally(s)
	case s.problem != nil:
		return no(s.problem.Reason, s.problem.Message)
	case s.run == nil:
		return no(coderv1alpha1.ReasonReconciling, "the Job is not created yet")
	case s.run.Ended == batchv1.JobComplete && s.run.Result["sha256"] == "":
		return no(coderv1alpha1.ReasonBackupFailed, fmt.Sprintf("Job %q ended without a result; it cannot be known whether the files are complete", s.run.Job.Name))
	case s.run.Ended == batchv1.JobComplete:
		return framework.ConditionTrue(coderv1alpha1.ConditionComplete, coderv1alpha1.ReasonBackupCompleted, "the backup is complete")
	case s.run.Ended == batchv1.JobFailed:
		found := s.run.FailureOf(coderv1alpha1.ReasonBackupFailed, coderv1alpha1.ReasonClientTooOld, coderv1alpha1.ReasonDatabaseUnreachable,
			coderv1alpha1.ReasonDatabaseUnsuitable, coderv1alpha1.ReasonVolumeUnsuitable, coderv1alpha1.ReasonBucketUnsuitable)
		return no(found.Reason, "the backup failed: "+found.Message)
	case s.run.Trouble != nil:
		return no(s.run.Trouble.Reason, s.run.Trouble.Message)
	}
	return no(coderv1alpha1.ReasonBackupRunning, fmt.Sprintf("Job %q makes the backup", s.run.Job.Name))
}

func phaseOf(s *scope, complete metav1.Condition) coderv1alpha1.BackupPhase {
	switch {
	case complete.Status == metav1.ConditionTrue:
		return coderv1alpha1.BackupCompleted
	case s.run != nil && s.run.Ended != "", s.externalFailed(), s.late:
		return coderv1alpha1.BackupFailed
	case s.run != nil, s.external != nil:
		return coderv1alpha1.BackupRunning
	}
	return coderv1alpha1.BackupPending
}

// setResult writes the result of the Job to the status.
func setResult(s *scope, status *coderv1alpha1.CoderBackupStatus) {
	// The Secrets to which the control plane refers, except that of its database.
	database, _ := s.controlPlane.Spec.Database.Secret()
	var names []string
	for _, reference := range framework.ReferencesOf(resources.ControlPlane(s.controlPlane, resources.Cluster{})) {
		if reference.Kind == resources.KindSecret && reference.Name != database {
			names = append(names, reference.Name)
		}
	}
	if ref := s.controlPlane.Spec.LicenseSecretRef; ref != nil {
		names = append(names, ref.Name)
	}
	slices.Sort(names)
	status.SecretNames = slices.Compact(names)
	if s.run == nil {
		return
	}
	result := s.run.Result
	status.CompletedAt = s.run.Job.Status.CompletionTime.DeepCopy()
	status.SizeBytes, status.Checksum = resources.ResultNumber(result, "size"), result["sha256"]
	status.CoderVersion, status.PostgresVersion = result["coderVersion"], result["postgresVersion"]
	status.SchemaVersion = resources.ResultNumber(result, "schemaVersion")
}

func selfContained(s *scope) metav1.Condition {
	const kind = coderv1alpha1.ConditionSelfContained
	if s.run == nil {
		return framework.ConditionUnknown(kind, coderv1alpha1.ReasonNotChecked,
			"the operator does not read a backup of CloudNativePG; if Coder encrypts tokens in the database (CODER_EXTERNAL_TOKEN_ENCRYPTION_KEYS), store the keys elsewhere")
	}
	switch keys := s.run.Result["encryptionKeys"]; keys {
	case "0":
		return framework.ConditionTrue(kind, coderv1alpha1.ReasonNothingEncrypted, "Coder has encrypted no tokens in the database")
	case "":
		return framework.ConditionUnknown(kind, coderv1alpha1.ReasonNotChecked, "this version of Coder does not list its encryption keys")
	}
	where := "the keys"
	for _, variable := range s.controlPlane.Spec.ExtraEnv {
		from := variable.ValueFrom
		if variable.Name == "CODER_EXTERNAL_TOKEN_ENCRYPTION_KEYS" && from != nil && from.SecretKeyRef != nil && from.SecretKeyRef.Name != "" {
			where = fmt.Sprintf("the keys in Secret %q", from.SecretKeyRef.Name)
			break
		}
	}
	return framework.ConditionFalse(kind, coderv1alpha1.ReasonEncryptionKeysNeeded, "Coder has encrypted tokens in the database, which cannot be read without "+where+
		" (CODER_EXTERNAL_TOKEN_ENCRYPTION_KEYS); they are not in the backup, so store them elsewhere, and not beside the dump")
}
