package backup

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
)

type scheduleFixture struct {
	*controllertest.Fixture[*coderv1alpha1.CoderBackupSchedule]
	cloudNativePG
}

// newScheduleFixture returns the fixture of a schedule that was created at 12:00 UTC and runs each hour.
func newScheduleFixture(t *testing.T, change func(*coderv1alpha1.CoderBackupScheduleSpec)) *scheduleFixture {
	t.Helper()
	f := &scheduleFixture{Fixture: controllertest.New(t, controllertest.Options[*coderv1alpha1.CoderBackupSchedule]{
		Name: client.ObjectKey{Namespace: "coder", Name: "hourly"},
		Status: func(s *coderv1alpha1.CoderBackupSchedule) *coderv1alpha1.WorkloadStatus {
			return &coderv1alpha1.WorkloadStatus{Conditions: s.Status.Conditions}
		},
	})}
	schedule := &coderv1alpha1.CoderBackupSchedule{
		ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "hourly", UID: "schedule-uid", Generation: 1, CreationTimestamp: metav1.NewTime(f.Clock.Now())},
		Spec: coderv1alpha1.CoderBackupScheduleSpec{
			ControlPlaneRef: coderv1alpha1.ControlPlaneReference{Name: "dev"}, Schedule: "0 * * * *", KeepLast: ptr.To[int32](2), Template: newBackup().Spec.BackupTemplate,
		},
	}
	change(&schedule.Spec)
	f.Build(schedule)
	f.restart()
	return f
}

func (f *scheduleFixture) restart() {
	kit := framework.NewWith(f.Cluster, f.Cluster, f.Events, framework.Options{Clock: f.Clock, CheckAuthor: f.checkAuthor})
	kit.Uncached = f.around(f.Cluster, f.Clock.Now)
	f.Reconciler = NewScheduler(kit)
}

// backups returns the phases of the backups, by name.
func (f *scheduleFixture) backups() map[string]coderv1alpha1.BackupPhase {
	f.T.Helper()
	list := &coderv1alpha1.CoderBackupList{}
	f.List(list)
	phases := map[string]coderv1alpha1.BackupPhase{}
	for _, b := range list.Items {
		phases[b.Name] = b.Status.Phase
	}
	return phases
}

// end ends all backups that run.
func (f *scheduleFixture) end(phase coderv1alpha1.BackupPhase) {
	f.T.Helper()
	list := &coderv1alpha1.CoderBackupList{}
	f.List(list)
	for i := range list.Items {
		b := &list.Items[i]
		if b.Status.Phase != "" {
			continue
		}
		b.CreationTimestamp = metav1.NewTime(f.Clock.Now())
		f.Update(b)
		b.Status.Phase, b.Status.StartedAt, b.Status.CompletedAt = phase, ptr.To(metav1.NewTime(f.Clock.Now())), ptr.To(metav1.NewTime(f.Clock.Now()))
		f.UpdateStatus(b)
	}
	f.Settle()
}

func (f *scheduleFixture) mustHaveBackups(when string, names ...string) {
	f.T.Helper()
	got := f.backups()
	for _, name := range names {
		if _, ok := got[name]; !ok {
			f.T.Errorf("%s there is no backup %s: %v", when, name, got)
		}
	}
	if len(got) != len(names) {
		f.T.Errorf("%s the backups are %v, want %q", when, got, names)
	}
}

// at returns the name of the backup of a time on the first day.
func at(hour int) string {
	return fmt.Sprintf("hourly-%d", time.Date(2026, 11, 21, hour, 0, 0, 0, time.UTC).Unix()/60)
}

func TestSchedule(t *testing.T) {
	f := newScheduleFixture(t, func(*coderv1alpha1.CoderBackupScheduleSpec) {})
	if after := f.Settle().RequeueAfter; after != time.Hour {
		t.Errorf("the next pass is after %s", after)
	}
	f.mustHaveBackups("at first")
	f.MustBe("at first", controllertest.KstatusCurrent)

	f.Forward(time.Hour)
	f.Settle()
	f.mustHaveBackups("after an hour", at(13))
	f.restart()
	f.Settle()
	f.mustHaveBackups("with a new leader", at(13))

	f.Forward(time.Hour)
	f.Settle()
	f.mustHaveBackups("while one runs", at(13))
	f.end(coderv1alpha1.BackupCompleted)
	f.mustHaveBackups("after its end", at(13), at(14))
	f.MustHave("LastBackupCompleted", "True", coderv1alpha1.ReasonBackupCompleted)
	f.end(coderv1alpha1.BackupFailed)
	f.MustHave("LastBackupCompleted", "False", coderv1alpha1.ReasonBackupFailed)
	f.MustHave("Ready", "True", coderv1alpha1.ReasonReady)
	if got := f.Object().Status; got.LastSuccessfulBackup != at(13) || got.LastScheduleTime == nil || !got.NextScheduleTime.Equal(ptr.To(metav1.NewTime(f.Clock.Now().Add(time.Hour)))) {
		t.Errorf("the status is %+v", got)
	}

	f.Forward(3*time.Hour + time.Minute)
	f.restart()
	f.Settle()
	f.mustHaveBackups("after three missed times", at(13), at(14), at(17))
	f.end(coderv1alpha1.BackupCompleted)
	f.Forward(time.Hour)
	f.Settle()
	f.end(coderv1alpha1.BackupCompleted)
	f.mustHaveBackups("when two complete ones are kept", at(14), at(17), at(18))
	if f.Events.Count("Normal "+coderv1alpha1.ReasonBackupDeleted) != 1 {
		t.Errorf("the Events are %q", f.Events.All())
	}
}

// A crash after a backup was created, and before that was recorded, creates no second one.
func TestScheduleSurvivesACrash(t *testing.T) {
	for _, lost := range []bool{true, false} {
		f := newScheduleFixture(t, func(*coderv1alpha1.CoderBackupScheduleSpec) {})
		f.Settle()
		f.Forward(time.Hour)
		f.Fault.Set(1, lost)
		_, _ = f.Try()
		f.Fault.Set(0, false)
		f.restart()
		f.Settle()
		f.mustHaveBackups("after the crash", at(13))
	}
}

func TestSuspendedSchedule(t *testing.T) {
	f := newScheduleFixture(t, func(s *coderv1alpha1.CoderBackupScheduleSpec) { s.Suspend = true })
	f.Forward(5 * time.Hour)
	f.Settle()
	f.mustHaveBackups("while it is suspended")
	f.MustHave("Scheduled", "True", coderv1alpha1.ReasonSuspended)
	f.Edit(func(s *coderv1alpha1.CoderBackupSchedule) { s.Spec.Suspend = false })
	f.Settle()
	f.mustHaveBackups("afterwards", at(17))
}

func TestInvalidSchedule(t *testing.T) {
	for _, change := range []func(*coderv1alpha1.CoderBackupScheduleSpec){
		func(s *coderv1alpha1.CoderBackupScheduleSpec) { s.Schedule = "0 25 * * *" },
		// It would be looked for once a second.
		func(s *coderv1alpha1.CoderBackupScheduleSpec) { s.Schedule = "0 2 30 2 *" },
		func(s *coderv1alpha1.CoderBackupScheduleSpec) { s.Schedule = "@every 1s" },
		func(s *coderv1alpha1.CoderBackupScheduleSpec) { s.TimeZone = "Europe/Nowhere" },
	} {
		f := newScheduleFixture(t, change)
		f.Settle()
		if c := f.MustHave("Scheduled", "False", coderv1alpha1.ReasonInvalidSchedule); !strings.Contains(c.Message, "spec.") {
			t.Errorf("the message is %q", c.Message)
		}
		f.MustBe("with an invalid schedule", controllertest.KstatusFailed)
	}
}

func TestLastBetween(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	day := func(month time.Month, day, hour, minute int) time.Time {
		return time.Date(2026, month, day, hour, minute, 0, 0, berlin)
	}
	for _, test := range []struct {
		schedule         string
		since, now, want time.Time
	}{
		{"* * * * *", day(1, 1, 0, 0), day(11, 1, 0, 0), day(11, 1, 0, 0)},
		{"0 2 * * *", day(6, 1, 3, 0), day(6, 2, 1, 59), time.Time{}},
		{"0 2 * * *", day(6, 1, 3, 0), day(6, 9, 1, 59), day(6, 8, 2, 0)},
		{"0 2 1 * *", day(1, 1, 3, 0), day(9, 30, 0, 0), day(9, 1, 2, 0)},
		// On 25 October, 02:30 comes twice.
		{"30 4 * * *", day(10, 24, 5, 0), day(10, 25, 5, 0), day(10, 25, 4, 30)},
	} {
		times, _, err := parse(coderv1alpha1.CoderBackupScheduleSpec{Schedule: test.schedule}, test.now)
		if err != nil {
			t.Fatal(err)
		}
		if got := lastBetween(times, test.since, test.now); !got.Equal(test.want) {
			t.Errorf("the last time of %q from %s to %s is %s, not %s", test.schedule, test.since, test.now, got, test.want)
		}
	}
}
