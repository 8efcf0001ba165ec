package v1alpha1

// Labels on every served object.
const (
	// LabelControlPlaneName and LabelControlPlaneNamespace name the
	// CoderControlPlane in whose Coder the object lives.
	LabelControlPlaneName      = "aggregation.coder.com/control-plane-name"
	LabelControlPlaneNamespace = "aggregation.coder.com/control-plane-namespace"
)

// FinalizerWorkspace is on every workspace: a deleted one stays visible until it
// is gone in Coder.
const FinalizerWorkspace = "aggregation.coder.com/workspace"

// Conditions of workspaces and templates.
const (
	// ConditionReady is true when the object is as its spec asks: a workspace
	// that should run runs with its agents connected, one that should not is
	// stopped; the newest version of a template was built and is active.
	ConditionReady = "Ready"
	// ConditionReconciling is true while a build is under way (kstatus).
	ConditionReconciling = "Reconciling"
	// ConditionStalled is true when a build failed and only a person can help
	// (kstatus).
	ConditionStalled = "Stalled"
	// ConditionBuildSucceeded tells of the newest build of a workspace or of the
	// newest version of a template.
	ConditionBuildSucceeded = "BuildSucceeded"
	// ConditionAgentsConnected is true when every agent of a running workspace
	// is connected.
	ConditionAgentsConnected = "AgentsConnected"
	// ConditionSynced is true while Coder was told the spec and answers. It is
	// false while a change waits, and while Coder cannot be asked: the object is
	// then as it was last seen.
	ConditionSynced = "Synced"
	// ConditionOutdated is true when the template of a workspace has a newer
	// active version.
	ConditionOutdated = "Outdated"
	// ConditionDeletionFailed is there, and true, only where the deletion of a
	// workspace failed. It is tried again.
	ConditionDeletionFailed = "DeletionFailed"
	// ConditionFilesAvailable is there, and false, only where the source of a
	// template cannot be shown in spec.files.
	ConditionFilesAvailable = "FilesAvailable"
)

// Reasons of the conditions.
const (
	ReasonRunning           = "Running"
	ReasonStopped           = "Stopped"
	ReasonActive            = "Active"
	ReasonBuildPending      = "BuildPending"
	ReasonBuildRunning      = "BuildRunning"
	ReasonBuildSucceeded    = "BuildSucceeded"
	ReasonBuildFailed       = "BuildFailed"
	ReasonBuildCanceled     = "BuildCanceled"
	ReasonDeleting          = "Deleting"
	ReasonAgentsConnected   = "AgentsConnected"
	ReasonAgentsConnecting  = "AgentsConnecting"
	ReasonAgentsUnavailable = "AgentsUnavailable"
	ReasonNoAgents          = "NoAgents"
	ReasonFilesUnreadable   = "FilesUnreadable"
	ReasonFilesTooLarge     = "FilesTooLarge"
	ReasonSynced            = "Synced"
	ReasonChangeWaits       = "ChangeWaits"
	ReasonChangeRefused     = "ChangeRefused"
	ReasonCoderUnreachable  = "CoderUnreachable"
	ReasonOutdated          = "Outdated"
	ReasonUpToDate          = "UpToDate"
	ReasonDormant           = "Dormant"
	ReasonDeletionFailed    = "DeletionFailed"
)
