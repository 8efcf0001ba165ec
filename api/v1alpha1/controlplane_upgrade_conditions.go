package v1alpha1

// Condition about upgrades of Coder.
const (
	// ConditionUpgraded is present if Coder is or was upgraded to another minor version, see
	// status.upgrade. It is false while the upgrade runs and after it has failed, and true when the new
	// Coder responds.
	ConditionUpgraded = "Upgraded"
)

// Reasons of the condition Upgraded. Each phase of an upgrade has one, and an Event.
const (
	// ReasonUpgradeChecking: the image is pulled and the schema of the database is read. The old pods serve.
	ReasonUpgradeChecking = "UpgradeChecking"
	// ReasonUpgradeWaitingForBackup: the annotation coder.com/upgrade-backup does not name a backup for this
	// upgrade yet. The old pods serve.
	ReasonUpgradeWaitingForBackup = "UpgradeWaitingForBackup"
	// ReasonUpgradeStoppingProvisioners: the external provisioners finish their jobs and stop. The old pods
	// serve.
	ReasonUpgradeStoppingProvisioners = "UpgradeStoppingProvisioners"
	// ReasonUpgradeStopping: the old pods stop.
	ReasonUpgradeStopping = "UpgradeStopping"
	// ReasonUpgradeBackingUp: no pod runs, and a CoderBackup is made.
	ReasonUpgradeBackingUp = "UpgradeBackingUp"
	// ReasonUpgradeMigrating: one pod of the new image migrates the database.
	ReasonUpgradeMigrating = "UpgradeMigrating"
	// ReasonUpgradeVerifying: the new image does not work. It is stopped, and the schema is read again.
	ReasonUpgradeVerifying = "UpgradeVerifying"
	// ReasonUpgradeReverting: the old image starts again.
	ReasonUpgradeReverting = "UpgradeReverting"
	// ReasonUpgradeCompleted: the new Coder responds.
	ReasonUpgradeCompleted = "UpgradeCompleted"
	// ReasonUpgradeReverted: the upgrade failed, and the old Coder runs. The new image is not tried
	// again until spec.image changes.
	ReasonUpgradeReverted = "UpgradeReverted"
	// ReasonUpgradeFailed: the new image does not work, and the old one is not started, because the
	// schema has changed, is not known, or spec.upgrade.onFailure is Hold.
	ReasonUpgradeFailed = "UpgradeFailed"
	// ReasonUpgradeWithoutBackup: the upgrade goes on without a backup (Event).
	ReasonUpgradeWithoutBackup = "UpgradeWithoutBackup"
)
