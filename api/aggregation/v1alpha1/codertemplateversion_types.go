package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CoderTemplateVersion is one version of a template. It is read-only: versions are created with a change of a
// CoderTemplate, or in Coder, and are made active with codertemplates/promote.
//
// Its name is <organization>.<template>.<version>: the name of the CoderTemplate, and the name of the version. A
// name in Coder may have capitals, underscores and dots. If it has any, or more than 63 characters, the last part is the name
// in lower case with dashes instead, cut to 53 characters, followed by two hyphens and the first eight digits of the id: Fix_Bug.2
// becomes fix-bug-2--1a2b3c4d. An object keeps its name if the version is renamed in Coder.
//
// There are objects for the newest 100 versions of a template, and for its active and its requested version. If there are more,
// the CoderTemplate has the condition VersionsTruncated.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=ctv
type CoderTemplateVersion struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// status is the version as it is in Coder.
	// +optional
	Status CoderTemplateVersionStatus `json:"status,omitempty"`
}

// CoderTemplateVersionStatus is a version of a template as it is in Coder.
type CoderTemplateVersionStatus struct {
	// id is the UUID of the version in Coder, as in spec.versionID of a template.
	// +optional
	ID string `json:"id,omitempty"`
	// versionName is the current name of the version in Coder, which is unique within the template.
	// +optional
	VersionName string `json:"versionName,omitempty"`
	// template is the name of its CoderTemplate.
	// +optional
	Template string `json:"template,omitempty"`
	// active is true if workspaces are built from the version.
	Active bool `json:"active"`
	// archived is true if the version is hidden from users.
	Archived bool `json:"archived"`
	// jobStatus is the status of the version's build: pending, running, succeeded, failed, canceling or
	// canceled.
	// +optional
	JobStatus string `json:"jobStatus,omitempty"`
	// error is the error of the build, if it failed: that of Terraform, if its log has one. It has at most 1024 bytes.
	// +optional
	Error string `json:"error,omitempty"`
	// message describes the version. It has at most 1024 bytes.
	// +optional
	Message string `json:"message,omitempty"`
	// createdBy is the Coder username of the user who created the version.
	// +optional
	CreatedBy string `json:"createdBy,omitempty"`
	// createdAt is when the version was created. It orders versions of the same second.
	// +optional
	CreatedAt metav1.MicroTime `json:"createdAt,omitzero"`
	// startedAt is when its build started.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// completedAt is when its build ended.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
	// fileID is the UUID of its source in Coder. Versions with the same fileID have the same source.
	// +optional
	FileID string `json:"fileID,omitempty"`
	// sourceSHA256 is the SHA-256 hash of its source, the archive that codertemplateversions/files returns. It is set if the
	// operator has read the source: for versions that were active or requested while it ran.
	// +optional
	SourceSHA256 string `json:"sourceSHA256,omitempty"`
}

// CoderTemplateVersionList is a list of versions.
//
// +kubebuilder:object:root=true
type CoderTemplateVersionList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the versions.
	Items []CoderTemplateVersion `json:"items"`
}

// TemplateVersions are the versions of a template that are served as CoderTemplateVersions. They are stored in the record
// of the template.
type TemplateVersions struct {
	// ReadAt is when the versions were read from Coder that changed Items.
	ReadAt metav1.MicroTime `json:"readAt"`
	// Items are the versions, the newest first. They have a name and the fields of the status that do not
	// depend on the template.
	Items []CoderTemplateVersion `json:"items,omitempty"`
	// More is true if the template has more versions.
	More bool `json:"more,omitempty"`
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
