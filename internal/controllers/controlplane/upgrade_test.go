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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
	"github.com/coder-k8s/coder-k8s/internal/kube/author"
	"github.com/coder-k8s/coder-k8s/internal/upgrade"
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
	// server is the version of the server of the database, as those Jobs report it.
	server string
	// backup is how backups end.
	backup coderv1alpha1.BackupPhase
}

// withWorld lets the world work during Settle.
func (f *fixture) withWorld() *upgradeWorld {
	u := &upgradeWorld{fixture: f, schemas: []string{"412"}, server: "150004", backup: coderv1alpha1.BackupCompleted}
	f.World = u.work
	return u
}

func (u *upgradeWorld) work() (busy bool) {
	if busy = u.endJobs("-schema-", "schemaVersion="+u.schemas[0]+"\nserverVersion="+u.server+"\n"); busy {
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
	return f.endJobs("-schema-", "schemaVersion="+version+"\nserverVersion=150004\n")
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
		if backup.Spec.Destination.CloudNativePG != nil {
			backup.Status.SchemaVersion, backup.Status.CloudNativePGBackupName = 0, backup.Name
		}
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
		cp.Spec.Deployment.Strategy = &coderv1alpha1.DeploymentStrategy{Type: "RollingUpdate"} // It is for other changes.
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

// The old pods serve until the backup can be stored.
func TestTheDestinationOfTheBackupIsCheckedFirst(t *testing.T) {
	secret := secretOf("s3", map[string]string{"accessKeyID": "a", "secretAccessKey": "b"})
	inBucket := coderv1alpha1.BackupDestination{S3: &coderv1alpha1.BackupS3{S3Bucket: coderv1alpha1.S3Bucket{SecretRef: coderv1alpha1.S3SecretReference{Name: "s3"}}}}
	byOther := coderv1alpha1.BackupDestination{CloudNativePG: &coderv1alpha1.CloudNativePGBackup{ClusterName: "db"}}
	for name, c := range map[string]struct {
		to     coderv1alpha1.BackupDestination
		breaks func(*fixture)
		says   string
		mends  func(*fixture)
	}{
		"a volume": {
			to: schedule().Spec.Template.Destination, breaks: func(f *fixture) { f.Remove(volumeClaim()) },
			says: `PersistentVolumeClaim "backups" does not exist; create it`, mends: func(f *fixture) { f.Create(volumeClaim()) },
		},
		"a bucket": {
			to: inBucket, breaks: func(*fixture) {}, says: `Secret "s3", which has the access keys of the bucket, does not exist`, mends: func(f *fixture) { f.Create(secret) },
		},
		"CloudNativePG": {
			to: byOther, breaks: func(f *fixture) {
				f.refuses(&unstructured.Unstructured{}, &meta.NoKindMatchError{GroupKind: upgrade.CloudNativePGBackup.GroupKind()})
			},
			says: "install CloudNativePG", mends: func(*fixture) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t)
			cluster := f.Cluster
			c.breaks(f)
			nightly := schedule()
			nightly.Spec.Template.Destination = c.to
			f.Create(nightly)
			f.withWorld()
			f.wants(image236)
			f.Settle()
			f.mustBeIn(coderv1alpha1.UpgradeWaitingForBackup)
			f.mustHavePods(image230, 1)
			f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonBackupUnavailable, c.says, `CoderBackupSchedule "nightly"`, "the pods keep the image", image230)
			f.MustBe("without a place for the backup", controllertest.KstatusFailed)

			f.Forward(time.Hour)
			f.Cluster = cluster
			f.restart()
			c.mends(f)
			f.Settle()
			f.mustBeIn(coderv1alpha1.UpgradeCompleted)
			backups := &unstructured.UnstructuredList{}
			backups.SetGroupVersionKind(upgrade.CloudNativePGBackup)
			if f.List(backups); len(backups.Items) > 0 {
				t.Errorf("the dry run has created %+v", backups.Items)
			}
		})
	}
}

// A volume that the operator may not read is not known to be unsuitable, and one that cannot be read now is read again.
func TestADestinationThatCannotBeRead(t *testing.T) {
	f := readyFixture(t)
	f.Create(schedule())
	f.withWorld()
	refusal := errors.New("timeout")
	f.r.kit.Uncached = interceptor.NewClient(f.Cluster, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, is := obj.(*corev1.PersistentVolumeClaim); is {
				return refusal
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	f.wants(image236)
	f.Reconcile()
	for range 3 {
		if _, err := f.Try(); err == nil || !strings.Contains(err.Error(), "checking the destination of the backup: timeout") {
			t.Fatalf("the error is %v", err)
		}
	}
	f.mustBeIn(coderv1alpha1.UpgradeChecking)
	f.mustHavePods(image230, 1)
	claims := corev1.Resource("persistentvolumeclaims")
	refusal = apierrors.NewNotFound(claims, "backups")
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeWaitingForBackup)
	refusal = errors.New("timeout")
	if _, err := f.Try(); err == nil {
		t.Error("there is no error")
	}
	f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonUpgradeWaitingForBackup, "waits for a backup")
	if c := meta.FindStatusCondition(f.Object().Status.Conditions, coderv1alpha1.ConditionUpgraded); strings.Contains(c.Message, coderv1alpha1.AnnotationUpgradeBackup) {
		t.Errorf("the message asks for the annotation of an external backup: %q", c.Message)
	}
	refusal = apierrors.NewForbidden(claims, "backups", nil)
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeCompleted)
}

// With External, the old pods serve until the annotation names a backup for this version, however long that takes.
func TestAnExternalBackup(t *testing.T) {
	f := readyFixture(t, func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.Upgrade = &coderv1alpha1.UpgradeSpec{Backup: coderv1alpha1.UpgradeBackupExternal}
	})
	f.Create(schedule()) // It is not used.
	u := f.withWorld()
	names := func(value string) {
		f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
			metav1.SetMetaDataAnnotation(&cp.ObjectMeta, coderv1alpha1.AnnotationUpgradeBackup, value)
		})
		f.Settle()
	}
	waits := func(parts ...string) {
		f.mustBeIn(coderv1alpha1.UpgradeWaitingForBackup)
		f.mustHavePods(image230, 1)
		f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonUpgradeWaitingForBackup,
			append(parts, "kubectl annotate -n coder codercontrolplane coder --overwrite coder.com/upgrade-backup=v2.36.0/NAME")...)
		f.MustBe("without a backup", controllertest.KstatusFailed)
	}
	names("v2.35.0/of-another-version")
	f.wants(image236)
	f.Settle()
	waits("the annotation names no backup for this version")
	f.Forward(72 * time.Hour)
	f.restart()
	f.Settle()
	waits()
	names("v2.36.0/")
	waits("the annotation names no backup for this version")

	// The image is tried and the schema is read again, and the old image comes back.
	u.schemas, u.broken = []string{"412"}, image236
	names("v2.36.0/arn:aws:rds:eu-central-1:1:snapshot/before")
	f.mustBeIn(coderv1alpha1.UpgradeMigrating)
	f.mustHavePods(image236, 1)
	for _, part := range []string{"-image-", "-schema-"} {
		if jobs := f.jobs(part); len(jobs) != 2 {
			t.Errorf("there are %d Jobs %s", len(jobs), part)
		}
	}
	f.Forward(migrationLimit)
	f.Settle()
	before := f.mustBeIn(coderv1alpha1.UpgradeReverted)
	if before.ExternalBackup != "arn:aws:rds:eu-central-1:1:snapshot/before" || before.Backup != "" || before.StoppedAt == nil {
		t.Errorf("status.upgrade is %+v", before)
	}

	// Coder has run since, so the next attempt needs another one.
	f.Forward(time.Hour)
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
		metav1.SetMetaDataAnnotation(&cp.ObjectMeta, coderv1alpha1.AnnotationRetryUpgrade, attempt(before))
	})
	f.Settle()
	waits(`the backup "arn:aws:rds:eu-central-1:1:snapshot/before" is that of an earlier attempt`)
	u.schemas = []string{"556"}
	names("2.36.0/again")
	f.Forward(migrationLimit)
	f.Settle()
	stopped := f.mustBeIn(coderv1alpha1.UpgradeFailed).StoppedAt

	// A third image needs none, because the old Coder has not run since.
	f.Forward(time.Minute)
	f.wants("ghcr.io/coder/coder:v2.37.0")
	f.Settle()
	if got := f.mustBeIn(coderv1alpha1.UpgradeMigrating); got.ExternalBackup != "again" || !got.StoppedAt.Equal(stopped) {
		t.Errorf("status.upgrade is %+v", got)
	}
	backups := &coderv1alpha1.CoderBackupList{}
	if f.List(backups); len(backups.Items) > 0 {
		t.Errorf("the operator has made %+v", backups.Items)
	}
}

// A backup that is named together with the image needs no wait, also not while Coder is scaled to zero for it.
func TestAnExternalBackupIsNamedTogetherWithTheImage(t *testing.T) {
	for _, replicas := range []int32{1, 0} {
		f := readyFixture(t, func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.Upgrade = &coderv1alpha1.UpgradeSpec{Backup: coderv1alpha1.UpgradeBackupExternal}
		})
		u := f.withWorld()
		f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Replicas = ptr.To(replicas) })
		f.Settle()
		ran := false
		f.World = func() bool {
			ran = ran || replicas == 0 && *f.Deployment().Spec.Replicas > 0 && f.Deployment().Spec.Template.Spec.Containers[0].Image == image230
			return u.work()
		}
		f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.Replicas, cp.Spec.Image = ptr.To[int32](1), image236
			metav1.SetMetaDataAnnotation(&cp.ObjectMeta, coderv1alpha1.AnnotationUpgradeBackup, "v2.36.0/before")
		})
		f.Settle()
		f.mustBeIn(coderv1alpha1.UpgradeCompleted)
		if ran || f.Events.Count("Warning "+coderv1alpha1.ReasonUpgradeWaitingForBackup) > 0 {
			t.Errorf("with %d pods before, the old Coder ran: %t; the Events are %q", replicas, ran, f.Events.All())
		}
	}
}

// Nobody may create a schedule for days, so Coder serves while an upgrade waits for one, also if it was stopped before.
func TestCoderServesWhileAScheduleIsMissing(t *testing.T) {
	f := readyFixture(t)
	f.until(coderv1alpha1.UpgradeStopping)
	f.Reconcile()
	f.mustHavePods(image230, 0)
	f.Forward(time.Second)
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.Image = "ghcr.io/coder/coder:v2.37.0"
		cp.Spec.Upgrade = &coderv1alpha1.UpgradeSpec{Backup: coderv1alpha1.UpgradeBackupRequired}
	})
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeWaitingForBackup)
	f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonBackupUnavailable, "create one")
	f.mustHavePods(image230, 1)
}

// The operator creates the CoderBackup, so the author of the schedule must be allowed to create the Backup of CloudNativePG.
func TestAnUpgradeWithABackupOfCloudNativePG(t *testing.T) {
	f := readyFixture(t)
	allowed := false
	f.checkAuthor = func(_ context.Context, obj client.Object, grant author.Grant) error {
		if allowed && obj.GetName() == "nightly" && grant.Rules[0].APIGroups[0] == "postgresql.cnpg.io" {
			return nil
		}
		return &author.RefusedError{Message: "tenant may not create Backups"}
	}
	f.restart()
	nightly := schedule()
	nightly.Spec.Template.Destination = coderv1alpha1.BackupDestination{CloudNativePG: &coderv1alpha1.CloudNativePGBackup{ClusterName: "db"}}
	f.Create(nightly)
	u := f.withWorld()
	u.schemas = []string{"412", "556"}
	f.wants(image236)
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeWaitingForBackup)
	f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonAuthorForbidden, "tenant may not create Backups")
	f.mustHavePods(image230, 1)

	allowed = true
	u.failsWith(image236, crashedContainer(1, "Error", "panic: no"))
	upgraded := f.mustBeIn(coderv1alpha1.UpgradeFailed)
	backup := &coderv1alpha1.CoderBackup{}
	f.Get(upgraded.Backup, backup)
	if backup.Spec.Destination.CloudNativePG == nil || backup.Annotations[coderv1alpha1.AnnotationRBACAuthor] != "operator\nsystem:serviceaccounts" || upgraded.ExternalBackup != backup.Name {
		t.Errorf("the backup is %+v, the upgrade %+v", backup, upgraded)
	}
	f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonUpgradeFailed, `restore the backup "`+backup.Name+`"`, "of CloudNativePG into a new Cluster with spec.bootstrap.recovery", `spec.image: "`+image230+`"`)
}

// Nobody may answer for days, so Coder serves while an upgrade waits for a backup, also if it was stopped before.
func TestCoderServesWhileABackupIsMissing(t *testing.T) {
	f := readyFixture(t, func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Annotations = map[string]string{coderv1alpha1.AnnotationUpgradeBackup: "v2.36.0/before"}
		cp.Spec.Upgrade = &coderv1alpha1.UpgradeSpec{Backup: coderv1alpha1.UpgradeBackupExternal}
	})
	f.until(coderv1alpha1.UpgradeStopping)
	f.Reconcile()
	f.mustHavePods(image230, 0)
	f.Forward(time.Second)
	f.wants("ghcr.io/coder/coder:v2.37.0") // The backup is for another version.
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeWaitingForBackup)
	f.mustHavePods(image230, 1)

	for _, replicas := range []int32{0, 2} {
		f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Replicas = ptr.To(replicas) })
		f.Settle()
		f.mustBeIn(coderv1alpha1.UpgradeWaitingForBackup)
		f.mustHavePods(image230, replicas)
	}
}

// The annotation stays in Git when the image is set back. It does not allow a later attempt.
func TestAnExternalBackupCountsOnce(t *testing.T) {
	for _, phase := range []coderv1alpha1.UpgradePhase{coderv1alpha1.UpgradeStoppingProvisioners, coderv1alpha1.UpgradeStopping} {
		t.Run(string(phase), func(t *testing.T) { externalBackupCountsOnce(t, phase) })
	}
}

// externalBackupCountsOnce sets the image back in a phase after the checks. Coder may run for days then.
func externalBackupCountsOnce(t *testing.T, phase coderv1alpha1.UpgradePhase) {
	t.Helper()
	f := readyFixture(t, func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Annotations = map[string]string{coderv1alpha1.AnnotationUpgradeBackup: "v2.36.0/before"}
		cp.Spec.Upgrade = &coderv1alpha1.UpgradeSpec{Backup: coderv1alpha1.UpgradeBackupExternal}
	})
	pod := f.provisioners()
	if phase == coderv1alpha1.UpgradeStopping {
		f.Remove(pod)
	}
	f.until(phase)
	f.wants(image230)
	f.Settle()
	f.MustNotHave(coderv1alpha1.ConditionUpgraded)
	f.Forward(24 * time.Hour)
	if phase == coderv1alpha1.UpgradeStoppingProvisioners {
		f.Remove(pod)
	}
	f.restart()
	f.wants(image236)
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeWaitingForBackup)
	f.mustHavePods(image230, 1)
	f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonUpgradeWaitingForBackup, `the backup "before" is that of an earlier attempt`)
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Annotations[coderv1alpha1.AnnotationUpgradeBackup] = "v2.36.0/second"
	})
	f.Settle()
	if got := f.Object().Status; got.LastExternalBackup != "v2.36.0/second" || got.Upgrade.ExternalBackup != "second" {
		t.Errorf("the status is %+v", got)
	}
	f.mustBeIn(coderv1alpha1.UpgradeMigrating)
}

// After a migration, the message names the backup and the time to which a database can be recovered.
func TestTheWayBackWithAnExternalBackup(t *testing.T) {
	f := readyFixture(t, func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Annotations = map[string]string{coderv1alpha1.AnnotationUpgradeBackup: "v2.36.0/before"}
		cp.Spec.Upgrade = &coderv1alpha1.UpgradeSpec{Backup: coderv1alpha1.UpgradeBackupExternal}
	})
	u := f.withWorld()
	u.schemas = []string{"412", "556"}
	u.failsWith(image236, crashedContainer(1, "Error", "panic: no"))
	at := f.mustBeIn(coderv1alpha1.UpgradeFailed).StoppedAt.UTC().Format(time.RFC3339)
	f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonUpgradeFailed, `restore the backup "before"`, "the state of "+at, `spec.image: "`+image230+`"`)

	// The old image and the restored database, in one change, need neither an upgrade nor a restore.
	second := databaseSecret()
	second.Name, second.UID = "second", "second-uid"
	f.Create(second)
	u.World = u.work
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.Image = image230
		inDatabase("second")(cp)
	})
	f.Settle()
	f.mustHavePods(image230, 1)
	f.MustNotHave(coderv1alpha1.ConditionUpgraded)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	if f.database() != "second" {
		t.Errorf("the pods have the database of Secret %q", f.database())
	}

	// Another image or policy ends the wait.
	f = readyFixture(t, func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.Upgrade = &coderv1alpha1.UpgradeSpec{Backup: coderv1alpha1.UpgradeBackupExternal}
	})
	f.withWorld()
	f.wants(image236)
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeWaitingForBackup)
	f.wants(image230)
	f.Settle()
	f.MustNotHave(coderv1alpha1.ConditionUpgraded)
	f.wants(image236)
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeWaitingForBackup)
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Upgrade.Backup = coderv1alpha1.UpgradeBackupNever })
	f.Settle()
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

// Coder does not start with a server that is too old.
func TestAnOldServerIsNotUpgraded(t *testing.T) {
	f := readyFixture(t)
	u := f.withWorld()
	u.server = "120022"
	f.wants(image236)
	f.Settle()
	f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonDatabaseUnsuitable, "PostgreSQLVersion", "PostgreSQL 12, and Coder needs 13 or newer", `coder.com/allow-version: "v2.36.0"`)
	f.MustBe("with an old server", controllertest.KstatusFailed)
	f.mustHavePods(image230, 1)
	// The server is upgraded, which another Job sees.
	f.Forward(schemaLimit / 2)
	u.server = "130004"
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeCompleted)

	f = readyFixture(t)
	f.withWorld().server = "90624"
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Annotations = map[string]string{coderv1alpha1.AnnotationAllowVersion: "2.36.0"}
	})
	f.wants(image236)
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeCompleted)
}

// provisioners creates external provisioners of the control plane and of another one, and a pod of each that runs a job.
func (f *fixture) provisioners() *corev1.Pod {
	f.T.Helper()
	for _, name := range []string{"mine", "theirs"} {
		p := &coderv1alpha1.CoderProvisioner{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: name}}
		p.Spec.ControlPlaneRef = &coderv1alpha1.ControlPlaneReference{Name: map[string]string{"mine": "coder", "theirs": "other"}[name]}
		p.Status.Selector = "test/provisioner=" + name
		f.Create(p)
		f.UpdateStatus(p)
		f.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: name, Labels: map[string]string{"test/provisioner": name}}})
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "mine"}}
}

// The provisioners finish their jobs before Coder stops, so the old pods serve.
func TestProvisionersStopFirst(t *testing.T) {
	f := readyFixture(t)
	pod := f.provisioners()
	f.withWorld()
	f.wants(image236)
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeStoppingProvisioners)
	f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonUpgradeStoppingProvisioners, "finish their jobs")
	f.mustHavePods(image230, 1)
	f.restart()
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeStoppingProvisioners)
	f.Remove(pod)
	f.Settle()
	if u := f.mustBeIn(coderv1alpha1.UpgradeCompleted); strings.Contains(u.Message, "did not stop") {
		t.Errorf("the message is %q", u.Message)
	}

	f = readyFixture(t)
	f.provisioners()
	f.withWorld()
	f.wants(image236)
	f.Settle()
	f.Forward(10 * time.Minute)
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeStoppingProvisioners) // Their grace period is as long.
	f.Forward(stopLimit)
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeCompleted)
	f.mustSay(metav1.ConditionTrue, coderv1alpha1.ReasonUpgradeCompleted, `CoderProvisioner "mine" did not stop`)

	// The image is set back meanwhile.
	f = readyFixture(t)
	f.provisioners()
	f.until(coderv1alpha1.UpgradeStoppingProvisioners)
	f.wants(image230)
	f.Settle()
	f.MustNotHave(coderv1alpha1.ConditionUpgraded)
	f.mustHavePods(image230, 1)
}

// Without the list of control planes it is not known whether another one uses the database.
func TestNoUpgradeWithoutTheListOfControlPlanes(t *testing.T) {
	f := readyFixture(t)
	f.withWorld()
	f.wants(image236)
	down := true
	cached := interceptor.NewClient(f.Cluster, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, is := list.(*coderv1alpha1.CoderControlPlaneList); is && down {
				return errors.New("no cache")
			}
			return c.List(ctx, list, opts...)
		},
	})
	f.r.kit.Client = cached
	for range 3 {
		if _, err := f.Try(); err == nil || !strings.Contains(err.Error(), "another may use the same database") {
			t.Fatalf("the error is %v", err)
		}
	}
	f.mustHavePods(image230, 1)
	if u := f.Object().Status.Upgrade; u != nil {
		t.Errorf("the upgrade began: %+v", u)
	}
	down = false
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeCompleted)
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

// A Deployment that stays after kubectl delete --cascade=orphan does not stay without pods, unless it is not known which image
// fits the database.
func TestADeletionThatOrphansResumesThePods(t *testing.T) {
	for phase, want := range map[coderv1alpha1.UpgradePhase]struct {
		image    string
		replicas int32
	}{
		coderv1alpha1.UpgradeStopping: {image230, 3}, coderv1alpha1.UpgradeBackingUp: {image230, 3},
		coderv1alpha1.UpgradeMigrating: {image236, 3}, coderv1alpha1.UpgradeVerifying: {image236, 0},
		coderv1alpha1.UpgradeReverting: {image236, 0},
	} {
		for _, collected := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the garbage collector was first: %t", phase, collected), func(t *testing.T) {
				f := readyFixture(t)
				f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Replicas = ptr.To[int32](3) })
				f.Create(schedule())
				f.until(phase)
				if phase != coderv1alpha1.UpgradeReverting {
					f.Reconcile() // The phase acts.
				}
				f.deleteOrphaning()
				asked := f.Object().DeletionTimestamp
				if collected {
					d := f.Deployment()
					d.OwnerReferences = nil
					f.Update(d)
					f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
						controllerutil.RemoveFinalizer(cp, metav1.FinalizerOrphanDependents)
					})
				}
				f.Reconcile()
				f.mustHavePods(want.image, want.replicas)
				d := f.Deployment()
				d.Spec.Replicas = ptr.To[int32](0) // A user scales it.
				f.Update(d)
				f.Clock.SetTime(asked.Add(time.Minute))
				f.Reconcile() // The garbage collector may be slow.
				f.mustHavePods(want.image, 0)
				if owners := f.Deployment().OwnerReferences; len(owners) > 0 {
					t.Errorf("the Deployment belongs to %+v", owners)
				}
				if n := f.Events.Count("Warning " + coderv1alpha1.ReasonOrphaned + ": Deployment \"coder\" stays without pods"); (n == 1) != (want.replicas == 0) {
					t.Errorf("the Events are %q", f.Events.All())
				}
			})
		}
	}
}

// While an upgrade waits, it has stopped no pod, so the number of pods is that of a user.
func TestADeletionThatOrphansLeavesThePodsOfAWaitingUpgrade(t *testing.T) {
	f := readyFixture(t, func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.Upgrade = &coderv1alpha1.UpgradeSpec{Backup: coderv1alpha1.UpgradeBackupExternal}
	})
	f.until(coderv1alpha1.UpgradeWaitingForBackup)
	d := f.Deployment()
	d.Spec.Replicas = ptr.To[int32](0)
	f.Update(d)
	f.deleteOrphaning()
	f.Reconcile()
	f.mustHavePods(image230, 0)
}

// The pods of the second image may still migrate, so those of the first do not start when the third is being checked.
func TestADeletionThatOrphansWhileAThirdImageIsChecked(t *testing.T) {
	f := readyFixture(t)
	f.until(coderv1alpha1.UpgradeMigrating)
	f.Reconcile()
	f.Forward(time.Minute)
	f.wants("ghcr.io/coder/coder:v2.37.0")
	f.Reconcile()
	f.Reconcile()
	f.mustBeIn(coderv1alpha1.UpgradeChecking)
	f.deleteOrphaning()
	f.Reconcile()
	f.mustHavePods(image230, 0)
	if f.Events.Count("Warning "+coderv1alpha1.ReasonOrphaned+": Deployment \"coder\" stays without pods") != 1 {
		t.Errorf("the Events are %q", f.Events.All())
	}
}

// deleteOrphaning deletes the control plane like kubectl delete --cascade=orphan.
func (f *fixture) deleteOrphaning() {
	f.T.Helper()
	f.World = nil
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
		controllerutil.AddFinalizer(cp, metav1.FinalizerOrphanDependents)
	})
	f.Delete()
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
