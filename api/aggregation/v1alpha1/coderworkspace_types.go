package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CoderWorkspace is a workspace in a Coder deployment. Its name is
// <organization>.<user>.<workspace>, with <control-plane>. in front where its
// namespace holds more than one control plane.
//
// +kubebuilder:object:root=true
type CoderWorkspace struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the workspace that is wanted.
	// +optional
	Spec CoderWorkspaceSpec `json:"spec,omitempty"`
	// status is the workspace as Coder last told it.
	// +optional
	Status CoderWorkspaceStatus `json:"status,omitempty"`
}

// CoderWorkspaceList is a list of workspaces.
//
// +kubebuilder:object:root=true
type CoderWorkspaceList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the workspaces, sorted by namespace and name.
	Items []CoderWorkspace `json:"items"`
}

// CoderWorkspaceSpec is the workspace that is wanted.
type CoderWorkspaceSpec struct {
	// organization is the name that the organization had in Coder when the object was
	// made. It equals the organization in the object's name and cannot change.
	// +optional
	Organization string `json:"organization,omitempty"`
	// templateName is the name that the template in the same organization had when the
	// object was made. It cannot change.
	// +optional
	TemplateName string `json:"templateName,omitempty"`
	// templateVersionID pins a version of the template, as a UUID. Empty takes
	// the active version at creation and keeps the present one later. A change
	// builds the workspace anew.
	// +optional
	TemplateVersionID string `json:"templateVersionID,omitempty"`
	// templateVersionPreset is the name of a preset of the template version. It
	// gives values to parameters; what parameters names wins. It is brought to Coder
	// with a build that changes parameters, the preset or the version, not with a
	// plain start or stop.
	// +optional
	TemplateVersionPreset string `json:"templateVersionPreset,omitempty"`
	// parameters are values for the parameters of the template version. What is
	// not named here keeps the value that it has in Coder, and is not shown; what is
	// shown has the value of the newest build. A change builds the workspace anew. An
	// ephemeral parameter is refused, because its value counts for one build.
	// +optional
	// +listType=map
	// +listMapKey=name
	Parameters []WorkspaceParameter `json:"parameters,omitempty"`
	// running says whether the workspace shall run. Unset, a new workspace is
	// started and an existing one is left as it is. Coder starts what it creates:
	// a workspace that is created with false is stopped when it was built.
	// +optional
	Running *bool `json:"running,omitempty"`
	// ttlMillis is after how many milliseconds a started workspace stops by
	// itself. Unset, or 0 at creation, takes the template's default; 0 later is
	// never.
	// +optional
	TTLMillis *int64 `json:"ttlMillis,omitempty"`
	// autostartSchedule is a cron schedule in Coder's form, for example
	// "CRON_TZ=Europe/Berlin 30 9 * * 1-5".
	// +optional
	AutostartSchedule *string `json:"autostartSchedule,omitempty"`
	// automaticUpdates says whether a start takes the active version of the
	// template: always or never. Unset keeps what Coder has.
	// +optional
	AutomaticUpdates string `json:"automaticUpdates,omitempty"`
	// dormant says whether the workspace is put to sleep: it is stopped, and cannot
	// start before it is woken with false. Unset keeps what Coder has.
	// +optional
	Dormant *bool `json:"dormant,omitempty"`
}

// WorkspaceParameter is the value of a parameter of a template.
type WorkspaceParameter struct {
	// name is the name of the parameter in the template.
	Name string `json:"name"`
	// value is its value as text. Lists are written as JSON.
	Value string `json:"value"`
}

// CoderWorkspaceStatus is the workspace as Coder last told it.
type CoderWorkspaceStatus struct {
	// observedGeneration is the metadata.generation that Coder was told. It is
	// behind while a change waits for a build to end.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// id is the UUID of the workspace in Coder.
	// +optional
	ID string `json:"id,omitempty"`
	// phase is the status of the newest build: Pending, Starting, Running,
	// Stopping, Stopped, Failed, Canceling, Canceled, Deleting or Deleted.
	// +optional
	Phase string `json:"phase,omitempty"`
	// workspaceName is the name of the workspace in Coder now. The object keeps the
	// name that it had first.
	// +optional
	WorkspaceName string `json:"workspaceName,omitempty"`
	// ownerName is the user that owns the workspace.
	// +optional
	OwnerName string `json:"ownerName,omitempty"`
	// organizationName is the name of its organization.
	// +optional
	OrganizationName string `json:"organizationName,omitempty"`
	// templateName is the name of its template.
	// +optional
	TemplateName string `json:"templateName,omitempty"`
	// latestBuildID is the UUID of the newest build.
	// +optional
	LatestBuildID string `json:"latestBuildID,omitempty"`
	// latestBuildStatus is the status of the newest build in Coder's own words.
	// +optional
	LatestBuildStatus string `json:"latestBuildStatus,omitempty"`
	// latestBuildError is why the newest build failed.
	// +optional
	LatestBuildError string `json:"latestBuildError,omitempty"`
	// latestBuild is the newest build.
	// +optional
	LatestBuild *WorkspaceBuild `json:"latestBuild,omitempty"`
	// agents are those of the newest build, sorted by name.
	// +optional
	// +listType=atomic
	Agents []WorkspaceAgent `json:"agents,omitempty"`
	// healthy says whether a running workspace can be used: its agents are connected,
	// their startup scripts did not fail, and its pods have no problem. It is absent
	// while agents connect for the first time.
	// +optional
	Healthy *bool `json:"healthy,omitempty"`
	// outdated says that the template has a newer active version.
	// +optional
	Outdated bool `json:"outdated,omitempty"`
	// autoShutdown is when the workspace stops by itself.
	// +optional
	AutoShutdown *metav1.Time `json:"autoShutdown,omitempty"`
	// lastUsedAt is when it was last used.
	// +optional
	LastUsedAt *metav1.Time `json:"lastUsedAt,omitempty"`
	// conditions: Ready, Reconciling and Stalled as kstatus reads them, Synced,
	// BuildSucceeded, AgentsConnected and Outdated; PodsHealthy while a pod has a
	// problem, and DeletionFailed where a deletion did.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WorkspaceBuild is one start, stop or deletion of a workspace.
type WorkspaceBuild struct {
	// id is its UUID in Coder.
	// +optional
	ID string `json:"id,omitempty"`
	// number counts the builds of the workspace from 1.
	// +optional
	Number int32 `json:"number,omitempty"`
	// transition is start, stop or delete.
	// +optional
	Transition string `json:"transition,omitempty"`
	// status is that of the workspace after this build, in Coder's own words.
	// +optional
	Status string `json:"status,omitempty"`
	// reason is why it was built, for example initiator, autostart or autostop.
	// +optional
	Reason string `json:"reason,omitempty"`
	// error is why it failed.
	// +optional
	Error string `json:"error,omitempty"`
	// templateVersionID is the UUID of the template version that it was built
	// from.
	// +optional
	TemplateVersionID string `json:"templateVersionID,omitempty"`
	// templateVersionName is the name of that version.
	// +optional
	TemplateVersionName string `json:"templateVersionName,omitempty"`
	// createdAt is when it was asked for.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`
}

// WorkspaceAgent runs inside a workspace.
type WorkspaceAgent struct {
	// name is unique within the workspace.
	Name string `json:"name"`
	// status is connecting, connected, disconnected or timeout.
	// +optional
	Status string `json:"status,omitempty"`
	// lifecycleState is how far the agent's scripts are: created, starting, ready,
	// start_timeout, start_error, shutting_down, shutdown_timeout, shutdown_error or off.
	// +optional
	LifecycleState string `json:"lifecycleState,omitempty"`
	// unhealthy is why Coder reports the agent as unhealthy. It is empty if the agent
	// is healthy or connecting.
	// +optional
	Unhealthy string `json:"unhealthy,omitempty"`
	// version is the release of the agent's program.
	// +optional
	Version string `json:"version,omitempty"`
	// operatingSystem is that of the agent, for example linux.
	// +optional
	OperatingSystem string `json:"operatingSystem,omitempty"`
	// architecture is that of the agent, for example amd64.
	// +optional
	Architecture string `json:"architecture,omitempty"`
	// directory is where sessions begin.
	// +optional
	Directory string `json:"directory,omitempty"`
	// readyAt is when the startup scripts ended.
	// +optional
	ReadyAt *metav1.Time `json:"readyAt,omitempty"`
	// disconnectedAt is when the connection of a disconnected agent ended.
	// +optional
	DisconnectedAt *metav1.Time `json:"disconnectedAt,omitempty"`
	// apps are those that Coder shows to users, sorted by slug.
	// +optional
	// +listType=atomic
	Apps []WorkspaceApp `json:"apps,omitempty"`
}

// WorkspaceApp is an application of a workspace: a web page that Coder proxies, a
// terminal, or a link.
type WorkspaceApp struct {
	// slug is unique within the agent.
	Slug string `json:"slug"`
	// displayName is its name for people.
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// url is where a browser opens it. It is a path if the access URL of Coder is not
	// known.
	// +optional
	URL string `json:"url,omitempty"`
	// health is healthy, unhealthy or initializing. It is empty if the template defines
	// no health check.
	// +optional
	Health string `json:"health,omitempty"`
}
