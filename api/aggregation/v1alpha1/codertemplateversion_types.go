package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CoderTemplateVersionList is the response to a GET of the subresource versions of codertemplates:
// the versions of one template, the newest first. If there are more, metadata.continue is the value
// of the query parameter after for the next request, and metadata.remainingItemCount is their
// number.
//
// +kubebuilder:object:root=true
type CoderTemplateVersionList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the versions, the newest first.
	Items []CoderTemplateVersion `json:"items"`
}

// CoderTemplateVersion is one version of a template.
type CoderTemplateVersion struct {
	// id is the UUID of the version in Coder, as in spec.versionID of a template.
	ID string `json:"id"`
	// name is unique within the template.
	Name string `json:"name"`
	// message describes the version.
	// +optional
	Message string `json:"message,omitempty"`
	// status is the status of the version's build: pending, running, succeeded, failed, canceling
	// or canceled.
	Status string `json:"status"`
	// error is the error of the build, if it failed.
	// +optional
	Error string `json:"error,omitempty"`
	// active is true if workspaces are built from the version.
	Active bool `json:"active"`
	// archived is true if the version is hidden from users.
	Archived bool `json:"archived"`
	// createdAt is when the version was created.
	CreatedAt metav1.Time `json:"createdAt"`
	// createdBy is the Coder username of the user who created the version.
	// +optional
	CreatedBy string `json:"createdBy,omitempty"`
}

// CoderTemplateVersionOptions are the query parameters of a GET of the subresource
// versions of codertemplates.
//
// +kubebuilder:object:root=true
type CoderTemplateVersionOptions struct {
	metav1.TypeMeta `json:",inline"`

	// limit is the maximum number of versions to return, from 1 to 200. The default is 50.
	// +optional
	Limit int32 `json:"limit,omitempty"`
	// after is the UUID of a version. Only older versions are returned.
	// +optional
	After string `json:"after,omitempty"`
	// archived includes archived versions.
	// +optional
	Archived bool `json:"archived,omitempty"`
}

// CoderTemplateLogOptions are the query parameters of a GET of the subresource log of
// codertemplates. The response is plain text, as for coderworkspaces.
//
// +kubebuilder:object:root=true
type CoderTemplateLogOptions struct {
	metav1.TypeMeta `json:",inline"`

	// version is the UUID of a version of the template. If unset, the newest version is used.
	// +optional
	Version string `json:"version,omitempty"`
	// follow keeps the response open until the build has ended.
	// +optional
	Follow bool `json:"follow,omitempty"`
	// after skips the first lines, up to and including the line with this id in Coder.
	// +optional
	After int64 `json:"after,omitempty"`
}
