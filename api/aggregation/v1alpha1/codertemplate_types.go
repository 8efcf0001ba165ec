package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CoderTemplate is a template in a Coder deployment: the Terraform from which
// workspaces are built. Its name is <organization>.<template>, with
// <control-plane>. in front where its namespace holds more than one control
// plane.
//
// +kubebuilder:object:root=true
type CoderTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the template that is wanted.
	// +optional
	Spec CoderTemplateSpec `json:"spec,omitempty"`
	// status is the template as Coder last told it.
	// +optional
	Status CoderTemplateStatus `json:"status,omitempty"`
}

// CoderTemplateList is a list of templates.
//
// +kubebuilder:object:root=true
type CoderTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the templates, sorted by namespace and name.
	Items []CoderTemplate `json:"items"`
}

// CoderTemplateSpec is the template that is wanted.
type CoderTemplateSpec struct {
	// organization is the name of the organization in Coder. It equals the
	// organization in the object's name and cannot change.
	// +optional
	Organization string `json:"organization,omitempty"`
	// versionID is the UUID of an existing version that becomes active. It
	// excludes files on creation.
	// +optional
	VersionID string `json:"versionID,omitempty"`
	// displayName is shown instead of the name.
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// description is shown beside the name.
	// +optional
	Description string `json:"description,omitempty"`
	// icon is the address of an image, for example /icon/k8s.png.
	// +optional
	Icon string `json:"icon,omitempty"`
	// files are the source of the template: paths, and the text of each. A change
	// uploads a new version, which becomes active when its build has succeeded.
	// +optional
	// +mapType=atomic
	Files map[string]string `json:"files,omitempty"`
}

// CoderTemplateStatus is the template as Coder last told it.
type CoderTemplateStatus struct {
	// id is the UUID of the template in Coder.
	// +optional
	ID string `json:"id,omitempty"`
	// organizationName is the name of its organization.
	// +optional
	OrganizationName string `json:"organizationName,omitempty"`
	// activeVersionID is the UUID of the version from which workspaces are built.
	// +optional
	ActiveVersionID string `json:"activeVersionID,omitempty"`
	// activeVersionName is the name of that version.
	// +optional
	ActiveVersionName string `json:"activeVersionName,omitempty"`
	// latestVersionID is the UUID of the newest version, active or not.
	// +optional
	LatestVersionID string `json:"latestVersionID,omitempty"`
	// latestVersionStatus is the status of its build: pending, running,
	// succeeded, failed, canceling or canceled.
	// +optional
	LatestVersionStatus string `json:"latestVersionStatus,omitempty"`
	// latestVersionError is why its build failed.
	// +optional
	LatestVersionError string `json:"latestVersionError,omitempty"`
	// deprecated says that no workspace can be made from the template any more.
	// +optional
	Deprecated bool `json:"deprecated,omitempty"`
	// deprecationMessage is what users are told about that.
	// +optional
	DeprecationMessage string `json:"deprecationMessage,omitempty"`
	// updatedAt is when the template last changed.
	// +optional
	UpdatedAt *metav1.Time `json:"updatedAt,omitempty"`
	// conditions: Ready, Reconciling and Stalled as kstatus reads them, and
	// BuildSucceeded.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
