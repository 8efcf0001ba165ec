package backup

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

const result = "coderVersion=v2.36.1+abc\nschemaVersion=512\npostgresVersion=17.6\nencryptionKeys=0\nsize=4711\nsha256=abc\n"

// fixture runs the controller against a fake cluster.
type fixture struct {
	*controllertest.Fixture[*coderv1alpha1.CoderBackup]
	cloudNativePG
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	return newFixtureOf(t, newBackup(), objects...)
}

func newFixtureOf(t *testing.T, backup *coderv1alpha1.CoderBackup, objects ...client.Object) *fixture {
	t.Helper()
	f := &fixture{Fixture: controllertest.New(t, controllertest.Options[*coderv1alpha1.CoderBackup]{
		Name: client.ObjectKey{Namespace: "coder", Name: "first"},
		Status: func(b *coderv1alpha1.CoderBackup) *coderv1alpha1.WorkloadStatus {
			return &coderv1alpha1.WorkloadStatus{Conditions: b.Status.Conditions}
		},
		Further: func(b *fake.ClientBuilder) {
			b.WithIndex(&coderv1alpha1.CoderBackup{}, framework.IndexControlPlane, framework.IndexByControlPlane(controlPlaneOf))
		},
	})}
	f.Build(append(objects, backup)...)
	f.restart()
	return f
}

// restart creates a new controller with empty state, like a new process.
func (f *fixture) restart() {
	kit := framework.NewWith(f.Cluster, f.Cluster, f.Events, framework.Options{Clock: f.Clock, CheckAuthor: f.checkAuthor, Cluster: resources.Cluster{OperatorImage: "operator"}})
	kit.Uncached = f.around(f.Cluster, f.Clock.Now)
	f.Reconciler = New(kit)
}

func newBackup() *coderv1alpha1.CoderBackup {
	return &coderv1alpha1.CoderBackup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "first", UID: "backup-uid", Generation: 1},
		Spec: coderv1alpha1.CoderBackupSpec{
			ControlPlaneRef: coderv1alpha1.ControlPlaneReference{Name: "dev"},
			BackupTemplate: coderv1alpha1.BackupTemplate{Destination: coderv1alpha1.BackupDestination{
				PersistentVolumeClaim: &coderv1alpha1.BackupVolume{ClaimName: "backups"},
			}},
		},
	}
}

func controlPlane() *coderv1alpha1.CoderControlPlane {
	secret := &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}, Key: "keys"}}
	return &coderv1alpha1.CoderControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "dev", UID: "dev-uid"},
		Spec: coderv1alpha1.CoderControlPlaneSpec{
			Database:         &coderv1alpha1.DatabaseSpec{SecretRef: &coderv1alpha1.DatabaseSecretReference{Name: "db"}},
			LicenseSecretRef: &coderv1alpha1.SecretKeyReference{Name: "license"},
			WorkloadSpec:     coderv1alpha1.WorkloadSpec{ExtraEnv: []corev1.EnvVar{{Name: "CODER_EXTERNAL_TOKEN_ENCRYPTION_KEYS", ValueFrom: secret}}},
		},
		Status: coderv1alpha1.CoderControlPlaneStatus{Version: "v2.36.1+abc"},
	}
}

func (f *fixture) job(name string) *batchv1.Job {
	f.T.Helper()
	job := &batchv1.Job{}
	f.Get(name, job)
	return job
}

func (f *fixture) jobs() int {
	f.T.Helper()
	list := &batchv1.JobList{}
	f.List(list)
	return len(list.Items)
}

// ends ends a Job like Kubernetes, with the termination message of its pod.
func (f *fixture) ends(name string, how batchv1.JobConditionType, reason, message string) {
	f.T.Helper()
	job := f.job(name)
	controllertest.EndJob(f.Fixture.Fixture, job, how, reason, message)
}

func (f *fixture) phase(want coderv1alpha1.BackupPhase) {
	f.T.Helper()
	if got := f.Object().Status.Phase; got != want {
		f.T.Fatalf("the phase is %s, want %s; conditions %+v", got, want, f.Object().Status.Conditions)
	}
}

func TestBackup(t *testing.T) {
	f := newFixture(t)
	f.Settle()
	f.phase(coderv1alpha1.BackupPending)
	f.MustHave("Complete", "False", coderv1alpha1.ReasonControlPlaneUnavailable)
	f.MustBe("without a control plane", controllertest.KstatusInProgress)

	f.Create(controlPlane())
	f.Settle()
	f.phase(coderv1alpha1.BackupRunning)
	f.MustHave("Ready", "False", coderv1alpha1.ReasonBackupRunning)
	f.MustBe("while the Job runs", controllertest.KstatusInProgress)
	uid := f.job("first-backup").UID
	f.restart()
	f.Settle()
	if f.jobs() != 1 || f.job("first-backup").UID != uid {
		t.Error("a new leader started a second Job")
	}

	f.ends("first-backup", batchv1.JobComplete, "", result)
	f.Settle()
	f.phase(coderv1alpha1.BackupCompleted)
	f.MustHave("Ready", "True", coderv1alpha1.ReasonReady)
	f.MustHave("Complete", "True", coderv1alpha1.ReasonBackupCompleted)
	f.MustHave("SelfContained", "True", coderv1alpha1.ReasonNothingEncrypted)
	f.MustBe("when it is complete", controllertest.KstatusCurrent)
	got := f.Object().Status
	if got.SizeBytes != 4711 || got.Checksum != "abc" || got.CoderVersion != "v2.36.1+abc" || got.SchemaVersion != 512 || got.PostgresVersion != "17.6" ||
		got.Directory != "dev/first" || got.StartedAt == nil || got.CompletedAt == nil || strings.Join(got.SecretNames, " ") != "keys license" {
		t.Errorf("the status is %+v", got)
	}

	// A Job that is gone, and a control plane that is gone, change nothing.
	f.Remove(f.job("first-backup"))
	cp := &coderv1alpha1.CoderControlPlane{}
	f.Get("dev", cp)
	f.Remove(cp)
	f.restart()
	f.Settle()
	f.phase(coderv1alpha1.BackupCompleted)
	if f.jobs() != 0 {
		t.Error("a backup that is complete was made again")
	}
}

func TestEncryptionKeysAreNotInTheBackup(t *testing.T) {
	f := newFixture(t, controlPlane())
	f.Settle()
	f.ends("first-backup", batchv1.JobComplete, "", strings.Replace(result, "encryptionKeys=0", "encryptionKeys=2", 1))
	f.Settle()
	f.phase(coderv1alpha1.BackupCompleted)
	if c := f.MustHave("SelfContained", "False", coderv1alpha1.ReasonEncryptionKeysNeeded); !strings.Contains(c.Message, `Secret "keys"`) {
		t.Errorf("the message is %q", c.Message)
	}
	f.MustHave("Ready", "True", coderv1alpha1.ReasonReady)
	if f.Events.Count("Warning "+coderv1alpha1.ReasonEncryptionKeysNeeded) != 1 {
		t.Errorf("the Events are %q", f.Events.All())
	}
}

// The schema of the API allows a reference to a Secret without a name, for example while the backup runs.
func TestEncryptionKeysOfNoSecret(t *testing.T) {
	cp := controlPlane()
	cp.Spec.ExtraEnv[0].ValueFrom.SecretKeyRef.Name = ""
	f := newFixture(t, cp)
	f.Settle()
	f.ends("first-backup", batchv1.JobComplete, "", strings.Replace(result, "encryptionKeys=0", "encryptionKeys=2", 1))
	f.Settle()
	if c := f.MustHave("SelfContained", "False", coderv1alpha1.ReasonEncryptionKeysNeeded); !strings.Contains(c.Message, "without the keys (") {
		t.Errorf("the message is %q", c.Message)
	}
}

func TestFailedBackup(t *testing.T) {
	for _, test := range []struct{ name, jobReason, message, reason, says string }{
		{"with a known reason", batchv1.JobReasonPodFailurePolicy, "reason=ClientTooOld\nmessage=the image is old\n", coderv1alpha1.ReasonClientTooOld, "the image is old"},
		{"with an unknown reason", batchv1.JobReasonBackoffLimitExceeded, "reason=Ready\nmessage=well\n", coderv1alpha1.ReasonBackupFailed, "well"},
		{"without a message", batchv1.JobReasonBackoffLimitExceeded, "", coderv1alpha1.ReasonBackupFailed, "kubectl logs -n coder job/first-backup"},
		{"too late", batchv1.JobReasonDeadlineExceeded, "", coderv1alpha1.ReasonDeadlineExceeded, "raise activeDeadlineSeconds"},
		{"with a password", batchv1.JobReasonBackoffLimitExceeded, "message=postgres://coder:geheim@db/coder\n", coderv1alpha1.ReasonBackupFailed, "db/coder"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, controlPlane())
			f.Settle()
			f.ends("first-backup", batchv1.JobFailed, test.jobReason, test.message)
			f.Settle()
			f.phase(coderv1alpha1.BackupFailed)
			f.MustBe("when it has failed", controllertest.KstatusFailed)
			if c := f.MustHave("Complete", "False", test.reason); !strings.Contains(c.Message, test.says) {
				t.Errorf("the message is %q, without %q", c.Message, test.says)
			}
			if f.Events.Count("Warning "+test.reason) != 1 {
				t.Errorf("the Events are %q", f.Events.All())
			}
			f.MustNotExpose([]string{"geheim"})
		})
	}
}

func inBucket() *coderv1alpha1.CoderBackup {
	backup := newBackup()
	backup.Spec.Destination = coderv1alpha1.BackupDestination{S3: &coderv1alpha1.BackupS3{S3Bucket: coderv1alpha1.S3Bucket{
		Endpoint: "https://s3.example.com", Bucket: "backups", Prefix: "prod", SecretRef: coderv1alpha1.S3SecretReference{Name: "s3"},
	}}}
	return backup
}

// The result is that of the init container of PostgreSQL, and a failure that of any container.
func TestBackupToBucket(t *testing.T) {
	f := newFixtureOf(t, inBucket(), controlPlane())
	f.Settle()
	ended := func(name, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}}}
	}
	failed := controllertest.PodOf(f.job("first-backup"))
	failed.Status.InitContainerStatuses = []corev1.ContainerStatus{ended("postgresql", result)}
	failed.Status.ContainerStatuses = []corev1.ContainerStatus{ended("bucket-upload", "reason=BucketUnsuitable\nmessage=the bucket is full\n")}
	f.Create(failed)
	f.Settle()
	f.phase(coderv1alpha1.BackupRunning)
	f.Forward(time.Minute)
	pod := controllertest.PodOf(f.job("first-backup"))
	pod.Name, pod.CreationTimestamp = pod.Name+"-2", metav1.NewTime(f.Clock.Now())
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{ended("bucket-begin", ""), ended("postgresql", result)}
	f.Create(pod)
	f.ends("first-backup", batchv1.JobComplete, "", "")
	f.Settle()
	f.phase(coderv1alpha1.BackupCompleted)
	if got := f.Object().Status; got.Checksum != "abc" || got.SizeBytes != 4711 || got.Directory != "dev/first" {
		t.Errorf("the status is %+v", got)
	}

	f.Delete()
	f.Reconcile()
	f.Reconcile()
	if containers := f.job("first-delete").Spec.Template.Spec.Containers; len(containers) != 1 || containers[0].Image != "operator" {
		t.Errorf("the containers are %+v", containers)
	}
	f.Forward(deletionLimit + time.Second)
	f.Reconcile()
	if all := strings.Join(f.Events.All(), "\n"); !f.Gone() || !strings.Contains(all, `the directory "dev/first" in the bucket "backups" at https://s3.example.com, prefix "prod"`) {
		t.Errorf("the Events are %s", all)
	}
}

func TestBackupToBucketThatFails(t *testing.T) {
	f := newFixtureOf(t, inBucket(), controlPlane())
	f.Settle()
	pod := controllertest.PodOf(f.job("first-backup"))
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: "bucket-begin", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "reason=BucketUnsuitable\nmessage=there is no such bucket\n"}},
	}}
	f.Create(pod)
	f.ends("first-backup", batchv1.JobFailed, batchv1.JobReasonPodFailurePolicy, "")
	f.Settle()
	f.phase(coderv1alpha1.BackupFailed)
	if c := f.MustHave("Complete", "False", coderv1alpha1.ReasonBucketUnsuitable); !strings.Contains(c.Message, "there is no such bucket") {
		t.Errorf("the message is %q", c.Message)
	}
}

func TestBackupThatCannotStart(t *testing.T) {
	cp := controlPlane()
	cp.Spec.Database, cp.Spec.ExtraArgs = nil, []string{"--postgres-url=postgres://db"}
	f := newFixture(t, cp)
	f.Settle()
	f.phase(coderv1alpha1.BackupPending)
	f.MustHave("Complete", "False", coderv1alpha1.ReasonDatabaseUnsuitable)

	f = newFixture(t, controlPlane(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "first-backup", UID: "other"}})
	f.Settle()
	f.phase(coderv1alpha1.BackupPending)
	f.MustHave("Ready", "False", coderv1alpha1.ReasonNotOwned)

	f = newFixture(t, controlPlane())
	f.Settle()
	pod := controllertest.PodOf(f.job("first-backup"))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "postgresql", Image: "postgres:99",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
	f.Create(pod)
	f.Settle()
	f.MustHave("Complete", "False", coderv1alpha1.ReasonImagePullFailed)
	f.MustBe("while the image cannot be pulled", controllertest.KstatusInProgress)
}

// deleted returns a fixture with a complete backup that is being deleted.
func deleted(t *testing.T, change func(*coderv1alpha1.CoderBackup)) *fixture {
	t.Helper()
	f := newFixture(t, controlPlane())
	f.Settle()
	f.ends("first-backup", batchv1.JobComplete, "", result)
	f.Settle()
	f.Edit(change)
	f.Delete()
	return f
}

func TestDeletionDeletesFiles(t *testing.T) {
	f := deleted(t, func(*coderv1alpha1.CoderBackup) {})
	f.Reconcile() // It waits until the Job of the backup is gone.
	f.Reconcile()
	if job := f.job("first-delete"); job.Spec.Template.Spec.Containers[0].Args[0] != "delete" || f.jobs() != 1 {
		t.Errorf("there are %d Jobs, with %q", f.jobs(), job.Spec.Template.Spec.Containers[0].Args)
	}
	f.MustBe("while its files are deleted", controllertest.KstatusTerminating)
	f.ends("first-delete", batchv1.JobComplete, "", "")
	f.Reconcile()
	if !f.Gone() || f.Events.Count("Warning") != 0 {
		t.Errorf("the backup is not gone, or was not deleted well: %q", f.Events.All())
	}
}

func TestDeletionHasALimit(t *testing.T) {
	f := deleted(t, func(*coderv1alpha1.CoderBackup) {})
	f.Reconcile()
	f.Reconcile()
	f.ends("first-delete", batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, "reason=VolumeUnsuitable\nmessage=read-only\n")
	f.Reconcile()
	if c := f.MustHave("Ready", "False", coderv1alpha1.ReasonDeleting); !strings.Contains(c.Message, "read-only") {
		t.Errorf("the message is %q", c.Message)
	}
	f.Forward(deletionLimit + time.Second)
	f.Reconcile()
	if !f.Gone() || f.Events.Count("Warning "+coderv1alpha1.ReasonFilesLeftBehind) != 1 {
		t.Errorf("the backup is not gone, or nothing is reported: %q", f.Events.All())
	}
}

func TestDeletionRetainsFiles(t *testing.T) {
	f := deleted(t, func(b *coderv1alpha1.CoderBackup) { b.Spec.DeletionPolicy = coderv1alpha1.DeletionPolicyRetain })
	f.Reconcile()
	if !f.Gone() || f.jobs() != 1 {
		t.Errorf("the backup is not gone, or there are %d Jobs", f.jobs())
	}
}

// The control plane may be deleted before its backups.
func TestDeletionWithoutControlPlane(t *testing.T) {
	f := deleted(t, func(*coderv1alpha1.CoderBackup) {})
	cp := &coderv1alpha1.CoderControlPlane{}
	f.Get("dev", cp)
	f.Remove(cp)
	f.Reconcile()
	f.Reconcile()
	f.ends("first-delete", batchv1.JobComplete, "", "")
	f.Reconcile()
	if !f.Gone() {
		t.Errorf("the backup is not gone: %+v", f.Object().Status.Conditions)
	}
}
