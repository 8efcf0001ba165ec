package resources

import (
	"cmp"
	_ "embed"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// DefaultDatabaseImage is the image of DatabaseJob if the spec names none.
const DefaultDatabaseImage = "docker.io/library/postgres:18-alpine"

// DatabaseJobMode is what a DatabaseJob does.
type DatabaseJobMode string

// The modes, which are also arguments of database.sh.
const (
	ModeBackup  DatabaseJobMode = "backup"
	ModeRestore DatabaseJobMode = "restore"
	ModeDelete  DatabaseJobMode = "delete"
	ModeSchema  DatabaseJobMode = "schema_version"
)

const (
	databaseContainer  = "postgresql"
	databaseJobPodName = "coder-backup"
	// ExitHopeless is the exit code of database.sh and of BucketCommand if another attempt would fail too.
	ExitHopeless = 3

	backupsVolume, backupsPath = "coder-k8s-backups", "/backups"
	workVolume, workPath       = "coder-k8s-work", "/work"
)

//go:embed database.sh
var databaseScript string

// DatabaseJobSpec describes a Job that reads or writes the database of a control plane, or deletes
// the files of a backup.
type DatabaseJobSpec struct {
	Mode DatabaseJobMode
	// Name is the name of the Job.
	Name   string
	Client coderv1alpha1.DatabaseClient
	// Destination is where the files of the backup are. ModeSchema has none.
	Destination coderv1alpha1.BackupDestination
	// DeadlineSeconds is the time in which the Job must end. TTLSeconds is the time after which it is
	// deleted, or nil if it stays.
	DeadlineSeconds int64
	TTLSeconds      *int32
	// Variables are the variables of database.sh.
	Variables map[string]string
}

// DatabaseJob returns a Job that runs database.sh in an image of PostgreSQL. Its pod is like that of
// coderd, with the same volumes and init containers, so that certificates and proxies of the database
// work. Of the environment it gets only the database. It returns a SpecError if the control plane does not
// configure its database with an environment variable.
func DatabaseJob(cp *coderv1alpha1.CoderControlPlane, w Workload, job DatabaseJobSpec) (*batchv1.Job, error) {
	pod, container := taskPod(cp, w)
	container.Name, container.Image, container.ImagePullPolicy = databaseContainer, cmp.Or(job.Client.Image, DefaultDatabaseImage), ""
	container.Command, container.Args, container.WorkingDir = []string{"/bin/sh", "-c", databaseScript, "database.sh"}, []string{string(job.Mode)}, ""
	var err error
	if container.Env, container.EnvFrom, err = databaseEnvironment(container); err != nil && job.Mode != ModeDelete {
		return nil, err
	}
	if job.Mode == ModeDelete {
		container.Env, container.EnvFrom, container.VolumeMounts, pod.InitContainers, pod.Volumes = nil, nil, nil, nil, nil
		pod.ServiceAccountName = ""
	}
	for _, name := range slices.Sorted(maps.Keys(job.Variables)) {
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: job.Variables[name]})
	}
	container.Resources = databaseResources(job.Client.Resources)
	container.SecurityContext.ReadOnlyRootFilesystem = ptr.To(true)
	container.TerminationMessagePolicy = corev1.TerminationMessageReadFile
	if job.Mode != ModeSchema {
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: backupsVolume, MountPath: backupsPath, ReadOnly: job.Mode == ModeRestore})
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: backupsVolume, VolumeSource: backupsSource(job)})
	}
	// The password of the database is in this volume while the pod runs.
	memory := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("16Mi"))}
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: workVolume, MountPath: workPath})
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: workVolume, VolumeSource: corev1.VolumeSource{EmptyDir: memory}})
	pod.Containers = []corev1.Container{container}
	names := []string{databaseContainer}
	if job.Destination.S3 != nil {
		if w.OperatorImage == "" {
			return nil, &SpecError{Field: "spec.destination.s3", Detail: "the operator does not know its own image, which transfers the files: set the environment variable POD_IMAGE of its pod, as the chart does"}
		}
		names = addBucket(&pod, container, w.OperatorImage, job)
	}
	// The user of the pod writes to its volumes.
	security := ptr.Deref(pod.SecurityContext.DeepCopy(), corev1.PodSecurityContext{})
	if security.FSGroup == nil && !w.Spec.PlatformAssignedUser {
		security.FSGroup = ptr.To[int64](containerUser)
	}
	if security.FSGroupChangePolicy == nil && security.FSGroup != nil {
		security.FSGroupChangePolicy = ptr.To(corev1.FSGroupChangeOnRootMismatch)
	}
	pod.SecurityContext = &security
	built := newJob(cp, job.Name, databaseJobPodName, pod)
	built.Spec.BackoffLimit, built.Spec.ActiveDeadlineSeconds = ptr.To[int32](3), ptr.To(job.DeadlineSeconds)
	built.Spec.TTLSecondsAfterFinished = job.TTLSeconds
	// Never two pods at the same time.
	built.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
	built.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{}
	for _, name := range names {
		built.Spec.PodFailurePolicy.Rules = append(built.Spec.PodFailurePolicy.Rules, batchv1.PodFailurePolicyRule{
			Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				ContainerName: ptr.To(name), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{ExitHopeless},
			},
		})
	}
	built.Spec.PodFailurePolicy.Rules = append(built.Spec.PodFailurePolicy.Rules, disruptionIsNoFailure())
	return built, nil
}

// disruptionIsNoFailure returns the rule that a pod that was evicted is replaced, and does not count.
func disruptionIsNoFailure() batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: batchv1.PodFailurePolicyActionIgnore, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
	}}
}

func databaseResources(given *corev1.ResourceRequirements) corev1.ResourceRequirements {
	if given != nil {
		return *given.DeepCopy()
	}
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
	}
}

// variableReference is a reference to another variable in the value of a variable.
var variableReference = regexp.MustCompile(`\$\(([-._a-zA-Z0-9]+)\)`)

// databaseEnvironment returns the part of coderd's environment that its database needs: the
// connection URL, how coderd authenticates, the variables of libpq, and those that these refer to. The
// variables of spec.envFrom are added if one of these is not in the list.
func databaseEnvironment(coderd corev1.Container) ([]corev1.EnvVar, []corev1.EnvFromSource, error) {
	const envAuth = "CODER_PG_AUTH"
	wanted := map[string]bool{coderv1alpha1.EnvDatabase: true}
	var env []corev1.EnvVar
	// A variable refers only to those before it.
	for _, variable := range slices.Backward(coderd.Env) {
		if !wanted[variable.Name] && variable.Name != envAuth && !strings.HasPrefix(variable.Name, "PG") {
			continue
		}
		delete(wanted, variable.Name)
		for _, reference := range variableReference.FindAllStringSubmatch(variable.Value, -1) {
			wanted[reference[1]] = true
		}
		env = append(env, variable)
	}
	slices.Reverse(env)
	switch {
	case len(wanted) == 0:
		return env, nil, nil
	case len(coderd.EnvFrom) > 0:
		return env, coderd.EnvFrom, nil
	}
	return nil, nil, &SpecError{Field: "spec.database", Detail: "the connection URL of the database must be in the environment variable " + coderv1alpha1.EnvDatabase +
		": set spec.database, which takes it from a Secret, instead of " + flagDatabase}
}

// ResultNumber returns a number of the result of database.sh, or 0.
func ResultNumber(result map[string]string, name string) int64 {
	n, err := strconv.ParseInt(result[name], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
