package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
	"github.com/coder-k8s/coder-k8s/internal/upgrade"
)

// checkUpgrade tries the new image, reads the schema, and decides whether a backup can be made. The old pods serve.
func (r *Reconciler) checkUpgrade(ctx context.Context, s *scope) error {
	schedule, err := r.backupSchedule(ctx, s)
	if err != nil {
		return err
	}
	if s.upgradeProblem, err = r.scheduleProblem(ctx, s, schedule); err != nil {
		return err
	}
	if s.upgradeProblem != nil {
		// The old pods serve in that phase, also if they were stopped.
		s.enterPhase(coderv1alpha1.UpgradeWaitingForBackup)
		return nil
	}
	// The two Jobs run at the same time.
	cause, untried, imageErr := r.tryImage(ctx, s)
	if imageErr != nil && ensure.Stopped(imageErr) == nil {
		return imageErr
	}
	schema := schemaState{}
	if s.upgrade.SchemaBefore == 0 {
		if schema, err = r.readSchema(ctx, s, schedule); err != nil {
			return err
		}
		if s.upgradeProblem = s.databaseUnsuitable(&schema); s.upgradeProblem != nil {
			if s.phaseLasted(schemaLimit / 2) {
				// New Jobs look again, before the limit counts and before Kubernetes deletes these.
				s.enterPhase(coderv1alpha1.UpgradeChecking)
			}
			return nil
		}
		s.upgrade.SchemaBefore = schema.version
	}
	switch {
	case imageErr != nil:
		return imageErr
	case cause != "":
		s.note("%s", cause)
		if !s.Available() {
			s.enterPhase(coderv1alpha1.UpgradeReverting)
			return nil
		}
		s.note("no pod was stopped")
		s.enterPhase(coderv1alpha1.UpgradeReverted)
		return nil
	}
	r.endChecks(s, schedule != nil, untried, schema.unknown)
	if s.upgrade.Phase == coderv1alpha1.UpgradeStoppingProvisioners {
		return r.awaitProvisioners(ctx, s) // Most control planes have none.
	}
	return nil
}

// databaseUnsuitable returns why the database must not be upgraded, or nil.
func (s *scope) databaseUnsuitable(schema *schemaState) *framework.Problem {
	message := ""
	switch server := upgrade.PostgreSQL(s.facts, schema.server); {
	case schema.dirty:
		message = fmt.Sprintf("a migration of Coder has failed half way (%d dirty in table schema_migrations), so the image %q is not started; restore a backup, or repair the database",
			schema.version, s.upgrade.ToImage)
	case server.Result == upgrade.Failed:
		message = server.Name + ": " + server.Message
	default:
		return nil
	}
	return &framework.Problem{Reason: coderv1alpha1.ReasonDatabaseUnsuitable, Message: message}
}

// endChecks ends the phase Checking: the upgrade goes on, or waits for a backup of another tool. untried and unknown say why
// the image was not tried and why the schema was not read.
func (r *Reconciler) endChecks(s *scope, scheduled bool, untried, unknown string) {
	u, backup := s.upgrade, upgrade.PolicyOf(s.cp).Backup
	name := ""
	switch {
	case backup == coderv1alpha1.UpgradeBackupExternal:
		if name, _ = s.externalBackup(); name == "" {
			s.enterPhase(coderv1alpha1.UpgradeWaitingForBackup)
			return
		}
	case u.StoppedAt != nil:
		name = u.ExternalBackup
	}
	u.ExternalBackup = name
	if untried != "" {
		s.note("it is not known whether the image works, because it could not be tried before the old pods stopped (%s)", untried)
	}
	switch {
	case backup == coderv1alpha1.UpgradeBackupExternal:
	case backup == coderv1alpha1.UpgradeBackupNever:
		s.note("spec.upgrade.backup is Never, so there is no backup of this upgrade")
	case scheduled:
		u.Backup = fmt.Sprintf("%s-upgrade-%d", s.cp.Name, u.StartedAt.Unix())
	default:
		s.note("there is no backup of this upgrade, because no CoderBackupSchedule names the control plane")
		r.kit.Tell(&s.Pass, corev1.EventTypeWarning, coderv1alpha1.ReasonUpgradeWithoutBackup, u.Message)
	}
	if unknown != "" && u.Backup == "" {
		s.note("the schema could not be read (%s), so the old image does not come back by itself", unknown)
	}
	s.enterPhase(coderv1alpha1.UpgradeStoppingProvisioners)
}

// externalBackup returns the backup of another tool, or says what is missing. If an earlier attempt has stopped the old Coder,
// its backup is still the newest that the old Coder can use.
func (s *scope) externalBackup() (name, missing string) {
	if u := s.upgrade; u.StoppedAt != nil && u.ExternalBackup != "" {
		return u.ExternalBackup, ""
	}
	return upgrade.ExternalBackup(s.cp, s.upgrade.ToImage)
}

// awaitBackupSource repeats the checks when a backup is named, or can be made, because the wait may have been long, or is not
// needed any more.
func (r *Reconciler) awaitBackupSource(ctx context.Context, s *scope) error {
	schedule, err := r.backupSchedule(ctx, s)
	if err != nil {
		return err
	}
	if s.upgradeProblem, err = r.scheduleProblem(ctx, s, schedule); err != nil || s.upgradeProblem != nil {
		return err
	}
	if name, _ := s.externalBackup(); name != "" || upgrade.PolicyOf(s.cp).Backup != coderv1alpha1.UpgradeBackupExternal {
		s.enterPhase(coderv1alpha1.UpgradeChecking)
		if s.upgrade.StoppedAt == nil {
			s.upgrade.SchemaBefore = 0 // It is read again.
		}
	}
	return nil
}

// scheduleProblem returns why the CoderBackupSchedule of the control plane makes no backup for the upgrade, or nil. What the
// operator cannot read is no problem.
func (r *Reconciler) scheduleProblem(ctx context.Context, s *scope, schedule *coderv1alpha1.CoderBackupSchedule) (*framework.Problem, error) {
	backup := upgrade.PolicyOf(s.cp).Backup
	switch {
	case schedule == nil && backup == coderv1alpha1.UpgradeBackupRequired:
		return &framework.Problem{Reason: coderv1alpha1.ReasonBackupUnavailable, Message: fmt.Sprintf(
			"spec.upgrade.backup is Required, and no CoderBackupSchedule in namespace %q names the control plane; the pods keep the image %q; create one, which may be suspended, or set another value",
			s.cp.Namespace, s.upgrade.FromImage)}, nil
	case schedule == nil, backup == coderv1alpha1.UpgradeBackupExternal, backup == coderv1alpha1.UpgradeBackupNever:
		return nil, nil
	}
	err := r.kit.MayBackUp(ctx, schedule, &schedule.Spec.Template)
	if stop := ensure.Stopped(err); stop != nil {
		return &framework.Problem{Reason: stop.Reason, Message: stop.Message}, nil //nolint:nilerr // It is in the condition.
	}
	if err != nil {
		return nil, err
	}
	check, err := upgrade.TryDestination(ctx, r.kit.Uncached, schedule)
	switch {
	case check.Result == upgrade.Failed:
		return &framework.Problem{Reason: coderv1alpha1.ReasonBackupUnavailable, Message: fmt.Sprintf(
			"the upgrade cannot make its backup: %s; the pods keep the image %q", framework.Redact(check.Message), s.upgrade.FromImage)}, nil
	case err != nil && !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err):
		return nil, fmt.Errorf("checking the destination of the backup: %w", err)
	}
	return nil, nil
}

// tryImage runs a program of the new image that serves nobody, so that a node has pulled the image. cause says why the image
// does not work, and untried why that is not known. The error is a Stop until the Job has ended.
func (r *Reconciler) tryImage(ctx context.Context, s *scope) (cause, untried string, err error) {
	job := resources.ImageJob(s.cp, s.Workload, coderv1alpha1.SuffixedName(s.cp.Name, fmt.Sprintf("-image-%d", s.upgrade.PhaseStartedAt.Unix())))
	command := strings.Join(job.Spec.Template.Spec.Containers[0].Command, " ")
	// Another program of the spec may come from an init container, which the Job lacks, and may not know the subcommand.
	ofCoder := command == resources.CoderVersionCommand
	run, err := r.kit.RunJob(ctx, &s.Pass, job)
	switch {
	case err != nil && s.phaseLasted(upgradePatience):
		return "", err.Error(), nil
	case err != nil:
		return "", "", err
	case run.Ended == batchv1.JobComplete:
		return r.otherVersion(ctx, s, run), "", nil
	case run.Ended == batchv1.JobFailed:
		failure := fmt.Sprintf("%q fails in image %q: %s", command, s.upgrade.ToImage, failureOf(run))
		if !ofCoder {
			return "", failure, nil
		}
		return failure, "", nil
	case run.Trouble != nil && s.phaseLasted(upgradePatience):
		// There is room when the old pods have stopped.
		if run.Trouble.Reason == coderv1alpha1.ReasonUnschedulable || run.Trouble.Reason != coderv1alpha1.ReasonImagePullFailed && !ofCoder {
			return "", run.Trouble.Message, nil
		}
		return run.Trouble.Message, "", nil
	case s.phaseLasted(schemaLimit) && slices.ContainsFunc(run.Pods, notStarted):
		return fmt.Sprintf("image %q was not pulled and started within %s by Job %q", s.upgrade.ToImage, schemaLimit, run.Job.Name), "", nil
	case s.phaseLasted(schemaLimit):
		return "", fmt.Sprintf("Job %q has no pod, or does not end, within %s", run.Job.Name, schemaLimit), nil
	}
	return "", "", ensure.Waits(coderv1alpha1.ReasonReconciling, framework.PollInterval, "Job %q tries the image", job.Name)
}

// notStarted reports whether Coder's container of a pod has not started, as far as its node reports.
func notStarted(pod corev1.Pod) bool {
	return !slices.ContainsFunc(podproblem.Containers(&pod), func(c corev1.ContainerStatus) bool {
		return c.Name == resources.ControlPlaneContainer && (c.State.Running != nil || c.State.Terminated != nil)
	})
}

// failureOf returns the exit code and the last line of the newest container of a Job that failed.
func failureOf(run *framework.JobRun) string {
	for _, pod := range slices.Backward(run.Pods) {
		for _, status := range podproblem.Containers(&pod) {
			if ended := podproblem.LastTermination(&status); ended != nil && ended.ExitCode != 0 {
				return strings.TrimSuffix(fmt.Sprintf("exit code %d: %s", ended.ExitCode, framework.Quote(podproblem.LastLine(ended.Message))), ": ")
			}
		}
	}
	return fmt.Sprintf("see kubectl logs -n %s job/%s", run.Job.Namespace, run.Job.Name)
}

// otherVersion returns a text if the image contains another minor version of Coder than its tag says.
func (r *Reconciler) otherVersion(ctx context.Context, s *scope, run *framework.JobRun) string {
	for _, pod := range run.Pods {
		text, err := r.kit.Logs(ctx, framework.LogRequest{Namespace: pod.Namespace, Pod: pod.Name, Container: resources.ControlPlaneContainer})
		words := strings.Fields(text) // For example "Coder v2.36.1".
		if err == nil && len(words) > 1 && upgrade.Differ(words[1], upgrade.Reference(s.upgrade.ToImage)) {
			return fmt.Sprintf("image %q contains Coder %s, which is not the version in its tag", s.upgrade.ToImage, framework.Quote(words[1]))
		}
	}
	return ""
}

// backupSchedule returns the schedule of the control plane, or nil.
func (r *Reconciler) backupSchedule(ctx context.Context, s *scope) (*coderv1alpha1.CoderBackupSchedule, error) {
	list := &coderv1alpha1.CoderBackupScheduleList{}
	if err := r.kit.Client.List(ctx, list, client.InNamespace(s.cp.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the backup schedules: %w", err)
	}
	return upgrade.ScheduleOf(s.cp.Name, list.Items), nil
}

// schemaState is what a Job reads from the database.
type schemaState struct {
	// version is the number of the last migration, which is dirty if it has failed half way.
	version int64
	dirty   bool
	// server is the major version of PostgreSQL, or 0.
	server int64
	// unknown says why nothing could be read.
	unknown string
}

// readSchema reads the version of the schema with a Job, and with another one if that cannot reach the database, until the phase
// has lasted schemaLimit. The error is a Stop until one has ended for another reason.
func (r *Reconciler) readSchema(ctx context.Context, s *scope, schedule *coderv1alpha1.CoderBackupSchedule) (schemaState, error) {
	name := fmt.Sprintf("-schema-%d", s.upgrade.PhaseStartedAt.Unix())
	spec := resources.DatabaseJobSpec{
		Mode: resources.ModeSchema, Name: coderv1alpha1.SuffixedName(s.cp.Name, name),
		DeadlineSeconds: schemaJobLimit, TTLSeconds: ptr.To(schemaJobTTL),
	}
	if schedule != nil {
		spec.Client = schedule.Spec.Template.DatabaseClient
	}
	job, err := resources.DatabaseJob(s.cp, s.Workload, spec)
	if err != nil {
		return schemaState{unknown: err.Error()}, nil //nolint:nilerr // The upgrade goes on without it.
	}
	// Each attempt has its own name, so that a crash at any write repeats none, and the first ones say why there is another.
	run, err := r.kit.RunJob(ctx, &s.Pass, job)
	for attempt := 2; err == nil && s.databaseAway(run); attempt++ {
		job.Name = coderv1alpha1.SuffixedName(s.cp.Name, fmt.Sprintf("%s-%d", name, attempt))
		run, err = r.kit.RunJob(ctx, &s.Pass, job)
	}
	patience := upgradePatience
	if s.unreachable != "" {
		patience = schemaLimit
	}
	switch {
	case err != nil && s.phaseLasted(patience):
		return schemaState{unknown: cmp.Or(s.unreachable, err.Error())}, nil
	case err != nil:
		return schemaState{}, err
	case run.Ended == batchv1.JobComplete:
		text, dirty := strings.CutSuffix(run.Result["schemaVersion"], " dirty")
		schema := schemaState{
			version: resources.ResultNumber(map[string]string{"version": text}, "version"), dirty: dirty, server: resources.ResultNumber(run.Result, "serverVersion") / 10000,
		}
		if schema.version == 0 {
			schema.unknown = fmt.Sprintf("Job %q ended without a result", job.Name)
		}
		return schema, nil
	case run.Ended == batchv1.JobFailed:
		failure := run.FailureOf("", "")
		if failure.Reason == coderv1alpha1.ReasonDeadlineExceeded {
			failure.Message = fmt.Sprintf("Job %q was not complete within %d seconds", job.Name, schemaJobLimit)
		}
		return schemaState{unknown: failure.Message}, nil
	case run.Trouble != nil && s.phaseLasted(patience):
		return schemaState{unknown: cmp.Or(s.unreachable, run.Trouble.Message)}, nil
	case s.phaseLasted(schemaLimit):
		return schemaState{unknown: cmp.Or(s.unreachable, fmt.Sprintf("Job %q has not ended within %s", job.Name, schemaLimit))}, nil
	}
	return schemaState{}, ensure.Waits(coderv1alpha1.ReasonReconciling, framework.PollInterval, "Job %q reads the version of the schema", job.Name)
}

// databaseAway reports whether a Job has failed because it cannot reach the database. It records the cause, also while the Job
// still tries, until one has reached the database.
func (s *scope) databaseAway(run *framework.JobRun) bool {
	switch {
	case run.Ended != batchv1.JobComplete && run.Result["reason"] == coderv1alpha1.ReasonDatabaseUnreachable:
		s.unreachable = framework.Redact(run.Result["message"])
		return run.Ended == batchv1.JobFailed
	case run.Ended != "":
		s.unreachable = ""
	}
	return false
}
