package backup

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

const (
	backupSuffix, deleteSuffix = "-backup", "-delete"

	// jobTTL is the time after which a Job is deleted. Its log remains as long.
	jobTTL int32 = 24 * 60 * 60
	// deletionLimit is the maximum time for which files that cannot be deleted delay the deletion of a
	// CoderBackup.
	deletionLimit = 5 * time.Minute
)

// Names of the steps in addition to those of package framework.
const (
	stepControlPlane = "control plane"
	stepJob          = "job"
	stepFiles        = "files"
)

// Reconciler reconciles CoderBackups. Use New to create one.
type Reconciler struct {
	kit *framework.Toolkit
}

// New creates the controller. Use SetupWithManager to register it.
func New(kit *framework.Toolkit) *Reconciler { return &Reconciler{kit: kit} }

// SetupWithManager registers the controller and its watches. It runs on the leader only.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr manager.Manager) error {
	return r.kit.SetUp(ctx, mgr, framework.Registration{
		Kind: kind(), Name: "coderbackup", For: &coderv1alpha1.CoderBackup{}, Reconciler: r,
		References:          func(client.Object) []resources.Reference { return nil },
		ControlPlane:        controlPlaneOf,
		ControlPlaneChanges: []predicate.Predicate{predicate.GenerationChangedPredicate{}},
	})
}

func controlPlaneOf(obj client.Object) *coderv1alpha1.ControlPlaneReference {
	return &obj.(*coderv1alpha1.CoderBackup).Spec.ControlPlaneRef
}

func kind() framework.Kind {
	return framework.Kind{Name: "CoderBackup", Noun: "backup", Finalizer: coderv1alpha1.FinalizerBackup}
}

// scope is the state of one reconciliation of one backup: the object itself and the results of the
// steps. The status is computed only from the scope.
type scope struct {
	framework.Pass
	backup *coderv1alpha1.CoderBackup
	// controlPlane is the control plane of the spec, or nil if there is none.
	controlPlane *coderv1alpha1.CoderControlPlane
	// run is the Job that makes the backup, or nil if it was not read.
	run *framework.JobRun
	// problem is why there is no Job, or no Backup of CloudNativePG, or nil.
	problem *framework.Problem
	// external is the status of the Backup of CloudNativePG, or nil if it was not read. late reports that the deadline for it is
	// over.
	external *cloudNativePGStatus
	late     bool
}

// Reconcile runs one pass.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	backup := &coderv1alpha1.CoderBackup{}
	if found, err := r.kit.Read(ctx, kind(), req, backup); !found {
		return ctrl.Result{}, err
	}
	// The shared part of a pass is about a workload, and a backup has none.
	w := resources.Workload{Name: backup.Name, Namespace: backup.Namespace, Spec: &coderv1alpha1.WorkloadSpec{}}
	s := &scope{backup: backup}
	s.Pass = r.kit.NewPass(kind(), backup, &coderv1alpha1.WorkloadStatus{
		Conditions: backup.Status.Conditions, ObservedGeneration: backup.Status.ObservedGeneration,
	}, w)
	s.Run(ctx, r.stepsFor(s))
	return r.kit.Finish(ctx, &s.Pass, func() *coderv1alpha1.WorkloadStatus {
		backup.Status = statusOf(s)
		return &coderv1alpha1.WorkloadStatus{Conditions: backup.Status.Conditions}
	}, 0)
}

func (r *Reconciler) stepsFor(s *scope) []framework.Step {
	if s.Deleting() {
		return []framework.Step{
			framework.NewStep(stepControlPlane, s, r.findControlPlane),
			framework.NewStep(stepFiles, s, r.deleteFiles, stepControlPlane),
			framework.NewStep(framework.StepRelease, &s.Pass, r.kit.Release, stepFiles),
		}
	}
	if ended(s.backup) {
		return nil
	}
	run := r.runJob
	if s.backup.Spec.Destination.CloudNativePG != nil {
		run = r.runCloudNativePG
	}
	return []framework.Step{
		framework.NewStep(framework.StepFinalizer, &s.Pass, r.kit.EnsureFinalizer),
		framework.NewStep(stepControlPlane, s, r.findControlPlane, framework.StepFinalizer),
		framework.NewStep(stepJob, s, run, stepControlPlane),
	}
}

func (r *Reconciler) findControlPlane(ctx context.Context, s *scope) (err error) {
	s.controlPlane, err = r.kit.ControlPlane(ctx, s.backup.Namespace, &s.backup.Spec.ControlPlaneRef)
	return err
}

// runJob makes the backup, or reads how far it is. Nothing else reports a pod that cannot start, so the
// step asks for another pass.
func (r *Reconciler) runJob(ctx context.Context, s *scope) error {
	if !s.hasControlPlane() {
		return nil
	}
	job, err := resources.DatabaseJob(s.controlPlane, resources.ControlPlane(s.controlPlane, r.kit.Cluster), s.jobSpec(resources.ModeBackup, backupSuffix))
	if err != nil {
		s.problem = &framework.Problem{Reason: coderv1alpha1.ReasonDatabaseUnsuitable, Message: err.Error()}
		return nil //nolint:nilerr // It is in the condition.
	}
	if s.run, err = r.kit.RunJob(ctx, &s.Pass, job); err != nil {
		if stop := ensure.Stopped(err); stop != nil {
			s.problem = &framework.Problem{Reason: stop.Reason, Message: stop.Message}
		}
		return err
	}
	if s.run.Ended == "" {
		return ensure.Waits(coderv1alpha1.ReasonBackupRunning, framework.PollInterval, "the backup runs")
	}
	return nil
}

// hasControlPlane reports whether there is a control plane, and sets the problem if not.
func (s *scope) hasControlPlane() bool {
	if s.controlPlane == nil {
		s.problem = &framework.Problem{Reason: coderv1alpha1.ReasonControlPlaneUnavailable, Message: fmt.Sprintf(
			"there is no CoderControlPlane %q in namespace %q; create it, or delete this backup", s.backup.Spec.ControlPlaneRef.Name, s.backup.Namespace)}
	}
	return s.controlPlane != nil
}

func (s *scope) jobSpec(mode resources.DatabaseJobMode, suffix string) resources.DatabaseJobSpec {
	spec := s.backup.Spec
	variables := map[string]string{"BACKUP_UID": string(s.backup.UID), "BACKUP_DIRECTORY": directoryOf(s.backup)}
	if mode == resources.ModeBackup {
		variables["BACKUP_NAMESPACE"], variables["BACKUP_NAME"] = s.backup.Namespace, s.backup.Name
		variables["BACKUP_CONTROL_PLANE"], variables["BACKUP_CODER_VERSION"] = s.controlPlane.Name, s.controlPlane.Status.Version
	}
	return resources.DatabaseJobSpec{
		Mode: mode, Name: coderv1alpha1.SuffixedName(s.backup.Name, suffix), Client: spec.DatabaseClient, Destination: spec.Destination,
		DeadlineSeconds: ptr.Deref(spec.ActiveDeadlineSeconds, 3600), TTLSeconds: ptr.To(jobTTL), Variables: variables,
	}
}

// directoryOf returns the directory of the files of a backup in its volume.
func directoryOf(backup *coderv1alpha1.CoderBackup) string {
	return backup.Spec.ControlPlaneRef.Name + "/" + backup.Name
}

// deleteFiles deletes the files with a Job, or the Backup of CloudNativePG, while the finalizer keeps the backup. If that is not
// possible, it delays the deletion until deletionLimit.
func (r *Reconciler) deleteFiles(ctx context.Context, s *scope) error {
	if s.backup.Spec.DeletionPolicy == coderv1alpha1.DeletionPolicyRetain || r.kit.LeavesChildren(&s.Pass) {
		return nil
	}
	timeLeft := s.DeletionTimeLeft(deletionLimit)
	why, err := r.tryDeleteFiles(ctx, s)
	switch {
	case err == nil && why == "":
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // The volume is deleted with the namespace, or outlives it as its owner has chosen.
	case err != nil && timeLeft > 0:
		return err
	case timeLeft > 0:
		s.problem = &framework.Problem{Reason: coderv1alpha1.ReasonDeleting, Message: why}
		return framework.WaitForDeletion(timeLeft, why)
	}
	if err != nil {
		why = framework.Redact(err.Error())
	}
	left := fmt.Sprintf("its files are not; delete the directory %q in ", directoryOf(s.backup))
	switch place := s.backup.Spec.Destination; {
	case place.CloudNativePG != nil:
		left = fmt.Sprintf("its Backup of CloudNativePG is not; delete it with kubectl delete backups.postgresql.cnpg.io -n %s %s", s.backup.Namespace, s.backup.Name)
	case place.S3 != nil:
		left += fmt.Sprintf("the bucket %q at %s, prefix %q", place.S3.Bucket, place.S3.Endpoint, place.S3.Prefix)
	case place.PersistentVolumeClaim != nil:
		left += fmt.Sprintf("the volume of PersistentVolumeClaim %q", place.PersistentVolumeClaim.ClaimName)
	}
	r.kit.Tell(&s.Pass, corev1.EventTypeWarning, coderv1alpha1.ReasonFilesLeftBehind, fmt.Sprintf("the backup is deleted, but %s: %s", left, why))
	return nil
}

// tryDeleteFiles returns an empty text if everything is deleted, or why it is not.
func (r *Reconciler) tryDeleteFiles(ctx context.Context, s *scope) (string, error) {
	if s.backup.Spec.Destination.CloudNativePG != nil {
		found, err := r.cloudNativePGBackup(ctx, s)
		if err == nil && found != nil {
			err = client.IgnoreNotFound(r.kit.Uncached.Delete(ctx, found, client.Preconditions{UID: new(found.GetUID())}))
			err = cloudNativePGTrouble(s.backup.Namespace, err)
		}
		stop := ensure.Stopped(err)
		if stop == nil {
			return "", err
		}
		if s.backup.Status.CloudNativePGBackupName == "" || stop.Reason != coderv1alpha1.ReasonCloudNativePGForbidden {
			return "", nil // There is no such Backup, or it is that of another owner.
		}
		return stop.Message, nil
	}
	// A running backup would write more files.
	if err := r.kit.DeleteJob(ctx, &s.Pass, coderv1alpha1.SuffixedName(s.backup.Name, backupSuffix)); err != nil {
		if stop := ensure.Stopped(err); stop != nil && stop.Reason != coderv1alpha1.ReasonNotOwned {
			return stop.Message, nil
		} else if stop == nil {
			return "", err
		}
	}
	cp := s.controlPlane
	if cp == nil {
		cp = &coderv1alpha1.CoderControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: s.backup.Namespace, Name: s.backup.Spec.ControlPlaneRef.Name}}
	}
	job, err := resources.DatabaseJob(cp, resources.ControlPlane(cp, r.kit.Cluster), s.jobSpec(resources.ModeDelete, deleteSuffix))
	if err != nil {
		return "", err
	}
	job.Spec.ActiveDeadlineSeconds = ptr.To(int64(deletionLimit.Seconds()))
	run, err := r.kit.RunJob(ctx, &s.Pass, job)
	switch {
	case ensure.Stopped(err) != nil:
		return ensure.Stopped(err).Message, nil //nolint:nilerr // It is in the message.
	case err != nil:
		return "", err
	case run.Ended == "Complete":
		return "", nil
	case run.Trouble != nil:
		return run.Trouble.Message, nil
	case run.Ended != "":
		return run.FailureOf(coderv1alpha1.ReasonBackupFailed).Message, nil
	}
	return fmt.Sprintf("Job %q deletes the files", job.Name), nil
}
