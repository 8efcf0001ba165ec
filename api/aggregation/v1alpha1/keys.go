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
)
