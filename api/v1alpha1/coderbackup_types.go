package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CoderBackup is one backup of the database of a CoderControlPlane, which is made once. A Job makes it
// with pg_dump and stores it in a volume or in a bucket of S3, or CloudNativePG makes it. Deleting the
// CoderBackup deletes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=cbak,categories=coder
// +kubebuilder:printcolumn:name="Control Plane",type=string,JSONPath=`.spec.controlPlaneRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.coderVersion`
// +kubebuilder:printcolumn:name="Bytes",type=integer,JSONPath=`.status.sizeBytes`
// +kubebuilder:printcolumn:name="Completed",type=date,JSONPath=`.status.completedAt`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CoderBackup struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec describes the backup. controlPlaneRef, destination and image cannot change.
	// +kubebuilder:validation:XValidation:rule="self.controlPlaneRef == oldSelf.controlPlaneRef && self.destination == oldSelf.destination && (has(self.image) ? self.image : '') == (has(oldSelf.image) ? oldSelf.image : '')",message="a backup is made once: its control plane, destination and image cannot change; create another CoderBackup"
	Spec CoderBackupSpec `json:"spec"`
	// Status is the observed state of the backup.
	// +optional
	Status CoderBackupStatus `json:"status,omitzero"`
}

// CoderBackupList is a list of backups.
//
// +kubebuilder:object:root=true
type CoderBackupList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CoderBackup `json:"items"`
}

// CoderBackupSpec describes a backup.
type CoderBackupSpec struct {
	// ControlPlaneRef refers to the CoderControlPlane whose database is backed up. Its pods may be
	// stopped meanwhile.
	ControlPlaneRef ControlPlaneReference `json:"controlPlaneRef"`

	BackupTemplate `json:",inline"`
}

// BackupTemplate describes how a backup is made and where it is stored.
type BackupTemplate struct {
	// Destination is where the files of the backup are stored.
	Destination BackupDestination `json:"destination"`
	// DeletionPolicy decides whether the files, or the Backup of CloudNativePG, are deleted with the
	// CoderBackup: Delete or Retain. Defaults to Delete.
	// +optional
	// +kubebuilder:default=Delete
	DeletionPolicy BackupDeletionPolicy `json:"deletionPolicy,omitempty"`
	// ActiveDeadlineSeconds is the time in which the backup must be complete. Defaults to 3600.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=1
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// CloudNativePG needs neither image nor resources.
	DatabaseClient `json:",inline"`
}

// BackupDeletionPolicy is what happens with the files of a deleted CoderBackup.
//
// +kubebuilder:validation:Enum=Delete;Retain
type BackupDeletionPolicy string

// The deletion policies.
const (
	DeletionPolicyDelete BackupDeletionPolicy = "Delete"
	DeletionPolicyRetain BackupDeletionPolicy = "Retain"
)

// DatabaseClient describes the container that reads or writes the database.
type DatabaseClient struct {
	// Image is a container image with pg_dump, pg_restore, psql and a shell. Their major version must be
	// that of the PostgreSQL server or a newer one. Defaults to docker.io/library/postgres:18-alpine.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.contains(' ')",message="must be an image without blanks, for example docker.io/library/postgres:18-alpine"
	Image string `json:"image,omitempty"`
	// Resources are the compute resources of the container. By default it requests 100m of CPU and
	// 128Mi of memory, and is limited to 1Gi of memory.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}

// BackupDestination is where a backup is stored: exactly one of its fields.
//
// +kubebuilder:validation:XValidation:rule="[has(self.persistentVolumeClaim), has(self.s3), has(self.cloudNativePG)].exists_one(given, given)",message="give exactly one place for the backup: persistentVolumeClaim, s3 or cloudNativePG"
type BackupDestination struct {
	// PersistentVolumeClaim is a volume in the same namespace. pg_dump writes the files of the backup.
	// +optional
	PersistentVolumeClaim *BackupVolume `json:"persistentVolumeClaim,omitempty"`
	// S3 is a bucket of Amazon S3, or of a server with the same API. pg_dump writes the files of the backup.
	// +optional
	S3 *BackupS3 `json:"s3,omitempty"`
	// CloudNativePG lets CloudNativePG make the backup, and store it as its Cluster says: the operator
	// creates a Backup (postgresql.cnpg.io/v1) in the same namespace. It needs the value
	// backups.cloudNativePG of the Helm chart, and that the user who writes this may create such Backups.
	// +optional
	CloudNativePG *CloudNativePGBackup `json:"cloudNativePG,omitempty"`
}

// CloudNativePGBackup describes a Backup of CloudNativePG.
//
// +kubebuilder:validation:XValidation:rule="(self.method == 'plugin') == has(self.pluginConfiguration)",message="pluginConfiguration belongs to the method plugin: give both or none"
type CloudNativePGBackup struct {
	// ClusterName is the name of the Cluster of CloudNativePG with Coder's database, in the same namespace.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Cluster of CloudNativePG: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	ClusterName string `json:"clusterName"`
	// Method is how CloudNativePG makes the backup: barmanObjectStore, volumeSnapshot or plugin. The Cluster
	// must be configured for it. Defaults to barmanObjectStore.
	// +optional
	// +kubebuilder:default=barmanObjectStore
	// +kubebuilder:validation:Enum=barmanObjectStore;volumeSnapshot;plugin
	Method string `json:"method,omitempty"`
	// PluginConfiguration is the plugin of CloudNativePG that makes the backup.
	// +optional
	PluginConfiguration *CloudNativePGPlugin `json:"pluginConfiguration,omitempty"`
}

// CloudNativePGPlugin refers to a plugin of CloudNativePG.
type CloudNativePGPlugin struct {
	// Name is the name of the plugin, for example barman-cloud.cloudnative-pg.io.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Parameters are the parameters of the plugin.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Parameters map[string]string `json:"parameters,omitempty"`
}

// BackupVolume refers to a PersistentVolumeClaim in the same namespace.
type BackupVolume struct {
	// ClaimName is the name of the PersistentVolumeClaim.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a PersistentVolumeClaim: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	ClaimName string `json:"claimName"`
}

// BackupS3 is a bucket for backups.
type BackupS3 struct {
	S3Bucket `json:",inline"`

	// AgeRecipients are public keys of age (age1...). If there are any, the dump is encrypted for them
	// before it leaves the pod, and a restore needs one of their identities. The manifest and the
	// checksums are not encrypted. Create a key with age-keygen, and keep it outside of the cluster.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=62
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^age1[02-9ac-hj-np-z]{58}$')",message="must be a public key of age, which begins with age1 and has 62 characters"
	AgeRecipients []string `json:"ageRecipients,omitempty"`
}

// S3Bucket describes how to reach a bucket and where the files are in it.
type S3Bucket struct {
	// Endpoint is the URL of the server, for example https://s3.eu-central-1.amazonaws.com. With http://
	// the dump is not protected on its way, unless it is encrypted with age.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[-.a-zA-Z0-9]+(:[0-9]{1,5})?$|^https?://[[][:0-9a-fA-F]+[]](:[0-9]{1,5})?$')",message="must be the URL of a server without a path, for example https://s3.eu-central-1.amazonaws.com"
	Endpoint string `json:"endpoint"`
	// Region is the region of the bucket. Defaults to us-east-1, which many other servers use.
	// +optional
	// +kubebuilder:default=us-east-1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-a-zA-Z0-9]+$')",message="must be the name of a region, for example eu-central-1"
	Region string `json:"region,omitempty"`
	// Bucket is the name of the bucket, which must exist.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9][-.a-z0-9]{1,61}[a-z0-9]$')",message="must be the name of a bucket: 3 to 63 lower case letters, digits, dashes and dots, a letter or digit at both ends"
	Bucket string `json:"bucket"`
	// Prefix is the directory in the bucket in which the directories of the backups are. Two clusters
	// must not share one. Defaults to the root of the bucket.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][-_.a-zA-Z0-9]*(/[a-zA-Z0-9][-_.a-zA-Z0-9]*)*$')",message="must be a directory in the bucket, without a slash at its ends, for example clusters/prod"
	Prefix string `json:"prefix,omitempty"`
	// PathStyle decides whether the name of the bucket is in the path of the URL (true) or in the host
	// name (false). By default it is in the host name for Amazon S3, Google Cloud Storage and Alibaba
	// Cloud, and in the path for all other servers.
	// +optional
	PathStyle *bool `json:"pathStyle,omitempty"`
	// SecretRef refers to a Secret in the same namespace with the keys accessKeyID and secretAccessKey.
	// It may also have sessionToken, ca.crt (certificates to trust in addition to those of the image,
	// in PEM format), and for a restore ageIdentity (AGE-SECRET-KEY-1...).
	SecretRef S3SecretReference `json:"secretRef"`
	// Scratch is the volume of the pod that stores the dump on its way.
	// +optional
	Scratch *ScratchVolume `json:"scratch,omitempty"`
}

// S3SecretReference refers to a Secret in the same namespace. Its keys have fixed names, so a reference
// cannot send the value of any other key to the server.
type S3SecretReference struct {
	// Name is the name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	Name string `json:"name"`
}

// ScratchVolume is a volume that exists as long as its pod.
type ScratchVolume struct {
	// Size is the maximum size of the dump. Defaults to 10Gi.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))",message="must be an amount of bytes, for example 20Gi"
	Size string `json:"size,omitempty"`
	// StorageClassName makes the volume a PersistentVolume of this class. By default it is on the disk of
	// the node (emptyDir).
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName string `json:"storageClassName,omitempty"`
}

// CoderBackupStatus is the observed state of a backup.
type CoderBackupStatus struct {
	// ObservedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is Pending, Running, Completed or Failed.
	// +optional
	Phase BackupPhase `json:"phase,omitempty"`
	// Conditions are the conditions of the backup: Ready, Reconciling and Stalled, which kstatus
	// evaluates, Complete and SelfContained.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// StartedAt is the time when the Job, or CloudNativePG, started.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// CompletedAt is the time when the Job, or CloudNativePG, completed.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
	// Directory is the directory of the files in the volume, or below the prefix in the bucket:
	// <control plane>/<backup>.
	// +optional
	Directory string `json:"directory,omitempty"`
	// CloudNativePGBackupName is the name of the Backup of CloudNativePG. CloudNativePG reports neither size
	// nor checksum nor the version of Coder's schema.
	// +optional
	CloudNativePGBackupName string `json:"cloudNativePGBackupName,omitempty"`
	// SizeBytes is the size of the dump.
	// +optional
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// Checksum is the SHA-256 checksum of the dump, in hexadecimal form.
	// +optional
	Checksum string `json:"checksum,omitempty"`
	// CoderVersion is the version of the Coder that last used the database.
	// +optional
	CoderVersion string `json:"coderVersion,omitempty"`
	// SchemaVersion is the number of the last migration in the database.
	// +optional
	SchemaVersion int64 `json:"schemaVersion,omitempty"`
	// PostgresVersion is the version of the PostgreSQL server, or its major version.
	// +optional
	PostgresVersion string `json:"postgresVersion,omitempty"`
	// SecretNames are the Secrets that the control plane refers to, except that of the database URL.
	// They are not in the backup. A restored control plane with the same spec needs them.
	// +optional
	// +listType=set
	SecretNames []string `json:"secretNames,omitempty"`
}

// BackupPhase is the state of a backup in one word.
//
// +kubebuilder:validation:Enum=Pending;Running;Completed;Failed
type BackupPhase string

// The phases of a backup.
const (
	BackupPending   BackupPhase = "Pending"
	BackupRunning   BackupPhase = "Running"
	BackupCompleted BackupPhase = "Completed"
	BackupFailed    BackupPhase = "Failed"
)

// BootstrapSpec describes how the database of a new control plane is filled.
type BootstrapSpec struct {
	// FromBackup restores a backup into the database, which must be empty, before Coder starts for the
	// first time.
	// +optional
	FromBackup *RestoreSpec `json:"fromBackup,omitempty"`
}

// RestoreSpec refers to a backup.
//
// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.files)",message="a backup is the name of a CoderBackup, or files in a volume or bucket; give exactly one"
type RestoreSpec struct {
	// Name is the name of a CoderBackup in the same namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a CoderBackup: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	Name string `json:"name,omitempty"`
	// Files are the files of a backup that has no CoderBackup in this namespace, for example because
	// the cluster was lost.
	// +optional
	Files *BackupFiles `json:"files,omitempty"`
	// ActiveDeadlineSeconds is the time in which the restore must be complete. Defaults to 3600.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=1
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// The image and the resources of the CoderBackup are used if these are not set.
	DatabaseClient `json:",inline"`
}

// BackupFiles refers to the files of a backup.
//
// +kubebuilder:validation:XValidation:rule="[has(self.persistentVolumeClaim), has(self.s3)].exists_one(given, given)",message="give exactly one of persistentVolumeClaim and s3"
type BackupFiles struct {
	// PersistentVolumeClaim is the volume with the files. The restore only reads it.
	// +optional
	PersistentVolumeClaim *BackupVolume `json:"persistentVolumeClaim,omitempty"`
	// S3 is the bucket with the files. The restore only reads it.
	// +optional
	S3 *S3Bucket `json:"s3,omitempty"`
	// Directory is the directory in the volume, or below the prefix in the bucket: <control plane>/<backup>.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][-_.a-zA-Z0-9]*(/[a-zA-Z0-9][-_.a-zA-Z0-9]*)*$')",message="must be a directory in the volume or bucket, without a slash at its ends, for example coder/nightly"
	Directory string `json:"directory"`
}

// RestoreStatus describes the backup from which the database was restored.
type RestoreStatus struct {
	// Backup is the name of the CoderBackup, or the volume or bucket and the directory of the files.
	Backup string `json:"backup"`
	// CompletedAt is the time when the database was restored.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
	// CoderVersion is the version of Coder in the backup.
	// +optional
	CoderVersion string `json:"coderVersion,omitempty"`
	// SchemaVersion is the number of the last migration in the backup.
	// +optional
	SchemaVersion int64 `json:"schemaVersion,omitempty"`
}
