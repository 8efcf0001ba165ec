package controlplane

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
)

// schedule returns a suspended schedule of the control plane.
func schedule() *coderv1alpha1.CoderBackupSchedule {
	return &coderv1alpha1.CoderBackupSchedule{
		ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "nightly", UID: "schedule-uid"},
		Spec: coderv1alpha1.CoderBackupScheduleSpec{
			ControlPlaneRef: coderv1alpha1.ControlPlaneReference{Name: "coder"}, Suspend: true, Template: completeBackup().Spec.BackupTemplate,
		},
	}
}

// upgradeWorld does the work of Kubernetes during an upgrade. The fields describe what happens.
type upgradeWorld struct {
	*fixture
	// broken is an image whose pods are never ready.
	broken string
	// schemas are the results of the Jobs that read the schema, one after the other. The last one repeats.
	schemas []string
	// backup is how backups end.
	backup coderv1alpha1.BackupPhase
}

// withWorld lets the world work during Settle.
func (f *fixture) withWorld() *upgradeWorld {
	u := &upgradeWorld{fixture: f, schemas: []string{"412"}, backup: coderv1alpha1.BackupCompleted}
	f.World = u.work
	return u
}

func (u *upgradeWorld) work() (busy bool) {
	if busy = u.endSchemaJobs(u.schemas[0]); busy {
		u.schemas = u.schemas[min(1, len(u.schemas)-1):]
	}
	busy = u.endJobs("-image-", "") || busy
	busy = u.endBackups(u.backup) || busy
	if u.Has("coder", &appsv1.Deployment{}) {
		d := u.Deployment()
		ready, release := *d.Spec.Replicas, coderdtest.Release230
		switch d.Spec.Template.Spec.Containers[0].Image {
		case u.broken:
			ready = 0
		case image236:
			release = coderdtest.Release236
		}
		u.coder.SetRelease(release)
		busy = u.PodsReady(ready) || busy
	}
	return busy
}

// endSchemaJobs ends the Jobs that read the version of the schema.
func (f *fixture) endSchemaJobs(version string) (busy bool) {
	f.T.Helper()
	return f.endJobs("-schema-", "schemaVersion="+version+"\n")
}

// endJobs ends the Jobs with a part of a name.
func (f *fixture) endJobs(part, message string) (busy bool) {
	f.T.Helper()
	for _, job := range f.jobs(part) {
		if len(job.Status.Conditions) == 0 {
			controllertest.EndJob(f.Fixture.Fixture, &job, batchv1.JobComplete, "", message)
			busy = true
		}
	}
	return busy
}

// jobs returns the Jobs with a part of a name.
func (f *fixture) jobs(part string) []batchv1.Job {
	f.T.Helper()
	jobs := &batchv1.JobList{}
	f.List(jobs)
	return slices.DeleteFunc(jobs.Items, func(job batchv1.Job) bool { return !strings.Contains(job.Name, part) })
}

// endBackups ends the backups that have not ended.
func (f *fixture) endBackups(phase coderv1alpha1.BackupPhase) (busy bool) {
	f.T.Helper()
	backups := &coderv1alpha1.CoderBackupList{}
	f.List(backups)
	for i := range backups.Items {
		backup := &backups.Items[i]
		if backup.Status.Phase != "" || phase == "" {
			continue
		}
		backup.Status.Phase, backup.Status.SchemaVersion = phase, 412
		backup.Status.Conditions = []metav1.Condition{{
			Type: coderv1alpha1.ConditionComplete, Status: metav1.ConditionFalse, Reason: coderv1alpha1.ReasonBackupFailed, Message: "the disk is full", LastTransitionTime: metav1.NewTime(f.Clock.Now()),
		}}
		f.UpdateStatus(backup)
		busy = true
	}
	return busy
}

// failsWith sets the status of all pods of an image, which stays.
func (u *upgradeWorld) failsWith(image string, status corev1.PodStatus) {
	u.T.Helper()
	u.broken = image
	u.wants(image)
	u.Settle()
	u.mustBeIn(coderv1alpha1.UpgradeMigrating)
	u.addPod("9", status)
	u.Forward(upgradePatience + time.Second)
	u.World = func() bool {
		pods := &corev1.PodList{}
		u.List(pods)
		for i := range pods.Items {
			if pod := &pods.Items[i]; strings.HasPrefix(pod.Name, "coder-rs9") && *u.Deployment().Spec.Replicas == 0 {
				u.Remove(pod)
				return true
			}
		}
		return u.work()
	}
	u.Settle()
}

func (f *fixture) mustBeIn(phase coderv1alpha1.UpgradePhase) *coderv1alpha1.UpgradeStatus {
	f.T.Helper()
	u := f.Object().Status.Upgrade
	if u == nil || u.Phase != phase {
		f.T.Fatalf("status.upgrade is %+v, want the phase %s", u, phase)
	}
	return u
}

// mustHavePods checks the image and the number of pods of the Deployment.
func (f *fixture) mustHavePods(image string, replicas int32) {
	f.T.Helper()
	d := f.Deployment()
	if got := d.Spec.Template.Spec.Containers[0].Image; got != image || *d.Spec.Replicas != replicas {
		f.T.Errorf("the Deployment has %d pods of %s, want %d of %s", *d.Spec.Replicas, got, replicas, image)
	}
}

// mustSay checks the condition Upgraded.
func (f *fixture) mustSay(status metav1.ConditionStatus, reason string, parts ...string) {
	f.T.Helper()
	c := f.MustHave(coderv1alpha1.ConditionUpgraded, status, reason)
	for _, part := range parts {
		if !strings.Contains(c.Message, part) {
			f.T.Errorf("message %q does not contain %q", c.Message, part)
		}
	}
}

func TestUpgradeInPhases(t *testing.T) {
	f := readyFixture(t)
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Replicas = ptr.To[int32](3) })
	f.Reconcile()
	f.PodsReady(3)
	f.Settle()
	f.Create(schedule())
	f.wants(image236)
	f.Reconcile()
	f.Reconcile()
	f.mustBeIn(coderv1alpha1.UpgradeChecking)
	f.mustHavePods(image230, 3)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonUpgradeChecking)
	for part, image := range map[string]string{"-schema-": "postgres:17", "-image-": image236} {
		if jobs := f.jobs(part); len(jobs) != 1 || jobs[0].Spec.Template.Spec.Containers[0].Image != image {
			t.Fatalf("the Jobs %s are %+v", part, jobs)
		}
	}
	f.endSchemaJobs("401")
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeChecking) // The image is not pulled.
	f.mustHavePods(image230, 3)
	f.endJobs("-image-", "")

	// A pod that is terminating still uses the database.
	f.addPod("1", runningContainer())
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeStopping)
	f.mustHavePods(image230, 0)
	f.PodsReady(0)
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeStopping)
	pod := &corev1.Pod{}
	f.Get("coder-rs1-abcde", pod)
	f.Remove(pod)
	f.restart()
	f.Settle()

	u := f.mustBeIn(coderv1alpha1.UpgradeBackingUp)
	f.mustHavePods(image230, 0)
	backup := &coderv1alpha1.CoderBackup{}
	f.Get(u.Backup, backup)
	if backup.Spec.ControlPlaneRef.Name != "coder" || backup.Spec.Destination.PersistentVolumeClaim.ClaimName != "backups" || len(backup.OwnerReferences) > 0 || backup.Labels[coderv1alpha1.LabelBackupSchedule] != "" {
		t.Errorf("the backup is %+v", backup)
	}
	f.MustBe("during the backup", controllertest.KstatusInProgress)
	f.endBackups(coderv1alpha1.BackupCompleted)
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeMigrating)
	f.mustHavePods(image236, 1)

	f.coder.SetRelease(coderdtest.Release236)
	f.PodsReady(1)
	f.Settle()
	f.mustHavePods(image236, 3)
	u = f.mustBeIn(coderv1alpha1.UpgradeCompleted)
	if u.FromVersion != string(coderdtest.Release230) || u.FromImage != image230 || u.ToImage != image236 || u.SchemaBefore != 401 || u.FinishedAt == nil {
		t.Errorf("status.upgrade is %+v", u)
	}
	f.PodsReady(3)
	f.Settle()
	f.mustSay(metav1.ConditionTrue, coderv1alpha1.ReasonUpgradeCompleted, "from v2.30.0", "to v2.36.0")
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	for _, reason := range []string{
		coderv1alpha1.ReasonUpgradeChecking, coderv1alpha1.ReasonUpgradeStopping, coderv1alpha1.ReasonUpgradeBackingUp,
		coderv1alpha1.ReasonUpgradeMigrating, coderv1alpha1.ReasonUpgradeCompleted,
	} {
		if f.Events.Count("Normal "+reason+":") != 1 {
			t.Errorf("Event %s: %q", reason, f.Events.All())
		}
	}
	if f.Events.Count("Warning Upgrade") != 0 {
		t.Errorf("Events: %q", f.Events.All())
	}
}

// Without a schedule the upgrade goes on, and says so.
func TestUpgradeWithoutABackup(t *testing.T) {
	f := readyFixture(t)
	f.withWorld()
	f.wants(image236)
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeCompleted)
	f.mustSay(metav1.ConditionTrue, coderv1alpha1.ReasonUpgradeCompleted, "no CoderBackupSchedule names the control plane")
	if f.Events.Count("Warning "+coderv1alpha1.ReasonUpgradeWithoutBackup) != 1 {
		t.Errorf("Events: %q", f.Events.All())
	}
}

func TestARequiredBackup(t *testing.T) {
	f := readyFixture(t, func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.Upgrade = &coderv1alpha1.UpgradeSpec{Backup: coderv1alpha1.UpgradeBackupRequired}
		cp.Spec.Deployment.Strategy = &coderv1alpha1.DeploymentStrategy{Type: "RollingUpdate"} // spec.upgrade wins.
	})
	u := f.withWorld()
	f.wants(image236)
	f.Settle()
	f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonBackupUnavailable, "create one, which may be suspended")
	f.MustBe("without a schedule", controllertest.KstatusFailed)
	f.mustHavePods(image230, 1)

	// The wait for a schedule is no time in which the image can be tried.
	f.Forward(time.Hour)
	f.Create(schedule())
	u.backup = ""
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeBackingUp)
	u.backup = coderv1alpha1.BackupFailed
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeReverted)
	f.mustHavePods(image230, 1)
	f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonUpgradeReverted, "the disk is full", "nothing was changed", coderv1alpha1.AnnotationRetryUpgrade)
	f.MustBe("after a backup that failed", controllertest.KstatusFailed)

	// Nothing repeats the attempt but the annotation, once.
	f.Forward(time.Hour)
	f.restart()
	f.Settle()
	before := f.mustBeIn(coderv1alpha1.UpgradeReverted)
	retry := func() {
		f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Annotations = map[string]string{coderv1alpha1.AnnotationRetryUpgrade: attempt(before)}
		})
		f.Settle()
	}
	retry()
	after := f.mustBeIn(coderv1alpha1.UpgradeReverted)
	if after.Backup == before.Backup || after.StartedAt.Equal(&before.StartedAt) {
		t.Errorf("the second attempt is the first: %+v", after)
	}
	u.backup = coderv1alpha1.BackupCompleted
	before = after
	f.Forward(time.Hour)
	retry()
	f.mustBeIn(coderv1alpha1.UpgradeCompleted)
}

// An image that is not known to work stops no pod.
func TestAnImageIsTriedFirst(t *testing.T) {
	const image = "ghcr.io/coder/coder:v2.36.9"
	ends := func(how batchv1.JobConditionType, exit int32, said string) func(*fixture, *batchv1.Job) {
		return func(f *fixture, job *batchv1.Job) {
			pod := controllertest.PodOf(job)
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "coder", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: exit, Message: said},
			}}}
			f.Create(pod)
			controllertest.EndJob(f.Fixture.Fixture, job, how, "", "")
		}
	}
	sidecar := corev1.ContainerStatus{Name: "injected", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	troubled := func(status corev1.PodStatus) func(*fixture, *batchv1.Job) {
		return func(f *fixture, job *batchv1.Job) {
			pod := controllertest.PodOf(job)
			pod.Status = status
			f.Create(pod)
			f.Reconcile()
			f.mustBeIn(coderv1alpha1.UpgradeChecking)
			f.Forward(upgradePatience)
		}
	}
	for name, c := range map[string]struct {
		command []string
		log     string
		act     func(*fixture, *batchv1.Job)
		refused bool
		says    string
	}{
		"it cannot be pulled": {
			act: troubled(waitingContainer("ImagePullBackOff", "not found")), refused: true, says: `image "` + image + `" of container "coder" cannot be pulled`,
		},
		"it has no such program": {
			act: ends(batchv1.JobFailed, 128, `exec: "/opt/coder": no such file`), refused: true, says: `"/opt/coder version" fails in image "` + image + `": exit code 128`,
		},
		"its node does not report": {
			act:     func(f *fixture, job *batchv1.Job) { f.Create(controllertest.PodOf(job)); f.Forward(schemaLimit) },
			refused: true, says: "was not pulled and started within 10m0s",
		},
		"the Job gets no pod": {act: func(f *fixture, _ *batchv1.Job) { f.Forward(schemaLimit) }, says: "it is not known whether the image works"},
		"a sidecar never ends": {act: func(f *fixture, job *batchv1.Job) {
			pod := controllertest.PodOf(job)
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{sidecar, {Name: "coder", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
			f.Create(pod)
			f.Forward(schemaLimit)
		}, says: "it is not known whether the image works"},
		"it fails beside a sidecar": {act: func(f *fixture, job *batchv1.Job) {
			pod := controllertest.PodOf(job)
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{sidecar, {Name: "coder", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 7, Message: "no"}}}}
			f.Create(pod)
			controllertest.EndJob(f.Fixture.Fixture, job, batchv1.JobFailed, "", "")
		}, refused: true, says: "exit code 7"},
		"it contains another version": {
			act: ends(batchv1.JobComplete, 0, ""), log: "Coder v2.30.1\nFull build of Coder", refused: true, says: "contains Coder v2.30.1, which is not the version in its tag",
		},
		"it contains its version": {act: ends(batchv1.JobComplete, 0, ""), log: "Coder v2.36.1\nFull build of Coder"},
		"no node has room now":    {act: troubled(unschedulable()), says: "it is not known whether the image works"},
		"another program":         {command: []string{"/wrapper"}, act: ends(batchv1.JobFailed, 1, "no such subcommand"), says: "no such subcommand"},
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t, func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Command = c.command })
			f.logs.current = c.log
			u := f.withWorld()
			f.World = func() bool { return f.endSchemaJobs("412") || f.PodsReady(*f.Deployment().Spec.Replicas) }
			f.wants(image)
			f.Settle()
			f.mustBeIn(coderv1alpha1.UpgradeChecking)
			c.act(f, &f.jobs("-image-")[0])
			f.Settle()
			if !c.refused {
				if got := f.mustBeIn(coderv1alpha1.UpgradeMigrating); !strings.Contains(got.Message, c.says) {
					t.Errorf("the message %q does not contain %q", got.Message, c.says)
				}
				return
			}
			u.World = u.work
			f.Settle()
			before := f.mustBeIn(coderv1alpha1.UpgradeReverted)
			f.mustHavePods(image230, 1)
			f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonUpgradeReverted, image, c.says, "no pod was stopped")
			f.MustBe("with an image that does not work", controllertest.KstatusFailed)
			if n := f.Events.Count("Warning " + coderv1alpha1.ReasonUpgradeReverted); n != 1 || f.Events.Count("Normal "+coderv1alpha1.ReasonUpgradeStopping) != 0 {
				t.Errorf("the Events are %q", f.Events.All())
			}

			// The same image, which somebody has pushed since.
			f.logs.current = ""
			f.Forward(time.Minute)
			f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
				cp.Annotations = map[string]string{coderv1alpha1.AnnotationRetryUpgrade: attempt(before)}
			})
			f.Settle()
			f.mustHavePods(image, 1)
		})
	}
}

func unschedulable() corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "Insufficient cpu",
	}}}
}

// An image that crashes before it migrates, or that another node cannot pull, is taken back.
func TestAnUpgradeIsTakenBack(t *testing.T) {
	for name, status := range map[string]corev1.PodStatus{
		"it cannot be pulled": waitingContainer("ImagePullBackOff", "not found"),
		"it crashes":          crashedContainer(1, "Error", "panic: no"),
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t)
			f.withWorld().failsWith("ghcr.io/coder/coder:v2.36.9", status)
			u := f.mustBeIn(coderv1alpha1.UpgradeReverted)
			if u.SchemaBefore != 412 || u.SchemaAfter != 412 {
				t.Errorf("status.upgrade is %+v", u)
			}
			f.mustHavePods(image230, 1)
			f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonUpgradeReverted, "Coder v2.30.0", "v2.36.9")
			f.MustBe("afterwards", controllertest.KstatusFailed)
			f.MustHave(coderv1alpha1.ConditionCoderReachable, metav1.ConditionTrue, coderv1alpha1.ReasonReachable)
			f.Forward(24 * time.Hour)
			f.restart()
			f.Settle()
			f.mustBeIn(coderv1alpha1.UpgradeReverted)

			// Another image is another upgrade, and the old one is none.
			f.wants(image230)
			f.Settle()
			f.MustNotHave(coderv1alpha1.ConditionUpgraded)
			f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
			f.wants(image236)
			f.Settle()
			f.mustBeIn(coderv1alpha1.UpgradeCompleted)
		})
	}
}

// A pod that runs may still migrate, so it has half an hour.
func TestAMigrationHasTime(t *testing.T) {
	f := readyFixture(t)
	u := f.withWorld()
	u.broken = image236
	f.wants(image236)
	f.Settle()
	f.addPod("9", runningContainer())
	f.Forward(migrationLimit - time.Minute)
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeMigrating)
	f.mustHavePods(image236, 1)
	f.Forward(time.Minute)
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeVerifying) // The pod is still there.
	f.mustHavePods(image236, 0)
}

// After a migration, the old image never comes back by itself.
func TestAMigratedDatabaseIsNotGivenToTheOldCoder(t *testing.T) {
	crash := crashedContainer(1, "Error", "panic: no")
	for name, c := range map[string]struct {
		schemas []string
		hold    bool
		says    []string
	}{
		"migrated":            {schemas: []string{"412", "556"}, says: []string{"from schema 412 to 556", "spec.bootstrap.fromBackup.name: \"coder-upgrade-", "kubectl coder upgrade revert", `spec.image: "` + image230 + `"`}},
		"half migrated":       {schemas: []string{"412", "556 dirty"}, says: []string{"from schema 412 to 556"}},
		"nobody knows":        {schemas: []string{"412", ""}, says: []string{"the schema could not be read", "that Coder does not start, and changes nothing"}},
		"the spec holds it":   {schemas: []string{"412"}, hold: true, says: []string{"correct the cause"}},
		"same number, dirty":  {schemas: []string{"412", "412 dirty"}},
		"an older schema now": {schemas: []string{"412", "401"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t, func(cp *coderv1alpha1.CoderControlPlane) {
				if c.hold {
					cp.Spec.Upgrade = &coderv1alpha1.UpgradeSpec{OnFailure: coderv1alpha1.UpgradeHold}
				}
			})
			f.Create(schedule())
			u := f.withWorld()
			u.schemas = c.schemas
			u.failsWith(image236, crash)
			f.mustBeIn(coderv1alpha1.UpgradeFailed)
			f.mustHavePods(image236, 1)
			f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonUpgradeFailed, append(c.says, "panic: no")...)
			f.MustBe("afterwards", controllertest.KstatusFailed)

			// It may still succeed.
			u.broken, u.World = "", u.work
			f.Settle()
			f.mustBeIn(coderv1alpha1.UpgradeCompleted)
			f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
		})
	}
}

// If the schema cannot be read before, there is no proof afterwards.
func TestAnUnknownSchema(t *testing.T) {
	f := readyFixture(t)
	u := f.withWorld()
	u.schemas = []string{""}
	u.failsWith(image236, waitingContainer("ImagePullBackOff", "not found"))
	f.mustBeIn(coderv1alpha1.UpgradeFailed)
	f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonUpgradeFailed, "the schema could not be read", "so the old image does not come back by itself")
	f.wants(image230)
	f.Settle()
	f.mustHavePods(image230, 1)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	f.MustNotHave(coderv1alpha1.ConditionUpgraded)
}

func TestADirtySchemaIsNotUpgraded(t *testing.T) {
	f := readyFixture(t)
	f.withWorld().schemas = []string{"412 dirty"}
	f.wants(image236)
	f.Settle()
	f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonDatabaseUnsuitable, "412 dirty")
	f.MustBe("with a dirty schema", controllertest.KstatusFailed)
	f.mustHavePods(image230, 1)
	// Kubernetes deletes the Job that said so. That is no reason to go on.
	for range 4 {
		f.Forward(schemaLimit/2 + time.Minute)
		for _, job := range f.jobs("-schema-") {
			f.Remove(&job)
		}
		f.Settle()
		f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonDatabaseUnsuitable, "412 dirty")
		f.mustHavePods(image230, 1)
	}
}

// Until the new image starts, setting the image back starts the old pods.
func TestTheImageIsSetBackInEachPhase(t *testing.T) {
	phases := []coderv1alpha1.UpgradePhase{
		coderv1alpha1.UpgradeChecking, coderv1alpha1.UpgradeStopping, coderv1alpha1.UpgradeBackingUp, coderv1alpha1.UpgradeMigrating, coderv1alpha1.UpgradeVerifying,
	}
	for _, phase := range phases {
		t.Run(string(phase), func(t *testing.T) {
			f := readyFixture(t)
			f.Create(schedule())
			f.until(phase)
			f.wants(image230)
			f.withWorld().broken = image236
			f.Settle()
			f.mustHavePods(image230, 1)
			f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
			f.MustNotHave(coderv1alpha1.ConditionUpgraded)
		})
	}
}

// A third image in each phase is another upgrade. The version of the schema before a possible migration
// is kept.
func TestAnotherImageInEachPhase(t *testing.T) {
	for _, phase := range []coderv1alpha1.UpgradePhase{coderv1alpha1.UpgradeStopping, coderv1alpha1.UpgradeMigrating} {
		t.Run(string(phase), func(t *testing.T) {
			f := readyFixture(t)
			f.until(phase)
			u := f.withWorld()
			u.schemas, u.broken = []string{"556"}, "ghcr.io/coder/coder:v2.37.0"
			f.Forward(time.Minute)
			f.wants(u.broken)
			f.Reconcile()
			if d := f.Deployment(); phase == coderv1alpha1.UpgradeMigrating && *d.Spec.Replicas > 0 {
				t.Errorf("%d pods of %s run beside one that may migrate", *d.Spec.Replicas, d.Spec.Template.Spec.Containers[0].Image)
			}
			f.Settle()
			want := int64(556)
			if phase == coderv1alpha1.UpgradeMigrating {
				want = 412
			}
			if got := f.mustBeIn(coderv1alpha1.UpgradeMigrating); got.SchemaBefore != want || got.FromImage != image230 {
				t.Errorf("status.upgrade is %+v", got)
			}
			f.mustHavePods(u.broken, 1)
		})
	}
}

// until runs an upgrade to 2.36 until it is in a phase.
func (f *fixture) until(phase coderv1alpha1.UpgradePhase) {
	f.T.Helper()
	u := f.withWorld()
	u.broken = image236
	f.wants(image236)
	for range 30 {
		f.Reconcile()
		got := f.Object().Status.Upgrade.Phase
		if got == phase {
			return
		}
		if got == coderv1alpha1.UpgradeMigrating {
			f.Forward(migrationLimit)
		}
		u.work()
	}
	f.T.Fatalf("the phase %s did not come: %+v", phase, f.Object().Status.Upgrade)
}

// Without pods there is nothing to stop. The upgrade happens when pods are wanted.
func TestAnUpgradeOfAControlPlaneWithoutPods(t *testing.T) {
	f := readyFixture(t)
	f.withWorld()
	replicas := func(n int32) {
		f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Replicas = ptr.To(n) })
		f.Settle()
	}
	replicas(0)
	f.wants(image236)
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonScaledToZero)
	f.MustNotHave(coderv1alpha1.ConditionUpgraded)
	f.Create(schedule())
	replicas(1)
	if u := f.mustBeIn(coderv1alpha1.UpgradeCompleted); u.Backup == "" {
		t.Errorf("there is no backup: %+v", u)
	}
}

// With a cache that is some writes behind, no pod runs at a time when it must not.
func TestUpgradeWithAStaleCache(t *testing.T) {
	for _, lag := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(lag), func(t *testing.T) {
			f := readyFixture(t)
			f.Create(schedule())
			f.withWorld()
			f.wants(image236)
			f.beLate(lag)
			var seen []string
			for range 30 {
				_, _ = f.Try()
				d := f.Deployment()
				now := fmt.Sprintf("%d %s", *d.Spec.Replicas, d.Spec.Template.Spec.Containers[0].Image)
				if len(seen) == 0 || seen[len(seen)-1] != now {
					seen = append(seen, now)
				}
				f.World()
			}
			f.late, f.AfterWrite = nil, nil
			f.Settle()
			f.mustBeIn(coderv1alpha1.UpgradeCompleted)
			if want := []string{"1 " + image230, "0 " + image230, "1 " + image236}; !slices.Equal(seen, want[:len(seen)]) {
				t.Errorf("the Deployment was %q", seen)
			}
		})
	}
}

// refuses makes the API server refuse new objects of a kind.
func (f *fixture) refuses(kind client.Object, err error) {
	f.Cluster = interceptor.NewClient(f.Cluster, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if reflect.TypeOf(obj) == reflect.TypeOf(kind) {
				return err
			}
			return c.Create(ctx, obj, opts...)
		},
	})
	f.restart()
}

// Whatever does not end or cannot be created while Coder is stopped, Coder starts again.
func TestCoderDoesNotStayStopped(t *testing.T) {
	quota := apierrors.NewForbidden(batchv1.Resource("jobs"), "", errors.New("exceeded quota"))
	broken := apierrors.NewInternalError(errors.New("the webhook does not respond"))
	for name, c := range map[string]struct {
		phase coderv1alpha1.UpgradePhase
		// act happens in the phase.
		act   func(f *fixture)
		limit time.Duration
		end   coderv1alpha1.UpgradePhase
		says  string
	}{
		"a pod that does not stop": {
			coderv1alpha1.UpgradeStopping, func(f *fixture) { f.addPod("1", runningContainer()); f.podImage("1", image230) },
			stopLimit + time.Minute, coderv1alpha1.UpgradeReverted, `pod "coder-rs1-abcde" does not stop`,
		},
		"a backup that is refused": {
			coderv1alpha1.UpgradeBackingUp, func(f *fixture) { f.refuses(&coderv1alpha1.CoderBackup{}, broken) },
			upgradePatience, coderv1alpha1.UpgradeReverted, "the webhook does not respond",
		},
		"a backup that does not end": {
			coderv1alpha1.UpgradeBackingUp, func(f *fixture) {
				f.Reconcile()
				backup := &coderv1alpha1.CoderBackup{}
				f.Get(f.Object().Status.Upgrade.Backup, backup)
				backup.Status.Conditions = []metav1.Condition{{
					Type: coderv1alpha1.ConditionComplete, Status: metav1.ConditionFalse, Reason: coderv1alpha1.ReasonBackupRunning, Message: "Job makes the backup", LastTransitionTime: metav1.NewTime(f.Clock.Now()),
				}}
				f.UpdateStatus(backup)
			}, time.Hour + schemaLimit, coderv1alpha1.UpgradeReverted, "Job makes the backup",
		},
		"a schema Job that is refused": {
			coderv1alpha1.UpgradeVerifying, func(f *fixture) { f.refuses(&batchv1.Job{}, quota) },
			upgradePatience, coderv1alpha1.UpgradeFailed, "exceeded quota",
		},
		"a schema Job that does not end": {
			coderv1alpha1.UpgradeVerifying, func(*fixture) {},
			schemaLimit, coderv1alpha1.UpgradeFailed, "has not ended",
		},
		"a new pod that does not stop": {
			coderv1alpha1.UpgradeVerifying, func(f *fixture) { f.addPod("9", runningContainer()) },
			stopLimit + time.Minute, coderv1alpha1.UpgradeFailed, `pod "coder-rs9-abcde" does not stop`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t)
			f.Create(schedule())
			f.until(c.phase)
			f.World = func() bool {
				ready := *f.Deployment().Spec.Replicas
				if f.Deployment().Spec.Template.Spec.Containers[0].Image == image236 {
					ready = 0
				}
				return f.PodsReady(ready)
			}
			c.act(f)
			f.Forward(c.limit - time.Second)
			_, _ = f.Try()
			f.mustBeIn(c.phase)
			f.Forward(time.Second)
			f.Settle()
			if got := f.mustBeIn(c.end); !strings.Contains(got.Message, c.says) {
				t.Errorf("the message %q does not contain %q", got.Message, c.says)
			}
			if *f.Deployment().Spec.Replicas == 0 {
				t.Error("no pod is wanted")
			}
		})
	}
}

// If the old image does not start again either, the condition says why. If the database is newer than it, the new
// image comes back.
func TestTheOldImageDoesNotStartAgain(t *testing.T) {
	reverting := func(t *testing.T) *fixture {
		f := readyFixture(t)
		f.until(coderv1alpha1.UpgradeVerifying)
		f.World = func() bool { return f.endSchemaJobs("412") || f.PodsReady(0) }
		f.Settle()
		f.mustBeIn(coderv1alpha1.UpgradeReverting)
		return f
	}
	f := reverting(t)
	f.addPod("9", waitingContainer("ImagePullBackOff", "not found"))
	f.Forward(upgradePatience)
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeReverting)
	f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonUpgradeReverting, "does not start again", "cannot be pulled")
	f.MustBe("without the old image", controllertest.KstatusFailed)

	f = reverting(t)
	f.addPod("9", crashedContainer(1, "Error", "error: connect to postgres: migrate up: up: no migration found for version 556: read down for version 556 .: file does not exist"))
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeFailed)
	f.mustHavePods(image236, 1)
	f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonUpgradeFailed, "cannot use the database")
}

func (f *fixture) podImage(revision, image string) {
	pod := &corev1.Pod{}
	f.Get("coder-rs"+revision+"-abcde", pod)
	pod.Spec.Containers[0].Image = image
	f.Update(pod)
}

// The old pods must not start while those of the last image stop.
func TestAThirdImageWaitsForThePodsOfTheSecond(t *testing.T) {
	f := readyFixture(t)
	f.until(coderv1alpha1.UpgradeMigrating)
	d := f.Deployment()
	d.Status.Replicas = 1
	f.UpdateStatus(d)
	f.World = nil
	f.Forward(time.Minute)
	f.wants("ghcr.io/coder/coder:v2.37.0")
	for range 3 {
		f.Reconcile()
		f.mustHavePods(image230, 0)
	}

	// Such a pod may migrate as long as it exists.
	f.endJobs("-image-", "")
	f.addPod("9", runningContainer())
	f.PodsReady(0)
	f.Settle()
	f.Forward(stopLimit + time.Minute)
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeStopping)
	f.mustHavePods(image230, 0)
	f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonUpgradeStopping, `pod "coder-rs9-abcde" of an earlier attempt does not stop`)
	f.MustBe("with a pod that does not stop", controllertest.KstatusFailed)
}
