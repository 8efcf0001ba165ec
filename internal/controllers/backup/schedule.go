package backup

import (
	"context"
	"fmt"
	"slices"
	"time"
	_ "time/tzdata" // The image of the operator has no time zones.

	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// keepFailed is the number of failed backups of a schedule that are kept.
const keepFailed = 3

const stepList, stepCreate, stepKeep = "list", "create", "keep"

// Scheduler reconciles CoderBackupSchedules. Use NewScheduler to create one.
type Scheduler struct {
	kit *framework.Toolkit
}

// NewScheduler creates the controller. Use SetupWithManager to register it.
func NewScheduler(kit *framework.Toolkit) *Scheduler { return &Scheduler{kit: kit} }

// SetupWithManager registers the controller and its watches. It runs on the leader only.
func (r *Scheduler) SetupWithManager(ctx context.Context, mgr manager.Manager) error {
	return r.kit.SetUp(ctx, mgr, framework.Registration{
		Kind: scheduleKind(), Name: "coderbackupschedule", For: &coderv1alpha1.CoderBackupSchedule{}, Reconciler: r,
		References: func(client.Object) []resources.Reference { return nil },
		Further: func(b *builder.Builder) {
			b.Watches(&coderv1alpha1.CoderBackup{}, handler.EnqueueRequestsFromMapFunc(scheduleOf))
		},
	})
}

func scheduleOf(_ context.Context, backup client.Object) []reconcile.Request {
	name := backup.GetLabels()[coderv1alpha1.LabelBackupSchedule]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: backup.GetNamespace(), Name: name}}}
}

func scheduleKind() framework.Kind {
	return framework.Kind{Name: "CoderBackupSchedule", Noun: "backup schedule"}
}

// scheduleScope is the state of one reconciliation of one schedule.
type scheduleScope struct {
	framework.Pass
	schedule *coderv1alpha1.CoderBackupSchedule
	// times are the times of the schedule, or nil if it is invalid.
	times   cron.Schedule
	zone    *time.Location
	invalid error
	// created is the time in the schedule of the backup that this pass created, or zero.
	created time.Time
	// backups are the backups of the schedule, newest first.
	backups []coderv1alpha1.CoderBackup
}

// Reconcile runs one pass.
func (r *Scheduler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	schedule := &coderv1alpha1.CoderBackupSchedule{}
	if found, err := r.kit.Read(ctx, scheduleKind(), req, schedule); !found {
		return ctrl.Result{}, err
	}
	if !schedule.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	w := resources.Workload{Name: schedule.Name, Namespace: schedule.Namespace, Spec: &coderv1alpha1.WorkloadSpec{}}
	s := &scheduleScope{schedule: schedule}
	s.Pass = r.kit.NewPass(scheduleKind(), schedule, &coderv1alpha1.WorkloadStatus{
		Conditions: schedule.Status.Conditions, ObservedGeneration: schedule.Status.ObservedGeneration,
	}, w)
	s.times, s.zone, s.invalid = parse(schedule.Spec, s.Now)
	s.Run(ctx, []framework.Step{
		framework.NewStep(stepList, s, r.list),
		framework.NewStep(stepCreate, s, r.create, stepList),
		framework.NewStep(stepKeep, s, r.keep, stepList),
	})
	makes := s.invalid == nil && !schedule.Spec.Suspend
	next := time.Duration(0)
	if makes {
		next = min(max(s.times.Next(s.Now.In(s.zone)).Sub(s.Now), time.Second), framework.RestInterval)
	}
	result, err := r.kit.Finish(ctx, &s.Pass, func() *coderv1alpha1.WorkloadStatus {
		schedule.Status = s.status()
		return &coderv1alpha1.WorkloadStatus{Conditions: schedule.Status.Conditions}
	}, next)
	if s.Outcome.Err == nil {
		m := framework.BackupMetrics{}
		since := schedule.CreationTimestamp.Time
		if last := s.lastOf(completed); last != nil {
			since = last.CreationTimestamp.Time
			m.Completed, m.Bytes = last.Status.CompletedAt.Time, last.Status.SizeBytes
			m.Took = m.Completed.Sub(last.Status.StartedAt.Time)
		}
		if makes {
			m.Due = s.times.Next(since.In(s.zone))
		}
		r.kit.Metrics.SetBackup(schedule.Namespace, schedule.Name, m)
	}
	return result, err
}

// parse returns the times of a schedule, of which at least one is after now, and its time zone.
func parse(spec coderv1alpha1.CoderBackupScheduleSpec, now time.Time) (cron.Schedule, *time.Location, error) {
	zone, err := time.LoadLocation(spec.TimeZone)
	if err != nil {
		return nil, nil, fmt.Errorf("spec.timeZone: %q is not the name of a time zone, such as Europe/Berlin", spec.TimeZone)
	}
	times, err := cron.ParseStandard(spec.Schedule)
	if err != nil {
		return nil, nil, fmt.Errorf("spec.schedule: %q is not a time in the form of cron: %w", spec.Schedule, err)
	}
	if _, relative := times.(cron.ConstantDelaySchedule); relative {
		return nil, nil, fmt.Errorf("spec.schedule: %q has no fixed times", spec.Schedule)
	}
	if times.Next(now).IsZero() {
		return nil, nil, fmt.Errorf("spec.schedule: %q has no day, such as 30 February", spec.Schedule)
	}
	return times, zone, nil
}

func (r *Scheduler) list(ctx context.Context, s *scheduleScope) error {
	list := &coderv1alpha1.CoderBackupList{}
	err := r.kit.Client.List(ctx, list, client.InNamespace(s.schedule.Namespace), client.MatchingLabels{coderv1alpha1.LabelBackupSchedule: s.schedule.Name})
	if err != nil {
		return fmt.Errorf("listing the backups of the schedule: %w", err)
	}
	s.backups = slices.DeleteFunc(list.Items, func(b coderv1alpha1.CoderBackup) bool { return !b.DeletionTimestamp.IsZero() })
	slices.SortFunc(s.backups, func(a, b coderv1alpha1.CoderBackup) int {
		if framework.Older(&a, &b) {
			return 1
		}
		return -1
	})
	return nil
}

// lastBetween returns the last time of a schedule after since and until now, or zero. It looks back twice as far with
// each step, so that it counts few times of a schedule that was not looked at for long.
func lastBetween(times cron.Schedule, since, now time.Time) time.Time {
	for back := time.Minute; ; back *= 2 {
		from := now.Add(-back)
		if from.Before(since) {
			from = since
		}
		var last time.Time
		for next := times.Next(from); !next.IsZero() && !next.After(now); next = times.Next(next) {
			last = next
		}
		if !last.IsZero() || !from.After(since) {
			return last
		}
	}
}

// create creates the backup that is due. Its name is that of the time, so that another leader creates no second one.
func (r *Scheduler) create(ctx context.Context, s *scheduleScope) error {
	if s.invalid != nil || s.schedule.Spec.Suspend {
		return nil //nolint:nilerr // It is in the condition.
	}
	since := s.schedule.CreationTimestamp.Time
	if last := s.schedule.Status.LastScheduleTime; last != nil {
		since = last.Time
	}
	at := lastBetween(s.times, since.In(s.zone), s.Now.In(s.zone))
	if at.IsZero() {
		return nil
	}
	running := func(b coderv1alpha1.CoderBackup) bool { return !ended(&b) }
	if slices.ContainsFunc(s.backups, running) {
		return nil // Its end starts another pass.
	}
	backup := &coderv1alpha1.CoderBackup{
		ObjectMeta: metav1.ObjectMeta{
			Name:   fmt.Sprintf("%s-%d", s.schedule.Name, at.Unix()/60),
			Labels: map[string]string{coderv1alpha1.LabelBackupSchedule: s.schedule.Name, coderv1alpha1.LabelManagedBy: coderv1alpha1.ManagedBy},
		},
	}
	if err := r.kit.CreateBackup(ctx, s.schedule, backup); ensure.Stopped(err) != nil {
		return err
	} else if err != nil && !apierrors.IsAlreadyExists(err) {
		return framework.Settled(fmt.Errorf("creating CoderBackup %q: %w", backup.Name, err))
	}
	s.created = at
	return nil
}

// keep deletes the backups that are not kept any more.
func (r *Scheduler) keep(ctx context.Context, s *scheduleScope) error {
	if s.schedule.Spec.Suspend {
		return nil
	}
	left := map[coderv1alpha1.BackupPhase]int32{
		coderv1alpha1.BackupCompleted: ptr.Deref(s.schedule.Spec.KeepLast, 7), coderv1alpha1.BackupFailed: keepFailed,
	}
	for i := range s.backups {
		backup := &s.backups[i]
		if !ended(backup) {
			continue
		}
		if left[backup.Status.Phase]--; left[backup.Status.Phase] >= 0 {
			continue
		}
		err := r.kit.Client.Delete(ctx, backup, client.Preconditions{UID: &backup.UID, ResourceVersion: &backup.ResourceVersion})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return framework.Settled(fmt.Errorf("deleting CoderBackup %q: %w", backup.Name, err))
		}
		r.kit.Tell(&s.Pass, corev1.EventTypeNormal, coderv1alpha1.ReasonBackupDeleted, fmt.Sprintf("deleted CoderBackup %q, which is not kept any more", backup.Name))
	}
	return nil
}

// lastOf returns the newest backup that a function accepts, or nil.
func (s *scheduleScope) lastOf(accepts func(*coderv1alpha1.CoderBackup) bool) *coderv1alpha1.CoderBackup {
	for i := range s.backups {
		if accepts(&s.backups[i]) {
			return &s.backups[i]
		}
	}
	return nil
}

// ended reports whether a backup is complete or has failed, so that nothing changes it.
func ended(b *coderv1alpha1.CoderBackup) bool {
	return b.Status.Phase == coderv1alpha1.BackupCompleted || b.Status.Phase == coderv1alpha1.BackupFailed
}

func completed(b *coderv1alpha1.CoderBackup) bool {
	return b.Status.Phase == coderv1alpha1.BackupCompleted
}

func (s *scheduleScope) status() coderv1alpha1.CoderBackupScheduleStatus {
	status := *s.schedule.Status.DeepCopy()
	status.ObservedGeneration, status.NextScheduleTime = s.schedule.Generation, nil
	if !s.created.IsZero() {
		status.LastScheduleTime = ptr.To(metav1.NewTime(s.created.UTC()))
	}
	if last := s.lastOf(completed); last != nil {
		status.LastSuccessTime, status.LastSuccessfulBackup = last.Status.CompletedAt.DeepCopy(), last.Name
	}
	scheduled := framework.ConditionTrue(coderv1alpha1.ConditionScheduled, coderv1alpha1.ReasonScheduled, "backups are made by the schedule")
	switch {
	case s.invalid != nil:
		scheduled = framework.ConditionFalse(coderv1alpha1.ConditionScheduled, coderv1alpha1.ReasonInvalidSchedule, s.invalid.Error())
	case s.schedule.Spec.Suspend:
		scheduled = framework.ConditionTrue(coderv1alpha1.ConditionScheduled, coderv1alpha1.ReasonSuspended, "spec.suspend is set, so no backups are made")
	case ensure.Stopped(s.Outcome.Failed[stepCreate]) != nil:
		stop := ensure.Stopped(s.Outcome.Failed[stepCreate])
		scheduled = framework.ConditionFalse(coderv1alpha1.ConditionScheduled, stop.Reason, framework.Redact(stop.Message))
	case s.Outcome.Err != nil:
		scheduled = framework.ConditionFalse(coderv1alpha1.ConditionScheduled, coderv1alpha1.ReasonReconciling, framework.Redact(s.Outcome.Err.Error()))
	default:
		status.NextScheduleTime = ptr.To(metav1.NewTime(s.times.Next(s.Now.In(s.zone)).UTC()))
	}
	parts := []metav1.Condition{scheduled}
	const lastKind = coderv1alpha1.ConditionLastBackupCompleted
	switch last := s.lastOf(ended); {
	case last == nil:
	case completed(last):
		parts = append(parts, framework.ConditionTrue(lastKind, coderv1alpha1.ReasonBackupCompleted, "the last backup is complete"))
	default:
		parts = append(parts, framework.ConditionFalse(lastKind, coderv1alpha1.ReasonBackupFailed,
			fmt.Sprintf("CoderBackup %q failed; its conditions say why", last.Name)))
	}
	status.Conditions = s.Status(framework.Summary{
		Parts: parts, Beside: []string{coderv1alpha1.ConditionLastBackupCompleted}, Works: scheduled.Message,
		Stalled: func(*metav1.Condition) bool { return s.invalid != nil },
	}).Conditions
	return status
}
