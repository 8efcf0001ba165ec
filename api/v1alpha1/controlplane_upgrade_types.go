package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AnnotationRetryUpgrade on a CoderControlPlane tries an upgrade again that was taken back. Its value
// is status.upgrade.startedAt of that upgrade, so that it allows one attempt.
const AnnotationRetryUpgrade = "coder.com/retry-upgrade"

// AnnotationUpgradeBackup on a CoderControlPlane names the backup for which an upgrade with
// spec.upgrade.backup External waits. Its value is VERSION/NAME: the version, the tag or the digest of the
// new image, so that it is for no other upgrade, and the name that the backup has in the tool that made it.
// A value counts once: status.lastExternalBackup records it.
const AnnotationUpgradeBackup = "coder.com/upgrade-backup"

// UpgradeSpec describes how Coder is upgraded to another minor version.
type UpgradeSpec struct {
	// Backup decides whether a CoderBackup is made while Coder is stopped. It is made like those of the
	// CoderBackupSchedule of the control plane, also if that is suspended. With IfScheduled, the upgrade
	// goes on without a backup if there is no schedule. With Required, it does not begin then. If a
	// backup fails, the old image starts again. With External, another tool makes the backup, for example
	// that of a managed database: the old pods serve until the annotation coder.com/upgrade-backup names
	// it. Defaults to IfScheduled.
	// +optional
	// +kubebuilder:default=IfScheduled
	Backup UpgradeBackup `json:"backup,omitempty"`
	// OnFailure decides what happens if the new image cannot be pulled, crashes, or is not ready in time.
	// With Revert, the old image starts again, but only if the schema of the database is known to be
	// unchanged. With Hold, the new image stays. Defaults to Revert.
	// +optional
	// +kubebuilder:default=Revert
	OnFailure UpgradeFailurePolicy `json:"onFailure,omitempty"`
}

// UpgradeBackup decides whether a backup is made before an upgrade.
//
// +kubebuilder:validation:Enum=Required;IfScheduled;External;Never
type UpgradeBackup string

// When a backup is made before an upgrade.
const (
	UpgradeBackupRequired    UpgradeBackup = "Required"
	UpgradeBackupIfScheduled UpgradeBackup = "IfScheduled"
	UpgradeBackupExternal    UpgradeBackup = "External"
	UpgradeBackupNever       UpgradeBackup = "Never"
)

// UpgradeFailurePolicy is what happens with the image of a failed upgrade.
//
// +kubebuilder:validation:Enum=Revert;Hold
type UpgradeFailurePolicy string

// The failure policies.
const (
	UpgradeRevert UpgradeFailurePolicy = "Revert"
	UpgradeHold   UpgradeFailurePolicy = "Hold"
)

// UpgradePhase is the state of an upgrade in one word.
//
// +kubebuilder:validation:Enum=Checking;WaitingForBackup;StoppingProvisioners;Stopping;BackingUp;Migrating;Verifying;Reverting;Completed;Reverted;Failed
type UpgradePhase string

// The phases of an upgrade. The last three are the results.
const (
	// UpgradeChecking tries the new image, and reads the version of the schema, while the old pods serve.
	UpgradeChecking UpgradePhase = "Checking"
	// UpgradeWaitingForBackup waits until an annotation names the backup of another tool, or a schedule can
	// make one, while the old pods serve. Then the checks are repeated.
	UpgradeWaitingForBackup UpgradePhase = "WaitingForBackup"
	// UpgradeStoppingProvisioners waits until external provisioners have finished their jobs, while the old
	// pods serve.
	UpgradeStoppingProvisioners UpgradePhase = "StoppingProvisioners"
	// UpgradeStopping waits until no pod uses the database.
	UpgradeStopping UpgradePhase = "Stopping"
	// UpgradeBackingUp waits for the CoderBackup.
	UpgradeBackingUp UpgradePhase = "BackingUp"
	// UpgradeMigrating waits until one pod of the new image has migrated the database and responds.
	UpgradeMigrating UpgradePhase = "Migrating"
	// UpgradeVerifying stops the failed new image, and reads the version of the schema again.
	UpgradeVerifying UpgradePhase = "Verifying"
	// UpgradeReverting starts the old image again.
	UpgradeReverting UpgradePhase = "Reverting"
	// UpgradeCompleted: the new Coder responds.
	UpgradeCompleted UpgradePhase = "Completed"
	// UpgradeReverted: the old image runs, and the new one is not tried again.
	UpgradeReverted UpgradePhase = "Reverted"
	// UpgradeFailed: the new image does not work, and stays.
	UpgradeFailed UpgradePhase = "Failed"
)

// UpgradeStatus describes an upgrade to another minor version.
type UpgradeStatus struct {
	// Phase is Checking, WaitingForBackup, StoppingProvisioners, Stopping, BackingUp, Migrating, Verifying or
	// Reverting while the upgrade runs, and then Completed, Reverted or Failed.
	Phase UpgradePhase `json:"phase"`
	// FromVersion is the version of the Coder that ran.
	// +optional
	FromVersion string `json:"fromVersion,omitempty"`
	// FromImage is the image of that Coder.
	FromImage string `json:"fromImage"`
	// ToImage is the image of the spec. Its tag is the new version.
	ToImage string `json:"toImage"`
	// StartedAt is the time when the upgrade began.
	StartedAt metav1.Time `json:"startedAt"`
	// PhaseStartedAt is the time when the phase began. Deadlines count from it.
	PhaseStartedAt metav1.Time `json:"phaseStartedAt"`
	// FinishedAt is the time when the upgrade had its result.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// Backup is the name of the CoderBackup that this upgrade makes.
	// +optional
	Backup string `json:"backup,omitempty"`
	// ExternalBackup is the backup of another tool that the annotation coder.com/upgrade-backup named, or the
	// Backup of CloudNativePG.
	// +optional
	ExternalBackup string `json:"externalBackup,omitempty"`
	// StoppedAt is the time when the old pods had stopped. With a recovery of the database to this point in
	// time, no change in Coder is lost.
	// +optional
	StoppedAt *metav1.Time `json:"stoppedAt,omitempty"`
	// SchemaBefore is the number of the last migration in the database before the new image started.
	// +optional
	SchemaBefore int64 `json:"schemaBefore,omitempty"`
	// SchemaAfter is that number after the new image failed.
	// +optional
	SchemaAfter int64 `json:"schemaAfter,omitempty"`
	// Message says what is missing, such as a backup, and after a failure why the new image does not work.
	// +optional
	Message string `json:"message,omitempty"`
}
