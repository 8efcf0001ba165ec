package controlplane

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

const restoredFrom = "coderVersion=v2.30.0\nschemaVersion=450\nsha256=abc\n"

// fromBackup restores the CoderBackup "last".
func fromBackup(cp *coderv1alpha1.CoderControlPlane) {
	cp.Spec.Bootstrap = &coderv1alpha1.BootstrapSpec{FromBackup: &coderv1alpha1.RestoreSpec{Name: "last"}}
}

func completeBackup() *coderv1alpha1.CoderBackup {
	return &coderv1alpha1.CoderBackup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "last", UID: "last-uid"},
		Spec: coderv1alpha1.CoderBackupSpec{BackupTemplate: coderv1alpha1.BackupTemplate{
			Destination:    coderv1alpha1.BackupDestination{PersistentVolumeClaim: &coderv1alpha1.BackupVolume{ClaimName: "backups"}},
			DatabaseClient: coderv1alpha1.DatabaseClient{Image: "postgres:17"},
		}},
		Status: coderv1alpha1.CoderBackupStatus{Phase: coderv1alpha1.BackupCompleted, Directory: "old/last", Checksum: "abc"},
	}
}

func (f *fixture) restoreJob() *batchv1.Job {
	f.T.Helper()
	job := &batchv1.Job{}
	f.Get("coder-restore", job)
	return job
}

func (f *fixture) restoreEnds(how batchv1.JobConditionType, message string) {
	f.T.Helper()
	controllertest.EndJob(f.Fixture.Fixture, f.restoreJob(), how, batchv1.JobReasonPodFailurePolicy, message)
	f.Settle()
}

// mustWait checks that no pod of Coder can use the database.
func (f *fixture) mustWait(reason string) metav1.Condition {
	f.T.Helper()
	if f.Has("coder", &appsv1.Deployment{}) {
		f.T.Error("Coder starts before the database is restored")
	}
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, reason)
	return f.MustHave(coderv1alpha1.ConditionDatabaseRestored, metav1.ConditionFalse, reason)
}

func TestABackupOfCloudNativePGIsNotRestored(t *testing.T) {
	backup := completeBackup()
	backup.Spec.Destination = coderv1alpha1.BackupDestination{CloudNativePG: &coderv1alpha1.CloudNativePGBackup{ClusterName: "db"}}
	f := newFixture(t, newControlPlane(fromBackup), databaseSecret(), backup)
	f.Settle()
	if c := f.mustWait(coderv1alpha1.ReasonBackupUnusable); !strings.Contains(c.Message, "into a new Cluster with spec.bootstrap.recovery") {
		t.Errorf("the message is %q", c.Message)
	}
	f.MustBe("with a backup of CloudNativePG", controllertest.KstatusFailed)
	if f.Has("coder-restore", &batchv1.Job{}) {
		t.Error("there is a Job")
	}
}

func TestRestore(t *testing.T) {
	f := newFixture(t, newControlPlane(fromBackup), databaseSecret())
	f.Settle()
	f.mustWait(coderv1alpha1.ReasonBackupUnavailable)
	f.MustBe("without a backup", controllertest.KstatusInProgress)

	f.Create(completeBackup())
	f.Settle()
	f.mustWait(coderv1alpha1.ReasonRestoreRunning)
	f.MustBe("while the Job runs", controllertest.KstatusInProgress)
	container := f.restoreJob().Spec.Template.Spec.Containers[0]
	env := map[string]string{}
	for _, variable := range container.Env {
		env[variable.Name] = variable.Value
	}
	if container.Image != "postgres:17" || env["BACKUP_DIRECTORY"] != "old/last" || env["BACKUP_SHA256"] != "abc" || env["RESTORE_IMAGE_VERSION"] != "v2.30.0" || env["RESTORE_ALLOWED"] != "false" {
		t.Errorf("the Job has the image %s and the environment %v", container.Image, env)
	}

	f.restoreEnds(batchv1.JobComplete, restoredFrom)
	f.PodsReady(1)
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	f.MustHave(coderv1alpha1.ConditionDatabaseRestored, metav1.ConditionTrue, coderv1alpha1.ReasonRestored)
	if got := f.Object().Status.Restore; got == nil || got.Backup != "last" || got.CoderVersion != "v2.30.0" || got.SchemaVersion != 450 || got.CompletedAt == nil {
		t.Errorf("status.restore is %+v", got)
	}
	if f.Has("coder-restore", &batchv1.Job{}) {
		t.Error("the Job stays after its result is recorded")
	}

	// It is restored once, whatever happens to the backup and the Deployment.
	backup := &coderv1alpha1.CoderBackup{}
	f.Get("last", backup)
	f.Remove(backup)
	f.Remove(f.Deployment())
	f.restart()
	f.Settle()
	if f.Has("coder-restore", &batchv1.Job{}) {
		t.Error("the backup is restored again")
	}
	f.MustHave(coderv1alpha1.ConditionDatabaseRestored, metav1.ConditionTrue, coderv1alpha1.ReasonRestored)
}

func TestRestoreOfFilesWithoutCoderBackup(t *testing.T) {
	f := newFixture(t, newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.Bootstrap = &coderv1alpha1.BootstrapSpec{FromBackup: &coderv1alpha1.RestoreSpec{Files: &coderv1alpha1.BackupFiles{
			PersistentVolumeClaim: &coderv1alpha1.BackupVolume{ClaimName: "old-volume"}, Directory: "prod/last",
		}}}
	}), databaseSecret())
	f.Settle()
	f.restoreEnds(batchv1.JobComplete, restoredFrom)
	if got := f.Object().Status.Restore; got == nil || got.Backup != "old-volume/prod/last" {
		t.Errorf("status.restore is %+v", got)
	}
}

// The name of the restored files is the one that the rule of CoderControlPlane computes.
func TestRestoreOfFilesInABucket(t *testing.T) {
	for prefix, want := range map[string]string{"": "s3://backups/prod/last", "clusters/a": "s3://backups/clusters/a/prod/last"} {
		f := newFixture(t, newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) {
			bucket := &coderv1alpha1.S3Bucket{Endpoint: "https://s3.example.com", Bucket: "backups", Prefix: prefix, SecretRef: coderv1alpha1.S3SecretReference{Name: "s3"}}
			cp.Spec.Bootstrap = &coderv1alpha1.BootstrapSpec{FromBackup: &coderv1alpha1.RestoreSpec{Files: &coderv1alpha1.BackupFiles{S3: bucket, Directory: "prod/last"}}}
		}), databaseSecret())
		f.Settle()
		if pod := f.restoreJob().Spec.Template.Spec; pod.InitContainers[0].Image != "operator" || pod.Containers[0].Image != resources.DefaultDatabaseImage {
			t.Errorf("the pod is %+v", pod)
		}
		f.restoreEnds(batchv1.JobComplete, restoredFrom)
		if got := f.Object().Status.Restore; got == nil || got.Backup != want {
			t.Errorf("status.restore is %+v", got)
		}
	}
}

func TestRestoreThatFails(t *testing.T) {
	f := newFixture(t, newControlPlane(fromBackup), databaseSecret(), completeBackup())
	f.Settle()
	f.restoreEnds(batchv1.JobFailed, "reason=DatabaseNotEmpty\nmessage=it has 7 tables\n")
	if c := f.mustWait(coderv1alpha1.ReasonDatabaseNotEmpty); !strings.Contains(c.Message, "it has 7 tables") || !strings.Contains(c.Message, "nothing is changed; delete the Job") {
		t.Errorf("the message is %q", c.Message)
	}
	f.MustBe("when it has failed", controllertest.KstatusFailed)
	if f.Events.Count("Warning "+coderv1alpha1.ReasonDatabaseNotEmpty) != 1 {
		t.Errorf("the Events are %q", f.Events.All())
	}

	// A change of the spec tries again, and so does the deletion of the Job.
	uid := f.restoreJob().UID
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.ExtraEnv[0].ValueFrom.SecretKeyRef.Key = "other" })
	f.Settle()
	f.mustWait(coderv1alpha1.ReasonRestoreRunning)
	if f.restoreJob().UID == uid {
		t.Error("the failed Job was not replaced")
	}
	f.restoreEnds(batchv1.JobFailed, "reason=Ready\nmessage=no\n")
	f.mustWait(coderv1alpha1.ReasonRestoreFailed)
	f.Remove(f.restoreJob())
	f.Settle()
	f.mustWait(coderv1alpha1.ReasonRestoreRunning)
}

func TestNothingIsRestoredIntoACoderThatRuns(t *testing.T) {
	f := readyFixture(t)
	f.Create(completeBackup())
	f.Edit(fromBackup) // The API server refuses this after the first response of Coder.
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionDatabaseRestored, metav1.ConditionFalse, coderv1alpha1.ReasonDatabaseNotEmpty)
	f.MustBe("with a restore into a database in use", controllertest.KstatusFailed)
	if f.Has("coder-restore", &batchv1.Job{}) {
		t.Error("a Job restores into the database of a running Coder")
	}
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Bootstrap = nil })
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
}

// inDatabase sets another database, which is that of a Secret.
func inDatabase(secret string) func(*coderv1alpha1.CoderControlPlane) {
	return func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.ExtraEnv = nil
		cp.Spec.Database = &coderv1alpha1.DatabaseSpec{SecretRef: &coderv1alpha1.DatabaseSecretReference{Name: secret, Key: "url"}}
	}
}

// failedUpgrade returns a control plane whose new Coder has migrated the database and crashes.
func failedUpgrade(t *testing.T) (*fixture, *upgradeWorld) {
	f := readyFixture(t)
	f.Create(schedule())
	u := f.withWorld()
	u.schemas = []string{"412", "556"}
	u.failsWith(image236, crashedContainer(1, "Error", "panic: no"))
	f.mustBeIn(coderv1alpha1.UpgradeFailed)
	second := databaseSecret()
	second.Name, second.UID, second.ResourceVersion = "second", "second-uid", ""
	f.Create(second)
	return f, u
}

// revert makes the change of kubectl coder upgrade revert.
func (f *fixture) revert(image string) {
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
		inDatabase("second")(cp)
		cp.Spec.Image = image
		cp.Spec.Bootstrap = &coderv1alpha1.BootstrapSpec{FromBackup: &coderv1alpha1.RestoreSpec{Name: f.Object().Status.Upgrade.Backup}}
	})
}

func (f *fixture) database() string {
	name, _ := resources.DatabaseSecretOf(resources.ControlPlane(f.Object(), resources.Cluster{}), &f.Deployment().Spec.Template)
	return name
}

// A failed upgrade is taken back: the pods get the old image and the restored database in one change.
func TestAFailedUpgradeIsReverted(t *testing.T) {
	f, u := failedUpgrade(t)
	first := f.database()
	backup := f.Object().Status.Upgrade.Backup
	f.revert(image230)
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionDatabaseRestored, metav1.ConditionFalse, coderv1alpha1.ReasonRestoreRunning)
	for range 2 {
		if f.database() != first {
			t.Fatal("the pods have a database that is not restored")
		}
		f.restart()
		f.Settle()
	}
	if name := envSecret(f.restoreJob().Spec.Template.Spec.Containers[0], coderv1alpha1.EnvDatabase); name != "second" {
		t.Errorf("the Job restores into the database of Secret %q", name)
	}
	f.restoreEnds(batchv1.JobFailed, "reason=DatabaseNotEmpty\nmessage=it has 7 tables\n")
	f.MustHave(coderv1alpha1.ConditionDatabaseRestored, metav1.ConditionFalse, coderv1alpha1.ReasonDatabaseNotEmpty)
	f.mustHavePods(image236, 1)
	f.Remove(f.restoreJob())
	f.Settle()
	u.World = u.work
	f.restoreEnds(batchv1.JobComplete, restoredFrom)
	if f.database() != "second" {
		t.Errorf("the pods have the database of Secret %q", f.database())
	}
	f.mustHavePods(image230, 1)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	f.MustNotHave(coderv1alpha1.ConditionUpgraded)
	if got := f.Object().Status.Restore; got == nil || got.Backup != backup {
		t.Errorf("status.restore is %+v", got)
	}
	if f.Has("coder-restore", &batchv1.Job{}) {
		t.Error("the Job stays after its result is recorded")
	}
}

// An image that would migrate the restored database is not given to it.
func TestARestoreIntoAnotherDatabaseNeedsTheOldImage(t *testing.T) {
	f, _ := failedUpgrade(t)
	first := f.database()
	f.revert("ghcr.io/coder/coder:v2.29.1")
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionDatabaseRestored, metav1.ConditionFalse, coderv1alpha1.ReasonDatabaseUnsuitable)
	if f.Has("coder-restore", &batchv1.Job{}) || f.database() != first {
		t.Errorf("the database of Secret %q is restored", f.database())
	}
}

// secondRestore returns a control plane that was made from a backup, and restores another one into another database.
func secondRestore(t *testing.T) *fixture {
	f := newFixture(t, newControlPlane(fromBackup, inDatabase("db")), databaseSecret(), completeBackup())
	f.Settle()
	f.restoreEnds(batchv1.JobComplete, restoredFrom)
	f.PodsReady(1)
	f.Settle()
	other, second := completeBackup(), databaseSecret()
	other.Name, other.UID, second.Name, second.UID = "other", "other-uid", "second", "second-uid"
	f.Create(other)
	f.Create(second)
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
		inDatabase("second")(cp)
		cp.Spec.Bootstrap.FromBackup.Name = "other"
	})
	f.Settle()
	return f
}

func TestASecondRestore(t *testing.T) {
	f := secondRestore(t)
	f.MustHave(coderv1alpha1.ConditionDatabaseRestored, metav1.ConditionFalse, coderv1alpha1.ReasonRestoreRunning)
	if f.database() != "db" {
		t.Errorf("the pods have the database of Secret %q before it is restored", f.database())
	}
	f.restoreEnds(batchv1.JobComplete, restoredFrom)
	if got := f.Object().Status.Restore; f.database() != "second" || got == nil || got.Backup != "other" {
		t.Errorf("the pods have the database of Secret %q, and status.restore is %+v", f.database(), got)
	}
}

// A Job that restores into another database, or another backup, is none of this restore, whether it runs or has ended.
func TestTheTargetOfARestoreChanges(t *testing.T) {
	for name, end := range map[string]batchv1.JobConditionType{"while it runs": "", "when it has ended": batchv1.JobComplete} {
		t.Run(name, func(t *testing.T) {
			f := secondRestore(t)
			third := databaseSecret()
			third.Name, third.UID = "third", "third-uid"
			f.Create(third)
			if end != "" {
				controllertest.EndJob(f.Fixture.Fixture, f.restoreJob(), end, "", restoredFrom)
			}
			f.Edit(inDatabase("third"))
			f.Settle()
			f.MustHave(coderv1alpha1.ConditionDatabaseRestored, metav1.ConditionFalse, coderv1alpha1.ReasonRestoreRunning)
			if name := envSecret(f.restoreJob().Spec.Template.Spec.Containers[0], coderv1alpha1.EnvDatabase); name != "third" || f.database() != "db" {
				t.Fatalf("the Job restores into the database of Secret %q, and the pods use that of %q", name, f.database())
			}
			f.restoreEnds(batchv1.JobComplete, restoredFrom)
			if f.database() != "third" {
				t.Errorf("the pods have the database of Secret %q", f.database())
			}
		})
	}
}

// The old pods stop before pods with the restored database start, whatever fails in between.
func TestASecondRestoreStopsTheOldPodsFirst(t *testing.T) {
	for at := range 40 {
		f := secondRestore(t)
		controllertest.EndJob(f.Fixture.Fixture, f.restoreJob(), batchv1.JobComplete, "", restoredFrom)
		if at%2 == 0 {
			f.Fault.Set(at/2, false)
		} else {
			f.Fault.SetError(at/2, false, apierrors.NewConflict(schema.GroupResource{}, "it", errors.New("changed")))
		}
		for pass := 0; f.database() == "db" && pass < 20; pass++ {
			_, _ = f.Try()
			if f.Fault.Struck() {
				f.Fault.Set(0, false)
			}
		}
		if got := f.Deployment().Spec.Strategy.Type; f.database() != "second" || got != appsv1.RecreateDeploymentStrategyType {
			t.Errorf("with failure %d the pods get the database of Secret %q by %s", at, f.database(), got)
		}
	}
}

func envSecret(c corev1.Container, name string) string {
	for _, variable := range c.Env {
		if variable.Name == name && variable.ValueFrom != nil {
			return variable.ValueFrom.SecretKeyRef.Name
		}
	}
	return ""
}

// A crash at any write, for example after the Deployment was created and before the result was recorded, changes
// nothing.
func TestRestoreSurvivesACrash(t *testing.T) {
	crashed := 0
	for at := 1; at < 20; at++ {
		f := newFixture(t, newControlPlane(fromBackup), databaseSecret(), completeBackup())
		f.Settle()
		controllertest.EndJob(f.Fixture.Fixture, f.restoreJob(), batchv1.JobComplete, "", restoredFrom)
		f.Fault.Set(at, at%2 == 0)
		_, _ = f.Try()
		if f.Fault.Struck() {
			crashed++
		}
		f.Fault.Set(0, false)
		f.restart()
		f.Settle()
		f.MustHave(coderv1alpha1.ConditionDatabaseRestored, metav1.ConditionTrue, coderv1alpha1.ReasonRestored)
		f.Deployment()
	}
	if crashed == 0 {
		t.Error("nothing crashed")
	}
}
