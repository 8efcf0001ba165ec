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

// Conditions of workspaces, templates and users.
const (
	// ConditionReady is true when the object is as its spec asks: a workspace
	// that should run runs, its agents are connected and healthy and its pods have no
	// problem; one that should not is stopped; the newest version of a template was built and is active.
	ConditionReady = "Ready"
	// ConditionReconciling is true while a build is under way (kstatus).
	ConditionReconciling = "Reconciling"
	// ConditionStalled is true when a build or a startup script failed and only a
	// person can help (kstatus).
	ConditionStalled = "Stalled"
	// ConditionBuildSucceeded tells of the newest build of a workspace or of the
	// newest version of a template.
	ConditionBuildSucceeded = "BuildSucceeded"
	// ConditionAgentsConnected is true when every agent of a running workspace
	// is connected.
	ConditionAgentsConnected = "AgentsConnected"
	// ConditionPodsHealthy is there, and false, only while a pod of a workspace that
	// starts or runs has a problem, or the pod is gone. Pods are found by the label
	// com.coder.workspace.id.
	ConditionPodsHealthy = "PodsHealthy"
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

// Reasons of the condition PodsHealthy, and of Ready because of it.
const (
	// ReasonImagePullFailed is that a node cannot pull an image.
	ReasonImagePullFailed = "ImagePullFailed"
	// ReasonContainerConfigInvalid is that the kubelet cannot create a container, for
	// example because a Secret does not exist.
	ReasonContainerConfigInvalid = "ContainerConfigInvalid"
	// ReasonUnschedulable is that no node accepts the pod, for example because a volume
	// claim is not bound.
	ReasonUnschedulable = "Unschedulable"
	// ReasonVolumeMountFailed is that a volume cannot be attached or mounted.
	ReasonVolumeMountFailed = "VolumeMountFailed"
	// ReasonSandboxFailed is that the node cannot create the pod's sandbox or network.
	ReasonSandboxFailed = "SandboxFailed"
	// ReasonOutOfMemory is that a container exceeded its memory limit.
	ReasonOutOfMemory = "OutOfMemory"
	// ReasonContainerCrashed is that a container exits again and again, or is not
	// restarted.
	ReasonContainerCrashed = "ContainerCrashed"
	// ReasonPodEvicted is that the node ended the pod, for example because it is short
	// of memory or disk.
	ReasonPodEvicted = "PodEvicted"
	// ReasonPodGone is that the pod of a running workspace was deleted, and no other
	// takes its place.
	ReasonPodGone = "PodGone"
)

// Reasons of Events that are no reasons of conditions.
const (
	// ReasonStoppedBySchedule is that Coder stopped a workspace by itself: autostop or
	// dormancy.
	ReasonStoppedBySchedule = "StoppedBySchedule"
	// ReasonVersionPromoted is that another version of a template became the active one.
	ReasonVersionPromoted = "VersionPromoted"
)

// How deleting a CoderUser ends.
const (
	// ReclaimSuspend suspends the user in Coder. It is the default.
	ReclaimSuspend = "Suspend"
	// ReclaimDelete deletes the user in Coder.
	ReclaimDelete = "Delete"
)

// Reasons of the conditions.
const (
	// ReasonSuspended is that the user is suspended in Coder.
	ReasonSuspended = "Suspended"
	// ReasonDrifted is that a field that a manifest sets was changed in Coder. It is
	// brought to Coder again.
	ReasonDrifted = "Drifted"
	// ReasonRunning is that the workspace runs, and its agents and pods are healthy.
	ReasonRunning = "Running"
	// ReasonStopped is that the workspace is stopped.
	ReasonStopped = "Stopped"
	// ReasonActive is that the newest version of the template is the active one.
	ReasonActive = "Active"
	// ReasonBuildPending is that a build waits for a provisioner.
	ReasonBuildPending = "BuildPending"
	// ReasonBuildRunning is that a build is under way.
	ReasonBuildRunning = "BuildRunning"
	// ReasonBuildSucceeded is that the newest build succeeded.
	ReasonBuildSucceeded = "BuildSucceeded"
	// ReasonBuildFailed is that the newest build failed; the message says why.
	ReasonBuildFailed = "BuildFailed"
	// ReasonBuildCanceled is that the newest build was canceled.
	ReasonBuildCanceled = "BuildCanceled"
	// ReasonDeleting is that the workspace is being deleted.
	ReasonDeleting = "Deleting"
	// ReasonAgentsConnected is that all agents are connected.
	ReasonAgentsConnected = "AgentsConnected"
	// ReasonAgentsConnecting is that an agent has not connected yet.
	ReasonAgentsConnecting = "AgentsConnecting"
	// ReasonAgentsUnavailable is that an agent was disconnected, or did not connect in
	// time.
	ReasonAgentsUnavailable = "AgentsUnavailable"
	// ReasonAgentsUnhealthy is that all agents are connected and Coder reports one as
	// unhealthy, for example because its startup script failed.
	ReasonAgentsUnhealthy = "AgentsUnhealthy"
	// ReasonNoAgents is that the template has no agent.
	ReasonNoAgents = "NoAgents"
	// ReasonFilesUnreadable is that the source of the template cannot be read.
	ReasonFilesUnreadable = "FilesUnreadable"
	// ReasonFilesTooLarge is that the source of the template is too large to be shown.
	ReasonFilesTooLarge = "FilesTooLarge"
	// ReasonSynced is that Coder was told the spec.
	ReasonSynced = "Synced"
	// ReasonChangeWaits is that a change of the spec waits for the end of a build.
	ReasonChangeWaits = "ChangeWaits"
	// ReasonChangeRefused is that Coder does not accept the spec; the message says why.
	ReasonChangeRefused = "ChangeRefused"
	// ReasonCoderUnreachable is that Coder cannot be asked, so the object is as it was
	// last seen.
	ReasonCoderUnreachable = "CoderUnreachable"
	// ReasonOutdated is that the template has a newer active version.
	ReasonOutdated = "Outdated"
	// ReasonUpToDate is that the workspace has the active version of its template.
	ReasonUpToDate = "UpToDate"
	// ReasonDormant is that the workspace is stopped and dormant.
	ReasonDormant = "Dormant"
	// ReasonDeletionFailed is that Coder could not delete the workspace. It is tried
	// again.
	ReasonDeletionFailed = "DeletionFailed"
)
