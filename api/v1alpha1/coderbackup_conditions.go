package v1alpha1

// FinalizerBackup keeps a CoderBackup until its files, or its Backup of CloudNativePG, are deleted.
const FinalizerBackup = "coder.com/backup-files"

// AnnotationBackupUID on a Backup of CloudNativePG is the uid of the CoderBackup that it belongs to. It has no owner
// reference: the garbage collector would not consider spec.deletionPolicy.
const AnnotationBackupUID = "coder.com/backup-uid"

// Conditions of backups and of their restores.
const (
	// ConditionComplete is true when the backup is complete. A dump was also read back.
	ConditionComplete = "Complete"
	// ConditionSelfContained is false if the database contains tokens that Coder has encrypted, because
	// their keys are not in the backup. It is present when the backup is complete, and does not affect
	// Ready.
	ConditionSelfContained = "SelfContained"
	// ConditionScheduled is true when the schedule is valid. It does not depend on the results of the
	// backups.
	ConditionScheduled = "Scheduled"
	// ConditionLastBackupCompleted is present if a backup of the schedule has ended. It is false if the
	// last one failed. It does not affect Ready.
	ConditionLastBackupCompleted = "LastBackupCompleted"
	// ConditionDatabaseRestored is present if spec.bootstrap.fromBackup is set. It is true when the
	// database of the control plane is restored. Until then there is no Deployment.
	ConditionDatabaseRestored = "DatabaseRestored"
)

// Reasons of the conditions of backups and restores.
const (
	// ReasonBackupCompleted: the backup is complete. A dump was also read back.
	ReasonBackupCompleted = "BackupCompleted"
	// ReasonBackupRunning: a Job, or CloudNativePG, makes the backup.
	ReasonBackupRunning = "BackupRunning"
	// ReasonBackupFailed: the Job, or CloudNativePG, could not make the backup. Create another CoderBackup.
	ReasonBackupFailed = "BackupFailed"
	// ReasonDeadlineExceeded: the backup or the restore was not complete in time, see
	// activeDeadlineSeconds.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonClientTooOld: the programs of PostgreSQL in the image are older than the server.
	ReasonClientTooOld = "ClientTooOld"
	// ReasonDatabaseUnsuitable: the database is not one of Coder, a migration failed half way, or the
	// connection URL is not supported.
	ReasonDatabaseUnsuitable = "DatabaseUnsuitable"
	// ReasonVolumeUnsuitable: the volume of the backup cannot be written, or contains other files.
	ReasonVolumeUnsuitable = "VolumeUnsuitable"
	// ReasonBucketUnsuitable: the bucket of the backup cannot be reached, denies the access keys, or
	// contains other files.
	ReasonBucketUnsuitable = "BucketUnsuitable"
	// ReasonEncryptionKeysNeeded: Coder encrypts tokens in the database with keys that are not in the
	// backup.
	ReasonEncryptionKeysNeeded = "EncryptionKeysNeeded"
	// ReasonNothingEncrypted: the database contains no tokens that Coder has encrypted.
	ReasonNothingEncrypted = "NothingEncrypted"
	// ReasonCloudNativePGUnavailable: the cluster has no CloudNativePG, or it rejected the Backup.
	ReasonCloudNativePGUnavailable = "CloudNativePGUnavailable"
	// ReasonCloudNativePGForbidden: the operator may not create Backups of CloudNativePG. Set the value
	// backups.cloudNativePG of the Helm chart.
	ReasonCloudNativePGForbidden = "CloudNativePGForbidden"
	// ReasonFilesLeftBehind: the CoderBackup was deleted, but its files, or its Backup of CloudNativePG,
	// could not be deleted (Event).
	ReasonFilesLeftBehind = "FilesLeftBehind"

	// ReasonScheduled: backups are made by the schedule.
	ReasonScheduled = "Scheduled"
	// ReasonSuspended: spec.suspend is set, so no backups are made.
	ReasonSuspended = "Suspended"
	// ReasonInvalidSchedule: the schedule or its time zone is invalid.
	ReasonInvalidSchedule = "InvalidSchedule"
	// ReasonBackupDeleted: a schedule deleted a backup that is not kept any more (Event).
	ReasonBackupDeleted = "BackupDeleted"

	// ReasonRestored: the database was restored from the backup.
	ReasonRestored = "Restored"
	// ReasonRestoreRunning: a Job restores the database.
	ReasonRestoreRunning = "RestoreRunning"
	// ReasonRestoreFailed: pg_restore failed. It changed nothing.
	ReasonRestoreFailed = "RestoreFailed"
	// ReasonBackupUnavailable: there is no such CoderBackup, it is not complete, or an upgrade cannot make its backup.
	ReasonBackupUnavailable = "BackupUnavailable"
	// ReasonBackupUnusable: the files of the backup are missing, incomplete or changed.
	ReasonBackupUnusable = "BackupUnusable"
	// ReasonDatabaseNotEmpty: the database contains tables, so nothing is restored into it.
	ReasonDatabaseNotEmpty = "DatabaseNotEmpty"
)
