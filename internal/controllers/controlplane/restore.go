package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/upgrade"
)

const (
	// annotationGeneration on the Job of a restore is the generation of the control plane for which it
	// was created.
	annotationGeneration = "coder.com/generation"
	// annotationTarget, on the Job, is the backup that it restores, and the Secret and key of the database.
	annotationTarget = "coder.com/restore-target"
)

// restoreDatabase restores the backup of spec.bootstrap into the database, once, before the
// Deployment is created or gets this database. Until then the Deployment and everything that needs it waits.
func (r *Reconciler) restoreDatabase(ctx context.Context, s *scope) error {
	from := s.restoreSource()
	// Pods with the old database must not run beside those with the new one.
	s.Workload.StopFirst = s.Workload.StopFirst || from != nil && s.otherDatabase()
	if s.cp.Status.Restore != nil && (from == nil || restored(&s.cp.Status, from)) {
		// The result is recorded, so the Job is not needed any more.
		if err := r.kit.DeleteJob(ctx, &s.Pass, s.restoreJobName()); ensure.Stopped(err) == nil {
			return err
		}
		return nil
	}
	if from == nil {
		return nil
	}
	job, err := r.restoreJob(ctx, s, from)
	if err == nil {
		s.restore, err = r.kit.RunJob(ctx, &s.Pass, job)
	}
	switch stop := ensure.Stopped(err); {
	case stop != nil:
		s.restoreProblem = &framework.Problem{Reason: stop.Reason, Message: stop.Message}
		return err
	case err != nil:
		return err
	case s.restore.Job.Annotations[annotationTarget] != job.Annotations[annotationTarget]:
		// Its result is none of this restore. It restores in one transaction, so it can be ended at any time.
		s.restore = nil
		return cmp.Or(r.kit.DeleteJob(ctx, &s.Pass, job.Name), error(ensure.Waits(coderv1alpha1.ReasonRestoreRunning, framework.ConflictInterval, "the restore starts again")))
	case s.restore.Ended == batchv1.JobComplete:
		return nil
	case s.restore.Ended == batchv1.JobFailed && s.restore.Job.Annotations[annotationGeneration] != job.Annotations[annotationGeneration]:
		// The change of the spec may have removed the cause. A failed restore has changed nothing.
		return cmp.Or(r.kit.DeleteJob(ctx, &s.Pass, job.Name), error(ensure.Waits(coderv1alpha1.ReasonRestoreRunning, framework.ConflictInterval, "the restore starts again")))
	}
	if s.restore.Ended == batchv1.JobFailed {
		return ensure.Fails(coderv1alpha1.ReasonRestoreFailed, 0, "the restore failed") // A watch reports if the Job is deleted.
	}
	return ensure.Waits(coderv1alpha1.ReasonRestoreRunning, framework.PollInterval, "the database is not restored")
}

// restoreSource returns the backup of the spec, or nil.
func (s *scope) restoreSource() *coderv1alpha1.RestoreSpec {
	return ptr.Deref(s.cp.Spec.Bootstrap, coderv1alpha1.BootstrapSpec{}).FromBackup
}

// sourceName returns what status.restore.backup is after a restore. A rule of CoderControlPlane computes it too.
func sourceName(from *coderv1alpha1.RestoreSpec) string {
	files := from.Files
	switch {
	case files == nil:
		return from.Name
	case files.S3 != nil:
		return "s3://" + path.Join(files.S3.Bucket, files.S3.Prefix, files.Directory)
	}
	return files.PersistentVolumeClaim.ClaimName + "/" + files.Directory
}

// restored reports whether the restore of a backup is recorded.
func restored(status *coderv1alpha1.CoderControlPlaneStatus, from *coderv1alpha1.RestoreSpec) bool {
	return status.Restore != nil && status.Restore.Backup == sourceName(from)
}

// otherDatabase reports whether the Deployment has the URL of its database from another Secret than the spec names.
func (s *scope) otherDatabase() bool {
	if s.Current == nil {
		return false
	}
	wanted, wantedKey, _ := s.cp.DatabaseSecret()
	name, key := resources.DatabaseSecretOf(s.Workload, &s.Current.Spec.Template)
	return wanted != "" && name != "" && (wanted != name || wantedKey != key)
}

func (s *scope) restoreJobName() string {
	return coderv1alpha1.SuffixedName(s.cp.Name, "-restore")
}

// restoreJob returns the Job that restores a backup, or a Stop if the backup cannot be restored yet.
func (r *Reconciler) restoreJob(ctx context.Context, s *scope, from *coderv1alpha1.RestoreSpec) (*batchv1.Job, error) {
	image := resources.WantedImage(s.Workload)
	job := resources.DatabaseJobSpec{
		Mode: resources.ModeRestore, Name: s.restoreJobName(), Client: from.DatabaseClient, DeadlineSeconds: ptr.Deref(from.ActiveDeadlineSeconds, 3600),
		Variables: map[string]string{
			"BACKUP_UID": string(s.cp.UID), "RESTORE_IMAGE_VERSION": upgrade.Reference(image),
			"RESTORE_ALLOWED": strconv.FormatBool(upgrade.Allows(s.cp.Annotations[coderv1alpha1.AnnotationAllowVersion], image)),
		},
	}
	if files := from.Files; files != nil {
		job.Destination.PersistentVolumeClaim, job.Variables["BACKUP_DIRECTORY"] = files.PersistentVolumeClaim, files.Directory
		if files.S3 != nil {
			job.Destination.S3 = &coderv1alpha1.BackupS3{S3Bucket: *files.S3}
		}
	} else {
		backup, err := r.completeBackup(ctx, s.cp.Namespace, from.Name)
		if err != nil {
			return nil, err
		}
		job.Destination, job.Variables["BACKUP_DIRECTORY"], job.Variables["BACKUP_SHA256"] = backup.Spec.Destination, backup.Status.Directory, backup.Status.Checksum
		job.Client.Image = cmp.Or(job.Client.Image, backup.Spec.Image)
		job.Client.Resources = cmp.Or(job.Client.Resources, backup.Spec.Resources)
	}
	switch {
	case s.Current == nil:
	case !s.otherDatabase():
		if own, err := r.kit.OwnJob(ctx, &s.Pass, job.Name); own == nil {
			return nil, cmp.Or(err, error(ensure.Fails(coderv1alpha1.ReasonDatabaseNotEmpty, framework.RetryInterval,
				"spec.bootstrap restores a backup before Coder starts with a database for the first time, and Deployment %q has this one already: remove the field, or change spec.database to an empty database too", s.Current.Name)))
		}
	case s.Workload.HeldImage != "":
		// Another image than that of the spec would migrate the restored database.
		return nil, ensure.Fails(coderv1alpha1.ReasonDatabaseUnsuitable, framework.RetryInterval,
			"a backup is restored into another database only with an image that needs no upgrade: set spec.image to %q; see the conditions VersionAllowed and Upgraded", s.facts.Answered)
	}
	built, err := resources.DatabaseJob(s.cp, s.Workload, job)
	if err != nil {
		return nil, ensure.Fails(coderv1alpha1.ReasonDatabaseUnsuitable, 0, "%s", err.Error())
	}
	secret, key, _ := s.cp.DatabaseSecret()
	built.Annotations = map[string]string{
		annotationGeneration: strconv.FormatInt(s.cp.Generation, 10), annotationTarget: sourceName(from) + " " + secret + "/" + key,
	}
	return built, nil
}

// completeBackup returns a CoderBackup, or a Stop if it does not exist or is not complete.
func (r *Reconciler) completeBackup(ctx context.Context, namespace, name string) (*coderv1alpha1.CoderBackup, error) {
	backup := &coderv1alpha1.CoderBackup{}
	err := r.kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, backup)
	const reason = coderv1alpha1.ReasonBackupUnavailable
	switch {
	case apierrors.IsNotFound(err):
		return nil, ensure.Waits(reason, framework.PollInterval,
			"there is no CoderBackup %q in namespace %q; create it, or use spec.bootstrap.fromBackup.files for files of another cluster", name, namespace)
	case err != nil:
		return nil, fmt.Errorf("reading CoderBackup %q: %w", name, err)
	case backup.Spec.Destination.CloudNativePG != nil:
		return nil, ensure.Fails(coderv1alpha1.ReasonBackupUnusable, framework.RetryInterval,
			"CoderBackup %[1]q has no files, because CloudNativePG made it: restore its Backup %[1]q into a new Cluster with spec.bootstrap.recovery of that Cluster, and then set spec.database to it, without spec.bootstrap", name)
	case !backup.DeletionTimestamp.IsZero():
		return nil, ensure.Fails(reason, framework.RetryInterval, "CoderBackup %q is being deleted", name)
	case backup.Status.Phase == coderv1alpha1.BackupFailed:
		return nil, ensure.Fails(reason, framework.RetryInterval, "CoderBackup %q has failed, so there is nothing to restore", name)
	case backup.Status.Phase != coderv1alpha1.BackupCompleted:
		return nil, ensure.Waits(reason, framework.PollInterval, "waiting until CoderBackup %q is complete", name)
	}
	return backup, nil
}

// databaseRestored returns a condition if the spec asks for a restore.
func databaseRestored(s *scope, status *coderv1alpha1.CoderControlPlaneStatus) *metav1.Condition {
	const kind = coderv1alpha1.ConditionDatabaseRestored
	no := func(reason, message string) *metav1.Condition {
		return new(framework.ConditionFalse(kind, reason, message))
	}
	switch run := s.restore; {
	case s.restoreSource() == nil:
		return nil
	case restored(status, s.restoreSource()):
		return new(framework.ConditionTrue(kind, coderv1alpha1.ReasonRestored, fmt.Sprintf("the database was restored from the backup %q of Coder %s",
			status.Restore.Backup, cmp.Or(status.Restore.CoderVersion, "of an unknown version"))))
	case s.restoreProblem != nil:
		return no(s.restoreProblem.Reason, framework.Redact(s.restoreProblem.Message))
	case run == nil:
		return no(coderv1alpha1.ReasonRestoreRunning, "the database is not restored yet")
	case run.Ended == batchv1.JobFailed:
		found := run.FailureOf(coderv1alpha1.ReasonRestoreFailed, coderv1alpha1.ReasonClientTooOld, coderv1alpha1.ReasonDatabaseUnreachable,
			coderv1alpha1.ReasonDatabaseUnsuitable, coderv1alpha1.ReasonBackupUnusable, coderv1alpha1.ReasonDatabaseNotEmpty,
			coderv1alpha1.ReasonBucketUnsuitable, coderv1alpha1.ReasonDowngrade, coderv1alpha1.ReasonVersionUnknown)
		return no(found.Reason, fmt.Sprintf("the backup was not restored: %s; nothing is changed; delete the Job %q to try again, or change the spec", found.Message, run.Job.Name))
	case run.Trouble != nil:
		return no(run.Trouble.Reason, run.Trouble.Message)
	}
	return no(coderv1alpha1.ReasonRestoreRunning, fmt.Sprintf("Job %q restores the database", s.restoreJobName()))
}
