package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LabelBackupSchedule on a CoderBackup is the name of the CoderBackupSchedule that created it.
const LabelBackupSchedule = "coder.com/backup-schedule"

// CoderBackupSchedule creates CoderBackups at fixed times, and deletes old ones. Deleting the schedule
// deletes no backup.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=cbaks,categories=coder
// +kubebuilder:printcolumn:name="Control Plane",type=string,JSONPath=`.spec.controlPlaneRef.name`
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Suspend",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Last Success",type=date,JSONPath=`.status.lastSuccessTime`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 52",message="metadata.name: must have at most 52 characters, because the names of the backups begin with it",fieldPath=".metadata"
type CoderBackupSchedule struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec describes the schedule.
	Spec CoderBackupScheduleSpec `json:"spec"`
	// Status is the observed state of the schedule.
	// +optional
	Status CoderBackupScheduleStatus `json:"status,omitzero"`
}

// CoderBackupScheduleList is a list of schedules.
//
// +kubebuilder:object:root=true
type CoderBackupScheduleList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CoderBackupSchedule `json:"items"`
}

// CoderBackupScheduleSpec describes when backups are made and how many are kept.
type CoderBackupScheduleSpec struct {
	// ControlPlaneRef refers to the CoderControlPlane whose database is backed up.
	ControlPlaneRef ControlPlaneReference `json:"controlPlaneRef"`
	// Schedule is a time in the form of cron, as in a CronJob: minute, hour, day of the month, month, day
	// of the week. If the operator missed several times, it makes one backup. While a backup of the
	// schedule runs, no other one starts.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="!self.contains('TZ') && (self.startsWith('@') || self.matches('^ *[^ ]+ +[^ ]+ +[^ ]+ +[^ ]+ +[^ ]+ *$'))",message="must be a time in the form of cron with five fields, for example 0 2 * * * for each night at two; the time zone is in timeZone"
	Schedule string `json:"schedule"`
	// TimeZone is the name of the time zone of the schedule, for example Europe/Berlin. Defaults to UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// Suspend stops the creation of backups. Old backups are kept meanwhile. When it ends, a backup that
	// was missed is made at once. Defaults to false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// KeepLast is the number of complete backups of this schedule that are kept. Of those that failed,
	// the last three are kept. Defaults to 7.
	// +optional
	// +kubebuilder:default=7
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	KeepLast *int32 `json:"keepLast,omitempty"`
	// Template describes the backups.
	Template BackupTemplate `json:"template"`
}

// CoderBackupScheduleStatus is the observed state of a schedule.
type CoderBackupScheduleStatus struct {
	// ObservedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are the conditions of the schedule: Ready, Reconciling and Stalled, which kstatus
	// evaluates, Scheduled, and LastBackupCompleted.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// LastScheduleTime is the time in the schedule of the last backup.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// NextScheduleTime is the next time in the schedule. It is unset while the schedule is suspended.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
	// LastSuccessTime is the time when the last complete backup was completed.
	// +optional
	LastSuccessTime *metav1.Time `json:"lastSuccessTime,omitempty"`
	// LastSuccessfulBackup is the name of the last complete backup.
	// +optional
	LastSuccessfulBackup string `json:"lastSuccessfulBackup,omitempty"`
}
