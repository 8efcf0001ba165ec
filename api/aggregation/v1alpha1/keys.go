package v1alpha1

// Labels on every served object.
const (
	// LabelControlPlaneName and LabelControlPlaneNamespace name the CoderControlPlane of the
	// object's Coder.
	LabelControlPlaneName      = "aggregation.coder.com/control-plane-name"
	LabelControlPlaneNamespace = "aggregation.coder.com/control-plane-namespace"
)

// Labels on every CoderTemplateVersion. A part of a name that is longer than 63 characters is no value of a label, and is omitted.
const (
	// LabelTemplate is the name of the template: the second part of the name of its CoderTemplate, which does not change.
	LabelTemplate = "aggregation.coder.com/template"
	// LabelOrganization is the name of its organization: the first part of the name of its CoderTemplate.
	LabelOrganization = "aggregation.coder.com/organization"
)

// LabelWorkspaceID is the label that Coder's templates for Kubernetes set on the objects of a
// workspace. Its value is the ID of the workspace.
const LabelWorkspaceID = "com.coder.workspace.id"

// ControlPlaneLabels returns the labels that the server sets on each object. Clients cannot change
// them.
func ControlPlaneLabels() []string {
	return []string{LabelControlPlaneName, LabelControlPlaneNamespace}
}

// FinalizerWorkspace is on every workspace. A deleted workspace stays visible until it is gone in
// Coder.
const FinalizerWorkspace = "aggregation.coder.com/workspace"

// Conditions of workspaces, templates and users.
const (
	// ConditionReady is true if the object is in the state that its spec requests. A workspace that
	// should run is running, its agents are connected and healthy, and its pods have no problem. A
	// workspace that should not run is stopped. The newest version of a template is built and
	// active, or is a candidate. An object that is being deleted is not ready.
	ConditionReady = "Ready"
	// ConditionReconciling is true while a build is pending or running, a change of the spec or a
	// deletion is pending, or the agents of a started workspace have not connected yet (kstatus).
	ConditionReconciling = "Reconciling"
	// ConditionStalled is true if a user must act: a build failed or was canceled, a startup script or a test
	// of a template failed, Coder rejects the spec, a build has waited for a minute for a provisioner with its tags,
	// or a pod of a workspace has had a problem for a minute that does not resolve itself (kstatus).
	ConditionStalled = "Stalled"
	// ConditionBuildSucceeded is true if the newest build of a workspace, or of the newest version
	// of a template, succeeded. It is Unknown while the build is pending or running.
	ConditionBuildSucceeded = "BuildSucceeded"
	// ConditionAgentsConnected is true if the workspace runs and all of its agents are connected,
	// or it has no agents.
	ConditionAgentsConnected = "AgentsConnected"
	// ConditionPodsHealthy is present, and false, only while a pod of a workspace that starts or
	// runs has a problem or is gone. Pods are found by the label com.coder.workspace.id.
	ConditionPodsHealthy = "PodsHealthy"
	// ConditionSynced is true while the spec is applied to Coder and Coder answers. It is false
	// while a change is pending, and while Coder does not answer or the object cannot be read: the object
	// then has its last seen state.
	ConditionSynced = "Synced"
	// ConditionOutdated is true when the template of a workspace has a newer
	// active version.
	ConditionOutdated = "Outdated"
	// ConditionDeletionFailed is present, and true, only if the deletion of a workspace failed. It
	// is retried.
	ConditionDeletionFailed = "DeletionFailed"
	// ConditionFilesAvailable is present, and false, only if the source of a template cannot be
	// shown in spec.files.
	ConditionFilesAvailable = "FilesAvailable"
	// ConditionTruncated is present, and true, only if the object is too large to be stored in
	// Kubernetes. Its message lists the fields that are left out or shortened.
	ConditionTruncated = "Truncated"
	// ConditionVersionsTruncated is present, and true, only if a template has versions without a CoderTemplateVersion.
	ConditionVersionsTruncated = "VersionsTruncated"
)

// Reasons of the condition PodsHealthy, and of Ready because of it.
const (
	// ReasonImagePullFailed means that a node cannot pull an image.
	ReasonImagePullFailed = "ImagePullFailed"
	// ReasonContainerConfigInvalid means that the kubelet cannot create a container, for example
	// because a Secret does not exist.
	ReasonContainerConfigInvalid = "ContainerConfigInvalid"
	// ReasonUnschedulable means that no node accepts the pod, for example because a volume claim is
	// not bound.
	ReasonUnschedulable = "Unschedulable"
	// ReasonVolumeMountFailed means that a volume cannot be attached or mounted.
	ReasonVolumeMountFailed = "VolumeMountFailed"
	// ReasonSandboxFailed means that the node cannot create the pod's sandbox or network.
	ReasonSandboxFailed = "SandboxFailed"
	// ReasonOutOfMemory means that a container exceeded its memory limit.
	ReasonOutOfMemory = "OutOfMemory"
	// ReasonContainerCrashed means that a container exits repeatedly, or is not restarted.
	ReasonContainerCrashed = "ContainerCrashed"
	// ReasonPodEvicted means that the node evicted the pod, for example because it is short of
	// memory or disk.
	ReasonPodEvicted = "PodEvicted"
	// ReasonNodeLost means that the node of the pod does not report any more.
	ReasonNodeLost = "NodeLost"
	// ReasonPodGone means that the pod of a running workspace was deleted and not replaced.
	ReasonPodGone = "PodGone"
)

// Reasons of Events that are not reasons of conditions.
const (
	// ReasonStoppedBySchedule means that Coder stopped a workspace by itself: autostop or dormancy.
	ReasonStoppedBySchedule = "StoppedBySchedule"
	// ReasonVersionPromoted means that another version of a template became active.
	ReasonVersionPromoted = "VersionPromoted"
)

// Values of spec.reclaimPolicy of a CoderUser.
const (
	// ReclaimSuspend suspends the user in Coder. It is the default.
	ReclaimSuspend = "Suspend"
	// ReclaimDelete deletes the user in Coder.
	ReclaimDelete = "Delete"
)

// Reasons of the conditions.
const (
	// ReasonSuspended means that the user is suspended in Coder.
	ReasonSuspended = "Suspended"
	// ReasonDrifted means that a field that a manifest sets was changed in Coder. It is applied to
	// Coder again.
	ReasonDrifted = "Drifted"
	// ReasonRunning means that the workspace runs, and its agents and pods are healthy.
	ReasonRunning = "Running"
	// ReasonStopped means that the workspace is stopped.
	ReasonStopped = "Stopped"
	// ReasonActive means that the newest version of the template is active.
	ReasonActive = "Active"
	// ReasonAwaitingPromotion means that a version of the template is active, and that its candidate
	// is built and waits until it is promoted.
	ReasonAwaitingPromotion = "AwaitingPromotion"
	// ReasonTestsRunning means that the candidate of a template is built, and that spec.tests have not all
	// succeeded yet. The message says what they wait for.
	ReasonTestsRunning = "TestsRunning"
	// ReasonTestsFailed means that the candidate of a template failed one of spec.tests. The message has
	// the test and the check.
	ReasonTestsFailed = "TestsFailed"
	// ReasonBuildPending means that a build waits for a provisioner.
	ReasonBuildPending = "BuildPending"
	// ReasonNoProvisioner means that a build waits, and no connected provisioner has its tags. The
	// message has the tags.
	ReasonNoProvisioner = "NoProvisioner"
	// ReasonBuildRunning means that a build is running.
	ReasonBuildRunning = "BuildRunning"
	// ReasonBuildSucceeded means that the newest build succeeded.
	ReasonBuildSucceeded = "BuildSucceeded"
	// ReasonBuildFailed means that the newest build failed. The message has the error.
	ReasonBuildFailed = "BuildFailed"
	// ReasonBuildCanceled means that the newest build was canceled.
	ReasonBuildCanceled = "BuildCanceled"
	// ReasonDeleting means that the object is being deleted. The message says what the deletion
	// waits for.
	ReasonDeleting = "Deleting"
	// ReasonAgentsConnected means that all agents are connected.
	ReasonAgentsConnected = "AgentsConnected"
	// ReasonAgentsConnecting means that an agent has not connected yet.
	ReasonAgentsConnecting = "AgentsConnecting"
	// ReasonAgentsUnavailable means that an agent was disconnected, or did not connect in time.
	ReasonAgentsUnavailable = "AgentsUnavailable"
	// ReasonAgentsUnhealthy means that all agents are connected, but Coder reports one as
	// unhealthy, for example because its startup script failed.
	ReasonAgentsUnhealthy = "AgentsUnhealthy"
	// ReasonNoAgents means that the template has no agent.
	ReasonNoAgents = "NoAgents"
	// ReasonFilesUnreadable means that the source of the template cannot be read.
	ReasonFilesUnreadable = "FilesUnreadable"
	// ReasonFilesTooLarge means that the source of the template is too large to be shown.
	ReasonFilesTooLarge = "FilesTooLarge"
	// ReasonTooManyVersions means that only the newest versions of a template are served as objects.
	ReasonTooManyVersions = "TooManyVersions"
	// ReasonTooLarge means that the object is too large to be stored completely.
	ReasonTooLarge = "TooLarge"
	// ReasonSynced means that the spec is applied to Coder.
	ReasonSynced = "Synced"
	// ReasonChangeWaits means that a change of the spec waits for the end of a build.
	ReasonChangeWaits = "ChangeWaits"
	// ReasonChangeRefused means that Coder rejects the spec. The message has the error.
	ReasonChangeRefused = "ChangeRefused"
	// ReasonCoderUnreachable means that Coder does not answer, or that the operator's account does not see all
	// objects any more, so the object has its last seen state.
	ReasonCoderUnreachable = "CoderUnreachable"
	// ReasonReadFailed means that the operator could not read this object in Coder, convert it or store its metadata
	// for a minute, so the object has its last seen state.
	ReasonReadFailed = "ReadFailed"
	// ReasonOutdated means that the template has a newer active version.
	ReasonOutdated = "Outdated"
	// ReasonUpToDate means that the workspace uses the active version of its template.
	ReasonUpToDate = "UpToDate"
	// ReasonDormant means that the workspace is stopped and dormant.
	ReasonDormant = "Dormant"
	// ReasonDeletionFailed means that Coder could not delete the workspace. The deletion is
	// retried.
	ReasonDeletionFailed = "DeletionFailed"
)
