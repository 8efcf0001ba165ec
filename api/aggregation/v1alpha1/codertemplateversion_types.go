package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CoderTemplateVersionList is the answer to a GET of the subresource versions of
// codertemplates: the versions of one template, the newest first. Where there are
// more, metadata.continue is what the query parameter after must be to get them,
// and metadata.remainingItemCount is how many they are.
//
// +kubebuilder:object:root=true
type CoderTemplateVersionList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the versions, the newest first.
	Items []CoderTemplateVersion `json:"items"`
}

// CoderTemplateVersion is one version of the files of a template.
type CoderTemplateVersion struct {
	// id is the UUID of the version in Coder. spec.versionID of a template takes it.
	ID string `json:"id"`
	// name is unique within the template.
	Name string `json:"name"`
	// message describes the version.
	// +optional
	Message string `json:"message,omitempty"`
	// status is that of its build: pending, running, succeeded, failed, canceling or
	// canceled.
	Status string `json:"status"`
	// error is why its build failed.
	// +optional
	Error string `json:"error,omitempty"`
	// active says that workspaces are built from it.
	Active bool `json:"active"`
	// archived says that nobody is offered it any more.
	Archived bool `json:"archived"`
	// createdAt is when it was made.
	CreatedAt metav1.Time `json:"createdAt"`
	// createdBy is the username in Coder of who made it.
	// +optional
	CreatedBy string `json:"createdBy,omitempty"`
}

// CoderTemplateVersionOptions are the query parameters of a GET of the subresource
// versions of codertemplates.
//
// +kubebuilder:object:root=true
type CoderTemplateVersionOptions struct {
	metav1.TypeMeta `json:",inline"`

	// limit is how many versions are told at most: 1 to 200. Unset is 50.
	// +optional
	Limit int32 `json:"limit,omitempty"`
	// after is the UUID of a version. Only those that are older are told.
	// +optional
	After string `json:"after,omitempty"`
	// archived tells archived versions too.
	// +optional
	Archived bool `json:"archived,omitempty"`
}

// CoderTemplateLogOptions are the query parameters of a GET of the subresource log
// of codertemplates. Its answer is plain text, as that of coderworkspaces.
//
// +kubebuilder:object:root=true
type CoderTemplateLogOptions struct {
	metav1.TypeMeta `json:",inline"`

	// version is the UUID of a version of the template. Unset is the newest one.
	// +optional
	Version string `json:"version,omitempty"`
	// follow keeps the answer open until the build has ended.
	// +optional
	Follow bool `json:"follow,omitempty"`
	// after leaves out the first lines: up to the one that has this id in Coder.
	// +optional
	After int64 `json:"after,omitempty"`
}
