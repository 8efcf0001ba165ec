package resources

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// BucketCommand is the command of the operator's program that transfers the files between the volume and the bucket, with
// one of the others as its argument (package bucket).
const (
	BucketCommand = "bucket"
	// BucketBegin checks that the backup can be stored. If it is complete already, it downloads the manifest and the
	// checksums, so that database.sh and BucketUpload have nothing to do.
	BucketBegin = "begin"
	// BucketUpload stores the files, and reads them back.
	BucketUpload = "upload"
	// BucketDownload gets the files, and decrypts them.
	BucketDownload = "download"
	// BucketDelete deletes the objects of the backup, and no others.
	BucketDelete = "delete"
)

// The variables of BucketCommand. Those from EnvS3AccessKeyID on are from the Secret.
const (
	EnvBackupUID         = "BACKUP_UID"
	EnvBackupDirectory   = "BACKUP_DIRECTORY"
	EnvS3Endpoint        = "S3_ENDPOINT"
	EnvS3Region          = "S3_REGION"
	EnvS3Bucket          = "S3_BUCKET"
	EnvS3Prefix          = "S3_PREFIX"
	EnvS3PathStyle       = "S3_PATH_STYLE"
	EnvAgeRecipients     = "AGE_RECIPIENTS"
	EnvS3AccessKeyID     = "S3_ACCESS_KEY_ID"
	EnvS3SecretAccessKey = "S3_SECRET_ACCESS_KEY" // #nosec G101 -- it is the name of a variable.
	EnvS3SessionToken    = "S3_SESSION_TOKEN"     // #nosec G101 -- it is the name of a variable.
	EnvS3CA              = "S3_CA"
	EnvAgeIdentity       = "AGE_IDENTITY"
)

// backupsSource returns the volume for the files of a backup: that of the spec, or one that exists as long as the pod.
func backupsSource(job DatabaseJobSpec) corev1.VolumeSource {
	if claim := job.Destination.PersistentVolumeClaim; claim != nil {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.ClaimName}}
	}
	scratch := coderv1alpha1.ScratchVolume{}
	if s3 := job.Destination.S3; s3 != nil && s3.Scratch != nil {
		scratch = *s3.Scratch
	}
	size, err := resource.ParseQuantity(scratch.Size)
	if err != nil {
		size = resource.MustParse("10Gi")
	}
	if scratch.StorageClassName == "" || job.Mode == ModeDelete {
		return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size}}
	}
	return corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &scratch.StorageClassName,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
		},
	}}}
}

// addBucket adds the containers that transfer the files between the bucket and the volume of the database's container,
// and returns the names of all containers that do the work of the Job. Only these containers get the access keys, and only the
// database's container gets the database.
func addBucket(pod *corev1.PodSpec, database corev1.Container, image string, job DatabaseJobSpec) []string {
	names := []string{databaseContainer}
	container := func(command string) corev1.Container {
		name := BucketCommand + "-" + command
		names = append(names, name)
		return corev1.Container{
			Name: name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{BucketCommand, command}, Env: bucketEnvironment(job, command),
			Resources: databaseResources(job.Client.Resources), SecurityContext: database.SecurityContext.DeepCopy(),
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			VolumeMounts:             []corev1.VolumeMount{{Name: backupsVolume, MountPath: backupsPath}},
		}
	}
	switch job.Mode {
	case ModeBackup:
		pod.InitContainers = append(pod.InitContainers, container(BucketBegin), database)
		pod.Containers = []corev1.Container{container(BucketUpload)}
	case ModeRestore:
		pod.InitContainers = append(pod.InitContainers, container(BucketDownload))
	case ModeDelete:
		names = nil
		pod.Containers = []corev1.Container{container(BucketDelete)}
	}
	return names
}

func bucketEnvironment(job DatabaseJobSpec, command string) []corev1.EnvVar {
	s3 := job.Destination.S3
	env := []corev1.EnvVar{
		{Name: EnvBackupUID, Value: job.Variables[EnvBackupUID]}, {Name: EnvBackupDirectory, Value: job.Variables[EnvBackupDirectory]},
		{Name: EnvS3Endpoint, Value: s3.Endpoint}, {Name: EnvS3Region, Value: s3.Region},
		{Name: EnvS3Bucket, Value: s3.Bucket}, {Name: EnvS3Prefix, Value: s3.Prefix},
		FromSecret(EnvS3AccessKeyID, s3.SecretRef.Name, "accessKeyID"), FromSecret(EnvS3SecretAccessKey, s3.SecretRef.Name, "secretAccessKey"),
		optional(FromSecret(EnvS3SessionToken, s3.SecretRef.Name, "sessionToken")), optional(FromSecret(EnvS3CA, s3.SecretRef.Name, "ca.crt")),
	}
	if s3.PathStyle != nil {
		env = append(env, corev1.EnvVar{Name: EnvS3PathStyle, Value: strconv.FormatBool(*s3.PathStyle)})
	}
	if len(s3.AgeRecipients) > 0 {
		env = append(env, corev1.EnvVar{Name: EnvAgeRecipients, Value: strings.Join(s3.AgeRecipients, "\n")})
	}
	if command == BucketDownload {
		env = append(env, optional(FromSecret(EnvAgeIdentity, s3.SecretRef.Name, "ageIdentity")))
	}
	return env
}

func optional(variable corev1.EnvVar) corev1.EnvVar {
	variable.ValueFrom.SecretKeyRef.Optional = ptr.To(true)
	return variable
}
