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
	// organization is the name of the organization in Coder. It equals the
	// organization in the object's name and cannot change.
	// +optional
	Organization string `json:"organization,omitempty"`
	// templateName is the name of the template in the same organization. It
	// cannot change.
	// +optional
	TemplateName string `json:"templateName,omitempty"`
	// templateVersionID pins a version of the template, as a UUID. Empty takes
	// the active version at creation.
	// +optional
	TemplateVersionID string `json:"templateVersionID,omitempty"`
	// running says whether the workspace shall run. Unset, a new workspace is
	// started and an existing one is left as it is. This version refuses false for
	// a workspace that does not exist yet.
	// +optional
	Running *bool `json:"running,omitempty"`
	// ttlMillis is after how many milliseconds a started workspace stops by
	// itself. Unset takes the template's default.
	// +optional
	TTLMillis *int64 `json:"ttlMillis,omitempty"`
	// autostartSchedule is a cron schedule in Coder's form, for example
	// "CRON_TZ=Europe/Berlin 30 9 * * 1-5".
	// +optional
	AutostartSchedule *string `json:"autostartSchedule,omitempty"`
}

// CoderWorkspaceStatus is the workspace as Coder last told it.
type CoderWorkspaceStatus struct {
	// id is the UUID of the workspace in Coder.
	// +optional
	ID string `json:"id,omitempty"`
	// phase is the status of the newest build: Pending, Starting, Running,
	// Stopping, Stopped, Failed, Canceling, Canceled, Deleting or Deleted.
	// +optional
	Phase string `json:"phase,omitempty"`
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
	// healthy says whether every agent of a running workspace is well.
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
	// conditions: Ready, Reconciling and Stalled as kstatus reads them,
	// BuildSucceeded and AgentsConnected.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
