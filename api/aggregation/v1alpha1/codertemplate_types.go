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
	// organization is the name that the organization had in Coder when the object was
	// made. It equals the organization in the object's name and cannot change.
	// +optional
	Organization string `json:"organization,omitempty"`
	// versionID is the UUID of an existing version that becomes active, to pin it
	// or to roll back. It excludes files on creation.
	// +optional
	VersionID string `json:"versionID,omitempty"`
	// versionName is the name of the next version that is made of files, variables
	// or tags. Unset, it is made of their hash. A name can be used once, so a named
	// version needs a new name with each change.
	// +optional
	VersionName string `json:"versionName,omitempty"`
	// versionMessage describes the next version that is made.
	// +optional
	VersionMessage string `json:"versionMessage,omitempty"`
	// displayName is shown instead of the name. Unset keeps what Coder has.
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// description is shown beside the name. Unset keeps what Coder has.
	// +optional
	Description string `json:"description,omitempty"`
	// icon is the address of an image, for example /icon/k8s.png. Unset keeps what
	// Coder has.
	// +optional
	Icon string `json:"icon,omitempty"`
	// files are the source of the template: paths, and the text of each. A change
	// uploads a new version, which becomes active when its build has succeeded.
	// +optional
	// +mapType=atomic
	Files map[string]string `json:"files,omitempty"`
	// variables are values for the Terraform variables of the template. A change
	// makes a new version of the same files.
	// +optional
	// +listType=map
	// +listMapKey=name
	Variables []TemplateVariable `json:"variables,omitempty"`
	// provisionerTags choose the provisioners that build the template and its
	// workspaces. A change makes a new version of the same files.
	// +optional
	// +mapType=atomic
	ProvisionerTags map[string]string `json:"provisionerTags,omitempty"`
	// failedVersionsHistoryLimit is how many versions whose build failed are kept.
	// Older ones are archived. Unset is 3.
	// +optional
	FailedVersionsHistoryLimit *int32 `json:"failedVersionsHistoryLimit,omitempty"`
	// defaultTTLMillis is after how many milliseconds workspaces stop by themselves
	// where their owner chose nothing else. 0 is never. Unset keeps what Coder has.
	// +optional
	DefaultTTLMillis *int64 `json:"defaultTTLMillis,omitempty"`
	// activityBumpMillis is by how many milliseconds the use of a workspace puts
	// off its stop. Unset keeps what Coder has.
	// +optional
	ActivityBumpMillis *int64 `json:"activityBumpMillis,omitempty"`
	// allowUserCancelWorkspaceJobs lets owners cancel builds of their workspaces.
	// Unset keeps what Coder has.
	// +optional
	AllowUserCancelWorkspaceJobs *bool `json:"allowUserCancelWorkspaceJobs,omitempty"`
	// corsBehavior is that of apps which are reached through Coder: simple or
	// passthru. Unset keeps what Coder has.
	// +optional
	CORSBehavior string `json:"corsBehavior,omitempty"`
	// useClassicParameterFlow shows parameters as Coder did before they were
	// dynamic. Unset keeps what Coder has.
	// +optional
	UseClassicParameterFlow *bool `json:"useClassicParameterFlow,omitempty"`
}

// TemplateVariable is the value of a Terraform variable.
type TemplateVariable struct {
	// name is the name of the variable.
	Name string `json:"name"`
	// value is its value as text. It excludes valueFrom.
	// +optional
	Value string `json:"value,omitempty"`
	// valueFrom takes the value from elsewhere.
	// +optional
	ValueFrom *TemplateVariableSource `json:"valueFrom,omitempty"`
}

// TemplateVariableSource is where the value of a variable is kept.
type TemplateVariableSource struct {
	// secretKeyRef is a key of a Secret in the namespace of the template. Who sets
	// it must be allowed to read that Secret.
	// +optional
	SecretKeyRef *SecretKeySelector `json:"secretKeyRef,omitempty"`
}

// SecretKeySelector is a key of a Secret in the same namespace.
type SecretKeySelector struct {
	// name of the Secret.
	Name string `json:"name"`
	// key within the Secret.
	Key string `json:"key"`
}

// CoderTemplateStatus is the template as Coder last told it.
type CoderTemplateStatus struct {
	// observedGeneration is the metadata.generation that Coder was told.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// id is the UUID of the template in Coder.
	// +optional
	ID string `json:"id,omitempty"`
	// templateName is the name of the template in Coder now. The object keeps the name
	// that it had first.
	// +optional
	TemplateName string `json:"templateName,omitempty"`
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
	// latestVersionName is the name of the newest version.
	// +optional
	LatestVersionName string `json:"latestVersionName,omitempty"`
	// source describes the files of the template.
	// +optional
	Source *TemplateSource `json:"source,omitempty"`
	// deprecated says that no workspace can be made from the template any more.
	// +optional
	Deprecated bool `json:"deprecated,omitempty"`
	// deprecationMessage is what users are told about that.
	// +optional
	DeprecationMessage string `json:"deprecationMessage,omitempty"`
	// updatedAt is when the template last changed.
	// +optional
	UpdatedAt *metav1.Time `json:"updatedAt,omitempty"`
	// conditions: Ready, Reconciling and Stalled as kstatus reads them, Synced,
	// BuildSucceeded, and FilesAvailable where spec.files cannot be shown.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// TemplateSource describes the archive of which a template's version was made.
// Subresource files reads all of it.
type TemplateSource struct {
	// fileID is the UUID of the archive in Coder.
	// +optional
	FileID string `json:"fileID,omitempty"`
	// versionID is the UUID of the version whose source it is.
	// +optional
	VersionID string `json:"versionID,omitempty"`
	// inline says that spec.files has all of it.
	// +optional
	Inline bool `json:"inline,omitempty"`
	// fileCount is the number of files.
	// +optional
	FileCount int32 `json:"fileCount,omitempty"`
	// sizeBytes is the size of all files together.
	// +optional
	SizeBytes int64 `json:"sizeBytes,omitempty"`
}
