package resources

import (
	"errors"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

func databaseJob(t *testing.T, mode DatabaseJobMode, spec coderv1alpha1.WorkloadSpec) (*batchv1.Job, error) {
	t.Helper()
	return databaseJobTo(coderv1alpha1.BackupDestination{PersistentVolumeClaim: &coderv1alpha1.BackupVolume{ClaimName: "backups"}}, Cluster{}, mode, spec)
}

func databaseJobTo(destination coderv1alpha1.BackupDestination, cluster Cluster, mode DatabaseJobMode, spec coderv1alpha1.WorkloadSpec) (*batchv1.Job, error) {
	cp := &coderv1alpha1.CoderControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "dev"}, Spec: coderv1alpha1.CoderControlPlaneSpec{WorkloadSpec: spec}}
	return DatabaseJob(cp, ControlPlane(cp, cluster), DatabaseJobSpec{
		Mode: mode, Name: "job", Destination: destination, DeadlineSeconds: 60, Variables: map[string]string{"BACKUP_UID": "a"},
	})
}

func inBucket() *coderv1alpha1.BackupS3 {
	return &coderv1alpha1.BackupS3{
		S3Bucket: coderv1alpha1.S3Bucket{
			Endpoint: "https://s3.example.com", Region: "us-east-1", Bucket: "backups", Prefix: "prod", PathStyle: ptr.To(true), SecretRef: coderv1alpha1.S3SecretReference{Name: "s3"},
		},
		AgeRecipients: []string{"age1a", "age1b"},
	}
}

// The golden files do not contain database.sh.
func TestGoldenBucketJobs(t *testing.T) {
	spec := coderv1alpha1.WorkloadSpec{ExtraEnv: []corev1.EnvVar{FromSecret(coderv1alpha1.EnvDatabase, "db", "url")}}
	jobs := map[string]any{}
	for _, mode := range []DatabaseJobMode{ModeBackup, ModeRestore, ModeDelete} {
		job, err := databaseJobTo(coderv1alpha1.BackupDestination{S3: inBucket()}, Cluster{OperatorImage: "example.com/coder-k8s:v1"}, mode, spec)
		if err != nil {
			t.Fatal(err)
		}
		pod := &job.Spec.Template.Spec
		for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
			for i := range containers {
				if containers[i].Name == databaseContainer {
					containers[i].Command[2] = "database.sh"
				}
			}
		}
		jobs[string(mode)] = job
	}
	compareGoldens(t, "databasejob", jobs)
}

// The access keys are in no container that another image runs in, and the database in none that talks to the bucket.
func TestBucketJobSeparatesSecrets(t *testing.T) {
	for _, mode := range []DatabaseJobMode{ModeBackup, ModeRestore, ModeDelete} {
		job, err := databaseJobTo(coderv1alpha1.BackupDestination{S3: inBucket()}, Cluster{OperatorImage: "operator"}, mode, coderv1alpha1.WorkloadSpec{
			ExtraEnv: []corev1.EnvVar{FromSecret(coderv1alpha1.EnvDatabase, "db", "url")},
		})
		if err != nil {
			t.Fatal(err)
		}
		pod := job.Spec.Template.Spec
		for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
			for _, variable := range container.Env {
				from := variable.ValueFrom
				if from == nil || from.SecretKeyRef == nil {
					continue
				}
				want := map[string]string{"operator": "s3", DefaultDatabaseImage: "db"}[container.Image]
				if from.SecretKeyRef.Name != want || from.SecretKeyRef.Key == "ageIdentity" && mode != ModeRestore {
					t.Errorf("%s: container %q gets %q of Secret %q", mode, container.Name, from.SecretKeyRef.Key, from.SecretKeyRef.Name)
				}
			}
			if security := container.SecurityContext; !ptr.Deref(security.ReadOnlyRootFilesystem, false) || !ptr.Deref(security.RunAsNonRoot, false) || container.Resources.Limits.Memory().IsZero() {
				t.Errorf("%s: container %q has %+v", mode, container.Name, security)
			}
		}
	}
	var wrong *SpecError
	if _, err := databaseJobTo(coderv1alpha1.BackupDestination{S3: inBucket()}, Cluster{}, ModeDelete, coderv1alpha1.WorkloadSpec{}); !errors.As(err, &wrong) {
		t.Errorf("if the operator does not know its image the error is %v", err)
	}
}

func TestScratchVolume(t *testing.T) {
	for name, test := range map[string]struct {
		scratch *coderv1alpha1.ScratchVolume
		want    string
	}{
		"default":    {nil, "emptyDir 10Gi"},
		"on a node":  {&coderv1alpha1.ScratchVolume{Size: "1Gi"}, "emptyDir 1Gi"},
		"of a class": {&coderv1alpha1.ScratchVolume{StorageClassName: "fast"}, "fast 10Gi"},
	} {
		destination := inBucket()
		destination.Scratch = test.scratch
		source := backupsSource(DatabaseJobSpec{Mode: ModeBackup, Destination: coderv1alpha1.BackupDestination{S3: destination}})
		got := ""
		if source.EmptyDir != nil {
			got = "emptyDir " + source.EmptyDir.SizeLimit.String()
		} else if claim := source.Ephemeral.VolumeClaimTemplate.Spec; claim.StorageClassName != nil {
			got = *claim.StorageClassName + " " + claim.Resources.Requests.Storage().String()
		}
		if got != test.want {
			t.Errorf("%s: the volume is %q, want %q", name, got, test.want)
		}
	}
}

// The pod of a backup has an image that is not Coder's, so it gets nothing of Coder's environment but the database.
func TestDatabaseJobGetsTheDatabaseOnly(t *testing.T) {
	from := []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "env"}}}}
	variables := []corev1.EnvVar{
		{Name: "CODER_OIDC_CLIENT_SECRET", Value: "a"}, FromSecret("PASSWORD", "db", "password"), {Name: "PGSSLROOTCERT", Value: "/ca"},
		{Name: coderv1alpha1.EnvDatabase, Value: "postgres://coder:$(PASSWORD)@db/coder"},
	}
	for _, test := range []struct {
		name string
		spec coderv1alpha1.WorkloadSpec
		want string
	}{
		{"from variables", coderv1alpha1.WorkloadSpec{ExtraEnv: variables, EnvFrom: from}, "PASSWORD PGSSLROOTCERT CODER_PG_CONNECTION_URL BACKUP_UID"},
		{"with a part from envFrom", coderv1alpha1.WorkloadSpec{ExtraEnv: slices.Delete(slices.Clone(variables), 1, 2), EnvFrom: from}, "PGSSLROOTCERT CODER_PG_CONNECTION_URL BACKUP_UID env"},
		{"from envFrom", coderv1alpha1.WorkloadSpec{EnvFrom: from}, "BACKUP_UID env"},
	} {
		job, err := databaseJob(t, ModeBackup, test.spec)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		container := job.Spec.Template.Spec.Containers[0]
		for _, variable := range container.Env {
			names = append(names, variable.Name)
		}
		for _, source := range container.EnvFrom {
			names = append(names, source.SecretRef.Name)
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("%s: the environment is %q, not %q", test.name, got, test.want)
		}
	}
	var wrong *SpecError
	if _, err := databaseJob(t, ModeBackup, coderv1alpha1.WorkloadSpec{ExtraArgs: []string{"--postgres-url=a"}}); !errors.As(err, &wrong) {
		t.Errorf("with the URL in an argument the error is %v", err)
	}
}

func TestDatabaseJobIsRestricted(t *testing.T) {
	for _, mode := range []DatabaseJobMode{ModeBackup, ModeRestore, ModeDelete} {
		job, err := databaseJob(t, mode, coderv1alpha1.WorkloadSpec{EnvFrom: []corev1.EnvFromSource{{Prefix: "A"}}})
		if err != nil {
			t.Fatal(err)
		}
		pod := job.Spec.Template.Spec
		container := pod.Containers[0]
		security := container.SecurityContext
		if !ptr.Deref(security.RunAsNonRoot, false) || !ptr.Deref(security.ReadOnlyRootFilesystem, false) || ptr.Deref(security.AllowPrivilegeEscalation, true) ||
			ptr.Deref(pod.AutomountServiceAccountToken, true) || ptr.Deref(pod.SecurityContext.FSGroup, 0) != containerUser || container.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: the pod is %+v", mode, pod)
		}
		if mounted := container.VolumeMounts[0]; mounted.Name != backupsVolume || mounted.ReadOnly != (mode == ModeRestore) {
			t.Errorf("%s: the volume is mounted as %+v", mode, mounted)
		}
		if mode == ModeDelete && (len(container.EnvFrom) > 0 || pod.ServiceAccountName != "") {
			t.Error("the deletion of files can reach the database")
		}
		if job.Spec.Template.Labels[coderv1alpha1.LabelName] == coderv1alpha1.ControlPlaneName {
			t.Errorf("%s: the Service of Coder selects the pod", mode)
		}
	}
}

// The Job that reads the schema has no volume of backups.
func TestSchemaJobHasNoVolume(t *testing.T) {
	job, err := databaseJob(t, ModeSchema, coderv1alpha1.WorkloadSpec{EnvFrom: []corev1.EnvFromSource{{Prefix: "A"}}})
	if err != nil {
		t.Fatal(err)
	}
	pod := job.Spec.Template.Spec
	for _, volume := range pod.Volumes {
		if volume.PersistentVolumeClaim != nil {
			t.Errorf("the pod has the volume %+v", volume)
		}
	}
	for _, mount := range pod.Containers[0].VolumeMounts {
		if mount.Name == backupsVolume {
			t.Errorf("the container mounts %+v", mount)
		}
	}
}
