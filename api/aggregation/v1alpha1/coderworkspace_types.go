package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CoderWorkspace is a workspace in a Coder deployment. Its name is
// <organization>.<user>.<workspace>. It begins with status.objectNamePrefix of the
// CoderControlPlane, which is "<control-plane>." for all but the first one of the namespace.
//
// +kubebuilder:object:root=true
type CoderWorkspace struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the workspace.
	// +optional
	Spec CoderWorkspaceSpec `json:"spec,omitempty"`
	// status is the state of the workspace that Coder last reported.
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

// CoderWorkspaceSpec is the desired state of a workspace.
type CoderWorkspaceSpec struct {
	// organization is the name that the organization had in Coder when the object was created. It
	// equals the organization in the object's name and cannot change.
	// +optional
	Organization string `json:"organization,omitempty"`
	// templateName is the name that the template had when the object was created. The template is
	// in the same organization. It cannot change.
	// +optional
	TemplateName string `json:"templateName,omitempty"`
	// templateVersionID is the UUID of the template version to use. If unset, a new workspace uses
	// the active version, and an existing one keeps its version. A change rebuilds the workspace: one
	// that runs is stopped and started again.
	// +optional
	TemplateVersionID string `json:"templateVersionID,omitempty"`
	// templateVersionPreset is the name of a preset of the template version. The preset sets values
	// of parameters. Values in parameters take precedence. The preset is applied with a build that
	// changes parameters, the preset or the version, not with a plain start or stop.
	// +optional
	TemplateVersionPreset string `json:"templateVersionPreset,omitempty"`
	// parameters are values for the parameters of the template version. Parameters that are not
	// listed keep their values in Coder and are not shown. Listed parameters show the value of the
	// newest build. A change rebuilds the workspace: one that runs is stopped and started again.
	// Ephemeral parameters are rejected, because their values apply to a single build: the subresources start and
	// restart take them.
	// +optional
	// +listType=map
	// +listMapKey=name
	Parameters []WorkspaceParameter `json:"parameters,omitempty"`
	// running is true if the workspace should run and false if it should be stopped. If unset, a
	// new workspace is started and an existing one is left as it is. Coder starts every new
	// workspace, so one that is created with false is stopped after its first build.
	// +optional
	Running *bool `json:"running,omitempty"`
	// ttlMillis is the time in milliseconds after which a started workspace stops by itself, rounded
	// down to minutes. If unset, or 0 on creation, the template's default is used. Later 0 means never.
	// +optional
	TTLMillis *int64 `json:"ttlMillis,omitempty"`
	// autostartSchedule is a cron schedule in Coder's format, for example "CRON_TZ=Europe/Berlin 30
	// 9 * * 1-5".
	// +optional
	AutostartSchedule *string `json:"autostartSchedule,omitempty"`
	// automaticUpdates is always if each start uses the active version of the template, or never.
	// If unset, Coder's value is kept.
	// +optional
	AutomaticUpdates string `json:"automaticUpdates,omitempty"`
	// dormant is true if the workspace should be dormant: it is stopped and cannot start until
	// dormant is false. If unset, Coder's value is kept, except that a change of running to true
	// sets dormant to false.
	// +optional
	Dormant *bool `json:"dormant,omitempty"`
	// sharedWith lists the users and groups that Coder lets use the workspace besides its owner. If
	// unset, Coder's value is kept; an empty list stops all sharing. It gives no permission in
	// Kubernetes. A change needs Coder 2.32 or later, and the permission to share the workspace in
	// Coder, which its owner and those with the role admin have. If somebody changes it in Coder, the
	// list follows.
	// +optional
	// +listType=atomic
	SharedWith []WorkspaceShare `json:"sharedWith,omitzero"`
}

// WorkspaceShare is a user or a group that a workspace is shared with. Exactly one of user and group
// is set.
type WorkspaceShare struct {
	// user is the username of a member of the organization.
	// +optional
	User string `json:"user,omitempty"`
	// group is the name of a group of the organization. The group Everyone has all members of the
	// organization. Other groups need a license.
	// +optional
	Group string `json:"group,omitempty"`
	// role is use or admin. With use, which is the default, a user can see, start and stop the
	// workspace, open sessions in it and use its apps. With admin, a user can also change and share
	// it. Neither can delete it.
	// +optional
	Role string `json:"role,omitempty"`
}

// WorkspaceParameter is the value of a parameter of a template.
type WorkspaceParameter struct {
	// name is the name of the parameter in the template.
	Name string `json:"name"`
	// value is the value as text. Lists are encoded as JSON.
	Value string `json:"value"`
}

// CoderWorkspaceStatus is the state of a workspace that Coder last reported.
type CoderWorkspaceStatus struct {
	// observedGeneration is the metadata.generation that was last applied to Coder. It is lower
	// than metadata.generation while a change waits for the end of a build.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// id is the UUID of the workspace in Coder.
	// +optional
	ID string `json:"id,omitempty"`
	// phase is the status of the newest build: Pending, Starting, Running,
	// Stopping, Stopped, Failed, Canceling, Canceled, Deleting or Deleted.
	// +optional
	Phase string `json:"phase,omitempty"`
	// workspaceName is the current name of the workspace in Coder. The object keeps its first name.
	// +optional
	WorkspaceName string `json:"workspaceName,omitempty"`
	// ownerName is the username of the workspace's owner.
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
	// latestBuildStatus is the status of the newest build as Coder reports it.
	// +optional
	LatestBuildStatus string `json:"latestBuildStatus,omitempty"`
	// latestBuildError is the error of the newest build, if it failed.
	// +optional
	LatestBuildError string `json:"latestBuildError,omitempty"`
	// latestBuild is the newest build.
	// +optional
	LatestBuild *WorkspaceBuild `json:"latestBuild,omitempty"`
	// agents are the agents of the newest build, sorted by name.
	// +optional
	// +listType=atomic
	Agents []WorkspaceAgent `json:"agents,omitempty"`
	// healthy is true if a running workspace can be used: its agents are connected, their startup
	// scripts did not fail, and its pods have no problem. It is unset while agents connect for the
	// first time.
	// +optional
	Healthy *bool `json:"healthy,omitempty"`
	// outdated is true if the template has a newer active version.
	// +optional
	Outdated bool `json:"outdated,omitempty"`
	// autoShutdown is when the workspace will stop by itself.
	// +optional
	AutoShutdown *metav1.Time `json:"autoShutdown,omitempty"`
	// lastUsedAt is when the workspace was last used.
	// +optional
	LastUsedAt *metav1.Time `json:"lastUsedAt,omitempty"`
	// sharedWith lists the users and groups that the workspace is shared with in Coder, sorted, at
	// most 100. It is empty before Coder 2.32.
	// +optional
	// +listType=atomic
	SharedWith []WorkspaceShare `json:"sharedWith,omitempty"`
	// conditions are Ready, Reconciling and Stalled as defined by kstatus, Synced, BuildSucceeded,
	// AgentsConnected and Outdated. PodsHealthy is present while a pod has a problem,
	// DeletionFailed after a deletion failed, and Truncated if the object is too large to be stored.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WorkspaceBuild is one start, stop or deletion of a workspace.
type WorkspaceBuild struct {
	// id is the UUID of the build in Coder.
	// +optional
	ID string `json:"id,omitempty"`
	// number counts the builds of the workspace from 1.
	// +optional
	Number int32 `json:"number,omitempty"`
	// transition is start, stop or delete.
	// +optional
	Transition string `json:"transition,omitempty"`
	// status is the status of the workspace after this build, as Coder reports it.
	// +optional
	Status string `json:"status,omitempty"`
	// reason is the reason of the build, for example initiator, autostart or autostop.
	// +optional
	Reason string `json:"reason,omitempty"`
	// error is the error of the build, if it failed.
	// +optional
	Error string `json:"error,omitempty"`
	// unmatchedTags are the tags that a provisioner needs for the build, for example
	// "environment=gpu,scope=organization". They are set while the build is pending and Coder knows
	// no connected provisioner that has all of them.
	// +optional
	UnmatchedTags string `json:"unmatchedTags,omitempty"`
	// templateVersionID is the UUID of the template version of the build.
	// +optional
	TemplateVersionID string `json:"templateVersionID,omitempty"`
	// templateVersionName is the name of that version.
	// +optional
	TemplateVersionName string `json:"templateVersionName,omitempty"`
	// createdAt is when the build was requested.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`
}

// WorkspaceAgent is an agent, which runs inside a workspace.
type WorkspaceAgent struct {
	// name is unique within the workspace.
	Name string `json:"name"`
	// status is connecting, connected, disconnected or timeout.
	// +optional
	Status string `json:"status,omitempty"`
	// lifecycleState is the state of the agent's scripts: created, starting, ready, start_timeout,
	// start_error, shutting_down, shutdown_timeout, shutdown_error or off.
	// +optional
	LifecycleState string `json:"lifecycleState,omitempty"`
	// unhealthy is why Coder reports the agent as unhealthy. It is empty if the agent
	// is healthy or connecting.
	// +optional
	Unhealthy string `json:"unhealthy,omitempty"`
	// version is the version of the agent.
	// +optional
	Version string `json:"version,omitempty"`
	// operatingSystem is the operating system of the agent, for example linux.
	// +optional
	OperatingSystem string `json:"operatingSystem,omitempty"`
	// architecture is the CPU architecture of the agent, for example amd64.
	// +optional
	Architecture string `json:"architecture,omitempty"`
	// directory is the directory in which sessions begin.
	// +optional
	Directory string `json:"directory,omitempty"`
	// readyAt is when the startup scripts ended.
	// +optional
	ReadyAt *metav1.Time `json:"readyAt,omitempty"`
	// disconnectedAt is when the connection of a disconnected agent ended.
	// +optional
	DisconnectedAt *metav1.Time `json:"disconnectedAt,omitempty"`
	// apps are the apps that Coder shows to users, sorted by slug.
	// +optional
	// +listType=atomic
	Apps []WorkspaceApp `json:"apps,omitempty"`
}

// WorkspaceApp is an application of a workspace: a web page that Coder proxies, a
// terminal, or a link.
type WorkspaceApp struct {
	// slug is unique within the agent.
	Slug string `json:"slug"`
	// displayName is shown to users instead of the slug.
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// url is the address of the app for a browser. It is a path if the access URL of Coder is not
	// known.
	// +optional
	URL string `json:"url,omitempty"`
	// health is healthy, unhealthy or initializing. It is empty if the template defines
	// no health check.
	// +optional
	Health string `json:"health,omitempty"`
}
