package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CoderBackup is one backup of the database of a CoderControlPlane. A Job makes it once, with
// pg_dump, and stores it in a volume. Deleting the CoderBackup deletes its files.
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
	// DeletionPolicy decides whether the files are deleted with the CoderBackup: Delete or Retain.
	// Defaults to Delete.
	// +optional
	// +kubebuilder:default=Delete
	DeletionPolicy BackupDeletionPolicy `json:"deletionPolicy,omitempty"`
	// ActiveDeadlineSeconds is the time in which the backup must be complete. Defaults to 3600.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=1
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

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

// BackupDestination is where the files of a backup are stored.
type BackupDestination struct {
	// PersistentVolumeClaim is a volume in the same namespace.
	PersistentVolumeClaim BackupVolume `json:"persistentVolumeClaim"`
}

// BackupVolume refers to a PersistentVolumeClaim in the same namespace.
type BackupVolume struct {
	// ClaimName is the name of the PersistentVolumeClaim.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a PersistentVolumeClaim: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	ClaimName string `json:"claimName"`
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
	// StartedAt is the time when the Job started.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// CompletedAt is the time when the Job completed.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
	// Directory is the directory of the files in the volume: <control plane>/<backup>.
	// +optional
	Directory string `json:"directory,omitempty"`
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
	// PostgresVersion is the version of the PostgreSQL server.
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
// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.files)",message="a backup is the name of a CoderBackup, or files in a volume; give exactly one"
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
type BackupFiles struct {
	// PersistentVolumeClaim is the volume with the files. The restore only reads it.
	PersistentVolumeClaim BackupVolume `json:"persistentVolumeClaim"`
	// Directory is the directory in the volume: <control plane>/<backup>.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][-_.a-zA-Z0-9]*(/[a-zA-Z0-9][-_.a-zA-Z0-9]*)*$')",message="must be a directory in the volume, without a slash at its ends, for example coder/nightly"
	Directory string `json:"directory"`
}

// RestoreStatus describes the backup from which the database was restored.
type RestoreStatus struct {
	// Backup is the name of the CoderBackup, or the volume and the directory of the files.
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
