package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/upgrade"
)

const (
	// upgradePatience is the time after which a problem of a pod ends a phase. A node pulls an image about
	// four times, and starts a container about five times, in that time.
	upgradePatience = 2 * time.Minute
	// migrationLimit is the time in which the new image must be ready. A pod without a problem may still
	// migrate; the startup probe allows as much.
	migrationLimit = 30 * time.Minute
	// stopLimit is the time in which pods must be gone, in addition to their grace period.
	stopLimit = 5 * time.Minute
	// schemaJobLimit and schemaJobTTL are the time in which the schema must be read, and the time after which
	// the Job is deleted. Nothing ends a Job that does not start, so schemaLimit ends the wait for it.
	schemaJobLimit int64 = 180
	schemaJobTTL   int32 = 600
	schemaLimit          = 10 * time.Minute
)

// planUpgrade decides whether an upgrade begins or is given up, and gives the Deployment the image and the
// number of pods of the current phase. A phase acts when it is recorded in the status, so that a crash at
// any write repeats it. It blocks the Deployment while the cache is stale.
func (r *Reconciler) planUpgrade(ctx context.Context, s *scope) error {
	before := s.cp.Status.Upgrade
	earlier := s.giveUpUpgrade()
	if s.upgrade == nil || s.upgrade.Phase == coderv1alpha1.UpgradeCompleted {
		s.beginUpgrade(earlier)
	}
	if r.kit.Behind(&s.Pass) {
		return staleUpgrade(s)
	}
	if runs(before) || runs(s.upgrade) {
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(coderv1alpha1.GroupVersion.WithKind(kind().Name))
		if err := r.kit.Live.Get(ctx, client.ObjectKeyFromObject(s.cp), live); err != nil {
			return fmt.Errorf("reading the control plane before its upgrade goes on: %w", err)
		}
		if live.ResourceVersion != s.cp.ResourceVersion {
			return staleUpgrade(s)
		}
	}
	s.actUpgrade()
	return nil
}

func staleUpgrade(s *scope) error {
	s.upgrade = s.cp.Status.Upgrade.DeepCopy()
	return ensure.Waits(coderv1alpha1.ReasonReconciling, framework.ConflictInterval, "the cache is older than the control plane")
}

// runs reports whether an upgrade has no result yet.
func runs(u *coderv1alpha1.UpgradeStatus) bool { return u != nil && u.FinishedAt == nil }

// giveUpUpgrade drops the upgrade if the spec asks for another image, or for another attempt. If the new
// image may have migrated the database, it returns that upgrade.
func (s *scope) giveUpUpgrade() *coderv1alpha1.UpgradeStatus {
	u := s.upgrade
	if u == nil || u.Phase == coderv1alpha1.UpgradeCompleted {
		return nil
	}
	migrates := slices.Contains([]coderv1alpha1.UpgradePhase{
		coderv1alpha1.UpgradeMigrating, coderv1alpha1.UpgradeVerifying, coderv1alpha1.UpgradeFailed,
	}, u.Phase)
	again := u.Phase == coderv1alpha1.UpgradeReverted && s.cp.Annotations[coderv1alpha1.AnnotationRetryUpgrade] == attempt(u)
	if upgrade.SameImage(u.ToImage, s.facts.Wanted) && !again && (s.refused == nil || migrates) {
		return nil
	}
	s.upgrade = nil
	if migrates {
		return u
	}
	return nil
}

// attempt identifies an upgrade, as the value of coder.com/retry-upgrade.
func attempt(u *coderv1alpha1.UpgradeStatus) string { return u.StartedAt.UTC().Format(time.RFC3339) }

// beginUpgrade begins an upgrade if the image of the spec goes through its phases. A Deployment without
// pods, which stays without them, gets the image at once. earlier is an upgrade that may have migrated the database, or nil:
// the old Coder has not run since.
func (s *scope) beginUpgrade(earlier *coderv1alpha1.UpgradeStatus) {
	wanted := resources.SpecReplicas(s.Workload)
	if !s.decision.Phases || s.Current == nil || wanted == 0 ||
		stopped(s.Current) && s.Current.Annotations[coderv1alpha1.AnnotationReplicas] == fmt.Sprint(wanted) && !runs(s.cp.Status.Upgrade) {
		return
	}
	now := metav1.NewTime(s.Now).Rfc3339Copy()
	s.upgrade = &coderv1alpha1.UpgradeStatus{
		Phase: coderv1alpha1.UpgradeChecking, FromVersion: s.facts.Running, FromImage: s.facts.Answered, ToImage: s.facts.Wanted,
		StartedAt: now, PhaseStartedAt: now,
	}
	if earlier != nil {
		s.upgrade.SchemaBefore, s.upgrade.StoppedAt, s.upgrade.ExternalBackup = earlier.SchemaBefore, earlier.StoppedAt, earlier.ExternalBackup
	}
}

// actUpgrade sets the image and the number of pods of the current phase.
func (s *scope) actUpgrade() {
	u, w := s.upgrade, &s.Workload
	phase := coderv1alpha1.UpgradeCompleted
	if u != nil {
		phase = u.Phase
	}
	switch phase {
	case coderv1alpha1.UpgradeChecking, coderv1alpha1.UpgradeWaitingForBackup, coderv1alpha1.UpgradeStoppingProvisioners:
		w.HeldImage = u.FromImage
		// The pods of another image that never answered must not run beside those of the old one. Pods that are stopped stay
		// so during the checks, and not while a backup is missing, unless that image may have migrated the database.
		other := !upgrade.SameImage(u.FromImage, resources.ImageOf(*w, &s.Current.Spec.Template))
		if none := ptr.Deref(s.Current.Spec.Replicas, 1) == 0; other || none && (phase != coderv1alpha1.UpgradeWaitingForBackup || u.StoppedAt != nil) {
			w.HeldReplicas = ptr.To[int32](0)
		}
	case coderv1alpha1.UpgradeStopping, coderv1alpha1.UpgradeBackingUp:
		w.HeldImage, w.HeldReplicas = u.FromImage, ptr.To[int32](0)
	case coderv1alpha1.UpgradeMigrating:
		w.HeldReplicas = ptr.To(min(1, resources.SpecReplicas(*w)))
	case coderv1alpha1.UpgradeVerifying:
		w.HeldReplicas = ptr.To[int32](0)
	case coderv1alpha1.UpgradeReverting, coderv1alpha1.UpgradeReverted:
		w.HeldImage = u.FromImage
	default:
		w.StopFirst = w.StopFirst || s.refused == nil && s.decision.StopFirst
	}
}

// advanceUpgrade looks for the end of the current phase. The next one acts in the next pass.
func (r *Reconciler) advanceUpgrade(ctx context.Context, s *scope) error {
	u := s.upgrade
	if u == nil {
		return nil
	}
	var err error
	phase := u.Phase
	if before := s.cp.Status.Upgrade; before == nil || !before.StartedAt.Equal(&u.StartedAt) {
		return ensure.Waits(coderv1alpha1.ReasonReconciling, framework.ConflictInterval, "the upgrade begins")
	}
	switch phase {
	case coderv1alpha1.UpgradeChecking:
		err = r.checkUpgrade(ctx, s)
	case coderv1alpha1.UpgradeWaitingForBackup:
		err = r.awaitBackupSource(ctx, s)
	case coderv1alpha1.UpgradeStoppingProvisioners:
		err = r.awaitProvisioners(ctx, s)
	case coderv1alpha1.UpgradeStopping:
		err = r.awaitStop(ctx, s)
	case coderv1alpha1.UpgradeBackingUp:
		err = r.awaitBackup(ctx, s)
	case coderv1alpha1.UpgradeMigrating, coderv1alpha1.UpgradeFailed:
		s.awaitMigration()
	case coderv1alpha1.UpgradeVerifying:
		err = r.verifySchema(ctx, s)
	case coderv1alpha1.UpgradeReverting:
		s.awaitRevert()
	}
	switch {
	case err != nil:
		return err
	case u.Phase != phase:
		return ensure.Waits(coderv1alpha1.ReasonReconciling, framework.ConflictInterval, "the upgrade goes on")
	case runs(u):
		return ensure.Waits(coderv1alpha1.ReasonReconciling, framework.PollInterval, "the upgrade is in the phase %s", phase)
	}
	return nil
}

// awaitRevert waits until the old image is available again.
func (s *scope) awaitRevert() {
	u := s.upgrade
	switch {
	case s.Available():
		s.enterPhase(coderv1alpha1.UpgradeReverted)
	case s.Trouble != nil && s.Trouble.Reason == coderv1alpha1.ReasonDatabaseSchemaNewer && u.SchemaAfter != 0:
		// An earlier attempt has migrated the database. Without SchemaAfter the new image was not tried.
		s.note("Coder %s cannot use the database: %s", u.FromVersion, s.Trouble.Message)
		s.enterPhase(coderv1alpha1.UpgradeFailed)
	}
}

// resumeOrphaned starts the pods that an upgrade has stopped, if the Deployment stays when its control plane is deleted, because
// nothing else would. If another image may have migrated the database, none is started: the right one is not known. It does this
// once, so that the number of pods is the user's afterwards; the annotation records it.
func (r *Reconciler) resumeOrphaned(ctx context.Context, s *scope) error {
	u, d, wanted := s.cp.Status.Upgrade, &appsv1.Deployment{}, resources.SpecReplicas(s.Workload)
	if !runs(u) || !r.kit.LeavesChildren(&s.Pass) {
		return nil
	}
	err := r.kit.Live.Get(ctx, client.ObjectKey{Namespace: s.Workload.Namespace, Name: s.Workload.Name}, d)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	owner, replicas := metav1.GetControllerOf(d), ptr.Deref(d.Spec.Replicas, 1)
	migrating := u.Phase == coderv1alpha1.UpgradeMigrating
	// Before the phase Stopping, StoppedAt is that of an earlier attempt.
	early := slices.Contains([]coderv1alpha1.UpgradePhase{
		coderv1alpha1.UpgradeChecking, coderv1alpha1.UpgradeWaitingForBackup, coderv1alpha1.UpgradeStoppingProvisioners, coderv1alpha1.UpgradeStopping,
	}, u.Phase)
	unknown := !migrating && !upgrade.SameImage(u.FromImage, resources.ImageOf(s.Workload, &d.Spec.Template)) || early && u.StoppedAt != nil
	switch {
	case owner != nil && owner.UID != s.cp.UID, d.Annotations[coderv1alpha1.AnnotationReplicas] == "":
		return nil
	case replicas >= wanted, replicas > 0 && !migrating, u.Phase == coderv1alpha1.UpgradeWaitingForBackup && !unknown:
		return nil // The upgrade has stopped no pod.
	}
	if !unknown {
		replicas = wanted
	}
	if err := r.kit.LeaveDeployment(ctx, d, replicas); err != nil {
		return err
	}
	if unknown {
		r.kit.Tell(&s.Pass, corev1.EventTypeWarning, coderv1alpha1.ReasonOrphaned, fmt.Sprintf(
			"Deployment %q stays without pods: an image that does not work may have migrated the database; if table schema_migrations still has version %d, set image %q and scale it to %d, and otherwise restore a backup first",
			d.Name, u.SchemaBefore, u.FromImage, wanted))
	}
	return nil
}

func (s *scope) enterPhase(phase coderv1alpha1.UpgradePhase) {
	u := s.upgrade
	now := metav1.NewTime(s.Now).Rfc3339Copy()
	u.Phase, u.PhaseStartedAt, u.FinishedAt, s.unreachable = phase, now, nil, ""
	if slices.Contains([]coderv1alpha1.UpgradePhase{coderv1alpha1.UpgradeCompleted, coderv1alpha1.UpgradeReverted, coderv1alpha1.UpgradeFailed}, phase) {
		u.FinishedAt = &now
	}
}

// note adds a sentence to the message of the upgrade.
func (s *scope) note(format string, args ...any) {
	u := s.upgrade
	u.Message = strings.TrimPrefix(u.Message+"; "+framework.Redact(fmt.Sprintf(format, args...)), "; ")
}

// phaseLasted reports whether the current phase is older than a limit.
func (s *scope) phaseLasted(limit time.Duration) bool {
	return s.Now.Sub(s.upgrade.PhaseStartedAt.Time) >= limit
}

// podsGone reports whether no pod of Coder uses the database. late is a pod that did not stop in time, one of
// another image than the old one if there is any.
func (r *Reconciler) podsGone(ctx context.Context, s *scope) (gone bool, late *corev1.Pod, err error) {
	pods, err := r.kit.RunningPods(ctx, &s.Pass)
	grace := time.Duration(ptr.Deref(s.Deployment.Spec.Template.Spec.TerminationGracePeriodSeconds, 30)) * time.Second
	switch {
	case err != nil:
		return false, nil, err
	case len(pods) == 0:
		return stopped(s.Deployment), nil, nil
	case !s.phaseLasted(grace + stopLimit):
		return false, nil, nil
	}
	other := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return !s.hasOldImage(&pod) })
	return false, &pods[max(other, 0)], nil
}

func (s *scope) hasOldImage(pod *corev1.Pod) bool {
	return upgrade.SameImage(s.upgrade.FromImage, resources.ImageOf(s.Workload, &corev1.PodTemplateSpec{Spec: pod.Spec}))
}

// awaitProvisioners waits until the external provisioners, which their controller stops in this phase, have finished their jobs,
// but not longer than their grace period.
func (r *Reconciler) awaitProvisioners(ctx context.Context, s *scope) error {
	list := &coderv1alpha1.CoderProvisionerList{}
	if err := r.kit.Client.List(ctx, list, client.InNamespace(s.cp.Namespace)); err != nil {
		return fmt.Errorf("listing the provisioners: %w", err)
	}
	limit, running := stopLimit, ""
	for i := range list.Items {
		p := &list.Items[i]
		selected, err := labels.ConvertSelectorToLabelsMap(p.Status.Selector)
		if ref := p.Spec.ControlPlaneRef; ref == nil || ref.Name != s.cp.Name || len(selected) == 0 || err != nil {
			continue // It has no pods of this control plane.
		}
		pods, err := r.kit.PodsWith(ctx, p.Namespace, selected)
		if err != nil {
			return err
		}
		if len(pods) > 0 {
			limit, running = max(limit, time.Duration(resources.GracePeriodSeconds(p))*time.Second+stopLimit), p.Name
		}
	}
	switch limit = min(limit, upgrade.LongestHold-stopLimit); {
	case running != "" && !s.phaseLasted(limit):
		return nil
	case running != "":
		s.note("CoderProvisioner %q did not stop within %s, so its jobs may have failed", running, limit)
	}
	s.enterPhase(coderv1alpha1.UpgradeStopping)
	return nil
}

func (r *Reconciler) awaitStop(ctx context.Context, s *scope) error {
	gone, late, err := r.podsGone(ctx, s)
	switch {
	case err != nil:
	case late != nil && s.hasOldImage(late):
		s.note("pod %q does not stop; see its node, or delete it; nothing was changed", late.Name)
		s.enterPhase(coderv1alpha1.UpgradeReverting)
	case late != nil:
		s.upgradeProblem = &framework.Problem{Reason: coderv1alpha1.ReasonUpgradeStopping, Message: fmt.Sprintf(
			"pod %q of an earlier attempt does not stop, and may migrate the database, so no other pod starts; see its node, or delete it", late.Name)}
	case gone:
		next := coderv1alpha1.UpgradeMigrating
		if s.upgrade.Backup != "" {
			next = coderv1alpha1.UpgradeBackingUp
		}
		s.enterPhase(next)
		s.upgrade.StoppedAt = cmp.Or(s.upgrade.StoppedAt, &s.upgrade.PhaseStartedAt).DeepCopy()
	}
	return err
}

// awaitBackup creates the backup of the upgrade, and waits for it.
func (r *Reconciler) awaitBackup(ctx context.Context, s *scope) error {
	backup := &coderv1alpha1.CoderBackup{}
	err := r.kit.Live.Get(ctx, client.ObjectKey{Namespace: s.cp.Namespace, Name: s.upgrade.Backup}, backup)
	if apierrors.IsNotFound(err) {
		return r.createBackup(ctx, s)
	}
	if err != nil {
		return fmt.Errorf("reading CoderBackup %q: %w", s.upgrade.Backup, err)
	}
	complete := meta.FindStatusCondition(backup.Status.Conditions, coderv1alpha1.ConditionComplete)
	if complete == nil {
		complete = &metav1.Condition{Reason: coderv1alpha1.ReasonReconciling, Message: "the backup has not begun"}
	}
	// Nothing but this ends a Job that does not start.
	limit := time.Duration(ptr.Deref(backup.Spec.ActiveDeadlineSeconds, 3600))*time.Second + schemaLimit
	stuck := complete.Reason != coderv1alpha1.ReasonBackupRunning && s.phaseLasted(upgradePatience) || s.phaseLasted(limit)
	switch {
	case backup.Spec.ControlPlaneRef.Name != s.cp.Name:
		s.backupFailed("CoderBackup %q is that of another control plane", backup.Name)
	case !backup.DeletionTimestamp.IsZero():
		s.backupFailed("CoderBackup %q is being deleted", backup.Name)
	case backup.Status.Phase == coderv1alpha1.BackupCompleted:
		// The first number is that of the old image. An attempt with another image may have migrated since.
		s.upgrade.SchemaBefore = cmp.Or(s.upgrade.SchemaBefore, backup.Status.SchemaVersion)
		s.upgrade.ExternalBackup = cmp.Or(s.upgrade.ExternalBackup, backup.Status.CloudNativePGBackupName)
		if s.upgrade.SchemaBefore == 0 {
			s.note("the schema could not be read, so the old image does not come back by itself")
		}
		s.enterPhase(coderv1alpha1.UpgradeMigrating)
	case backup.Status.Phase == coderv1alpha1.BackupFailed, stuck:
		s.backupFailed("CoderBackup %q: %s", backup.Name, complete.Message)
	}
	return nil
}

func (s *scope) backupFailed(format string, args ...any) {
	s.note("there is no backup: "+format+"; nothing was changed", args...)
	s.enterPhase(coderv1alpha1.UpgradeReverting)
}

func (r *Reconciler) createBackup(ctx context.Context, s *scope) error {
	schedule, err := r.backupSchedule(ctx, s)
	if err != nil {
		return err
	}
	if schedule == nil {
		s.backupFailed("the CoderBackupSchedule of the control plane was deleted")
		return nil
	}
	backup := &coderv1alpha1.CoderBackup{ObjectMeta: metav1.ObjectMeta{
		Name: s.upgrade.Backup, Labels: map[string]string{coderv1alpha1.LabelManagedBy: coderv1alpha1.ManagedBy},
	}}
	err = r.kit.CreateBackup(ctx, schedule, backup)
	switch {
	case apierrors.IsAlreadyExists(err):
	case ensure.Stopped(err) != nil, apierrors.IsInvalid(err), apierrors.IsForbidden(err), err != nil && s.phaseLasted(upgradePatience):
		s.backupFailed("CoderBackup %q cannot be created: %v", backup.Name, err)
	case err != nil:
		return framework.Settled(fmt.Errorf("creating CoderBackup %q: %w", backup.Name, err))
	}
	return nil
}

// upgradeOf returns a request for the control plane of a backup or a schedule.
func upgradeOf(_ context.Context, obj client.Object) []reconcile.Request {
	name := ""
	switch typed := obj.(type) {
	case *coderv1alpha1.CoderBackup:
		name = typed.Spec.ControlPlaneRef.Name
	case *coderv1alpha1.CoderBackupSchedule:
		name = typed.Spec.ControlPlaneRef.Name
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}}}
}

// awaitMigration ends the upgrade if the new Coder responds, or takes it back if it does not work.
func (s *scope) awaitMigration() {
	u := s.upgrade
	cause := ""
	switch {
	case s.Available() && s.Deployment.Status.ReadyReplicas > 0 && (s.accessDisabled() || s.build != nil && !upgrade.Differ(s.build.Version, upgrade.Reference(u.ToImage))):
		if u.FinishedAt != nil {
			u.Message = "" // It failed before.
		}
		s.enterPhase(coderv1alpha1.UpgradeCompleted)
		return
	case u.Phase == coderv1alpha1.UpgradeFailed:
		return
	case s.Trouble != nil && s.phaseLasted(upgradePatience) && slices.Contains([]string{
		coderv1alpha1.ReasonImagePullFailed, coderv1alpha1.ReasonContainerConfigInvalid, coderv1alpha1.ReasonCrashLooping,
		coderv1alpha1.ReasonDatabaseSchemaNewer, coderv1alpha1.ReasonDatabaseUnreachable,
	}, s.Trouble.Reason):
		cause = s.Trouble.Message
	case !s.phaseLasted(migrationLimit):
		return
	case s.build != nil:
		cause = fmt.Sprintf("Coder %s responds, which is not the version of the image", s.build.Version)
	case s.Trouble != nil:
		cause = s.Trouble.Message
	default:
		cause = fmt.Sprintf("it was not ready within %s", migrationLimit)
	}
	s.note("%s", cause)
	if upgrade.PolicyOf(s.cp).OnFailure == coderv1alpha1.UpgradeHold || u.SchemaBefore == 0 {
		s.enterPhase(coderv1alpha1.UpgradeFailed)
		return
	}
	s.enterPhase(coderv1alpha1.UpgradeVerifying)
}

// verifySchema compares the schema with that before, when no pod uses the database.
func (r *Reconciler) verifySchema(ctx context.Context, s *scope) error {
	gone, late, err := r.podsGone(ctx, s)
	if late != nil {
		s.note("the schema was not read, because pod %q does not stop; see its node, or delete it", late.Name)
		s.enterPhase(coderv1alpha1.UpgradeFailed)
	}
	if !gone || err != nil {
		return err
	}
	schedule, err := r.backupSchedule(ctx, s)
	if err != nil {
		return err
	}
	schema, err := r.readSchema(ctx, s, schedule)
	if err != nil {
		return err
	}
	s.upgrade.SchemaAfter = schema.version
	switch {
	case schema.unknown != "":
		s.note("the schema could not be read: %s", schema.unknown)
		s.enterPhase(coderv1alpha1.UpgradeFailed)
	case schema.dirty:
		s.note("a migration of Coder has failed half way (%d dirty in table schema_migrations)", schema.version)
		s.enterPhase(coderv1alpha1.UpgradeFailed)
	case schema.version != s.upgrade.SchemaBefore:
		s.enterPhase(coderv1alpha1.UpgradeFailed)
	default:
		s.enterPhase(coderv1alpha1.UpgradeReverting)
	}
	return nil
}

// revertTrouble returns why the old image does not start again, or nil.
func (s *scope) revertTrouble() *framework.Problem {
	if s.upgrade.Phase != coderv1alpha1.UpgradeReverting || !s.phaseLasted(upgradePatience) {
		return nil
	}
	return s.Trouble
}

// upgraded returns a condition if there is an upgrade.
func (s *scope) upgraded() *metav1.Condition {
	u := s.upgrade
	if u == nil {
		return nil
	}
	to := upgrade.Reference(u.ToImage)
	if u.Phase == coderv1alpha1.UpgradeCompleted {
		message := fmt.Sprintf("Coder was upgraded from %s to %s", u.FromVersion, to)
		return new(framework.ConditionTrue(coderv1alpha1.ConditionUpgraded, coderv1alpha1.ReasonUpgradeCompleted, s.withNote(message)))
	}
	if problem := s.upgradeProblem; problem != nil {
		return new(framework.ConditionFalse(coderv1alpha1.ConditionUpgraded, problem.Reason, problem.Message))
	}
	reason, message := "", ""
	switch u.Phase {
	case coderv1alpha1.UpgradeChecking:
		reason, message = coderv1alpha1.ReasonUpgradeChecking, fmt.Sprintf("the upgrade from Coder %s to %s begins; the image is pulled and the version of the schema is read, and the old pods serve", u.FromVersion, to)
	case coderv1alpha1.UpgradeWaitingForBackup:
		reason, message = coderv1alpha1.ReasonUpgradeWaitingForBackup, fmt.Sprintf("the upgrade from Coder %s to %s waits for a backup, and the pods keep the image %q", u.FromVersion, to, u.FromImage)
		if _, missing := s.externalBackup(); upgrade.PolicyOf(s.cp).Backup == coderv1alpha1.UpgradeBackupExternal {
			message += "; " + missing
		}
	case coderv1alpha1.UpgradeStoppingProvisioners:
		reason, message = coderv1alpha1.ReasonUpgradeStoppingProvisioners, fmt.Sprintf("the external provisioners finish their jobs and stop, and the pods of Coder %s serve", u.FromVersion)
	case coderv1alpha1.UpgradeStopping:
		reason, message = coderv1alpha1.ReasonUpgradeStopping, fmt.Sprintf("the pods of Coder %s stop", u.FromVersion)
	case coderv1alpha1.UpgradeBackingUp:
		reason, message = coderv1alpha1.ReasonUpgradeBackingUp, fmt.Sprintf("CoderBackup %q is made while no pod of Coder runs", u.Backup)
	case coderv1alpha1.UpgradeMigrating:
		reason, message = coderv1alpha1.ReasonUpgradeMigrating, fmt.Sprintf("one pod of Coder %s starts, and migrates the database", to)
	case coderv1alpha1.UpgradeVerifying:
		reason, message = coderv1alpha1.ReasonUpgradeVerifying, fmt.Sprintf("Coder %s does not work; it is stopped, and the version of the schema is read", to)
	case coderv1alpha1.UpgradeReverting:
		reason, message = coderv1alpha1.ReasonUpgradeReverting, fmt.Sprintf("Coder %s starts again", u.FromVersion)
		if trouble := s.revertTrouble(); trouble != nil {
			message = fmt.Sprintf("Coder %s does not start again: %s; correct the cause, or set spec.image to an image that works; the upgrade was taken back", u.FromVersion, trouble.Message)
		}
	case coderv1alpha1.UpgradeReverted:
		reason, message = coderv1alpha1.ReasonUpgradeReverted, fmt.Sprintf("Coder %s runs, and the image %q is not tried again: set spec.image back or to another image, or repeat the attempt with the annotation %s: %q",
			u.FromVersion, u.ToImage, coderv1alpha1.AnnotationRetryUpgrade, attempt(u))
	case coderv1alpha1.UpgradeFailed:
		reason, message = coderv1alpha1.ReasonUpgradeFailed, fmt.Sprintf("Coder %s does not work, and the image stays; ", to)+s.wayBack()
	}
	if s.unreachable != "" {
		message += fmt.Sprintf("; %s; the operator has been trying since %s, and gives up after %s", s.unreachable, u.PhaseStartedAt.UTC().Format(time.RFC3339), schemaLimit)
	}
	return new(framework.ConditionFalse(coderv1alpha1.ConditionUpgraded, reason, s.withNote(message)))
}

func (s *scope) withNote(message string) string {
	if s.upgrade.Message == "" {
		return message
	}
	return message + ": " + s.upgrade.Message
}

// wayBack says what a user can do about a new image that does not work.
func (s *scope) wayBack() string {
	u := s.upgrade
	if u.SchemaAfter == 0 || u.SchemaAfter == u.SchemaBefore {
		return fmt.Sprintf("correct the cause, or set spec.image to %q: if the database was migrated, that Coder does not start, and changes nothing", u.FromImage)
	}
	restore := "there is no backup of this upgrade"
	switch {
	case u.ExternalBackup != "":
		restore = "or " + upgrade.RestoreExternal(u)
	case u.Backup != "":
		restore = fmt.Sprintf("or create an empty database and set, in one change, spec.database to it, spec.image: %q and spec.bootstrap.fromBackup.name: %q, as kubectl coder upgrade revert does", u.FromImage, u.Backup)
	}
	return fmt.Sprintf("it has migrated the database from schema %d to %d, so Coder %s cannot use it any more; correct the cause, %s", u.SchemaBefore, u.SchemaAfter, u.FromVersion, restore)
}
