package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// CoderTemplate is a template in a Coder deployment: the Terraform code from which workspaces are
// built. Its name is <organization>.<template>. It begins with status.objectNamePrefix of the
// CoderControlPlane, which is "<control-plane>." for all but the first one of the namespace.
//
// +kubebuilder:object:root=true
type CoderTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the template.
	// +optional
	Spec CoderTemplateSpec `json:"spec,omitempty"`
	// status is the state of the template that Coder last reported.
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

// Values of spec.activation of a template.
const (
	ActivationAutomatic = "Automatic"
	ActivationManual    = "Manual"
	ActivationAfterTest = "AfterTest"
)

// CoderTemplateSpec is the desired state of a template.
type CoderTemplateSpec struct {
	// organization is the name that the organization had in Coder when the object was created. It
	// equals the organization in the object's name and cannot change.
	// +optional
	Organization string `json:"organization,omitempty"`
	// activation is how a new version becomes active. With Automatic, it does when its build has
	// succeeded. With Manual, it stays status.candidate until it is promoted: with the subresource
	// promote, or with a change of versionID. Then files, variables, provisionerTags and versionName
	// describe the candidate, and versionID the active version. AfterTest is like Manual, but a candidate
	// that was created from a change of these fields is also promoted when all tests have succeeded, as
	// the Coder user who made that change. While it is Manual or AfterTest, a change of activation,
	// versionID or, with AfterTest, tests requires the permission to create codertemplates/promote. A
	// candidate that waits when this changes to Automatic stays one. The default is Automatic.
	// +optional
	Activation string `json:"activation,omitempty"`
	// tests are the tests of each candidate while activation is AfterTest. For each of them a
	// CoderTemplateTest is created when the candidate is built. There are at most 10, with at most
	// 64 KiB as JSON. With AfterTest, a change requires the permission to create codertemplatetests.
	// +optional
	// +listType=map
	// +listMapKey=name
	Tests []TemplateTest `json:"tests,omitempty"`
	// versionID is the UUID of an existing version that becomes active, to pin it or to roll back.
	// It cannot be combined with files on creation, and with a change of files only if activation is
	// Manual or AfterTest.
	// +optional
	VersionID string `json:"versionID,omitempty"`
	// versionName is the name of the next version that is created from files, variables or tags. If
	// unset, the name is derived from their hash. A name can be used once, so a named version needs
	// a new name with each change.
	// +optional
	VersionName string `json:"versionName,omitempty"`
	// versionMessage describes the next version that is created.
	// +optional
	VersionMessage string `json:"versionMessage,omitempty"`
	// displayName is shown instead of the name. If unset, Coder's value is kept.
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// description is shown with the name. If unset, Coder's value is kept.
	// +optional
	Description string `json:"description,omitempty"`
	// icon is the address of an image, for example /icon/k8s.png. If unset, Coder's value is kept.
	// +optional
	Icon string `json:"icon,omitempty"`
	// files are the source of the template: a map of paths to texts. A change uploads a new
	// version, which becomes active after its build succeeded, or with activation Manual or AfterTest
	// when it is promoted. They are shown of the candidate, if there is one, and otherwise of the active version.
	// +optional
	// +mapType=atomic
	Files map[string]string `json:"files,omitempty"`
	// variables are values for the Terraform variables of the template. A change creates a new
	// version of the same files.
	// +optional
	// +listType=map
	// +listMapKey=name
	Variables []TemplateVariable `json:"variables,omitempty"`
	// provisionerTags select the provisioners that build the template and its workspaces. A change
	// creates a new version of the same files.
	// +optional
	// +mapType=atomic
	ProvisionerTags map[string]string `json:"provisionerTags,omitempty"`
	// failedVersionsHistoryLimit is the number of versions with a failed build that are kept, the
	// newest ones. Older ones are archived. The default is 3, but if this field is unset and no
	// version was created through this API, no version is archived.
	// +optional
	FailedVersionsHistoryLimit *int32 `json:"failedVersionsHistoryLimit,omitempty"`
	// defaultTTLMillis is the time in milliseconds after which a workspace stops by itself if its
	// owner chose no other time. 0 means never. If unset, Coder's value is kept.
	// +optional
	DefaultTTLMillis *int64 `json:"defaultTTLMillis,omitempty"`
	// activityBumpMillis is the time in milliseconds by which activity in a workspace postpones its
	// stop. If unset, Coder's value is kept.
	// +optional
	ActivityBumpMillis *int64 `json:"activityBumpMillis,omitempty"`
	// allowUserCancelWorkspaceJobs allows owners to cancel builds of their workspaces. If unset,
	// Coder's value is kept.
	// +optional
	AllowUserCancelWorkspaceJobs *bool `json:"allowUserCancelWorkspaceJobs,omitempty"`
	// corsBehavior is the CORS behavior of apps that are reached through Coder: simple or passthru.
	// If unset, Coder's value is kept.
	// +optional
	CORSBehavior string `json:"corsBehavior,omitempty"`
	// useClassicParameterFlow shows parameters as Coder did before dynamic parameters. If unset,
	// Coder's value is kept.
	// +optional
	UseClassicParameterFlow *bool `json:"useClassicParameterFlow,omitempty"`
}

// TemplateTest is a test of the candidates of a template.
type TemplateTest struct {
	// name identifies the test: lower case letters, digits and dashes, at most 63.
	Name string `json:"name"`
	// parameters are values for the parameters of the template. A parameter that is not listed has its
	// default.
	// +optional
	// +listType=map
	// +listMapKey=name
	Parameters []coderv1alpha1.TemplateTestParameter `json:"parameters,omitempty"`
	// preset is the name of a preset of the version. Its values take precedence over parameters.
	// +optional
	Preset string `json:"preset,omitempty"`
	// checks are the conditions under which the test succeeds, in addition to a build without an error
	// and to agents that are all connected and ready.
	// +optional
	Checks coderv1alpha1.TemplateTestChecks `json:"checks,omitzero"`
	// timeoutSeconds limits the time from the request for the workspace to the end of the last check,
	// and how long the test waits for its owner before that. The default is 900.
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// TemplateVariable is the value of a Terraform variable.
type TemplateVariable struct {
	// name is the name of the variable.
	Name string `json:"name"`
	// value is the value as text. It cannot be combined with valueFrom.
	// +optional
	Value string `json:"value,omitempty"`
	// valueFrom reads the value from another object.
	// +optional
	ValueFrom *TemplateVariableSource `json:"valueFrom,omitempty"`
}

// TemplateVariableSource is the source of a variable's value.
type TemplateVariableSource struct {
	// secretKeyRef selects a key of a Secret in the namespace of the template. The caller who sets
	// it must be allowed to read that Secret.
	// +optional
	SecretKeyRef *SecretKeySelector `json:"secretKeyRef,omitempty"`
}

// SecretKeySelector selects a key of a Secret in the same namespace.
type SecretKeySelector struct {
	// name of the Secret.
	Name string `json:"name"`
	// key within the Secret.
	Key string `json:"key"`
}

// CoderTemplateStatus is the state of a template that Coder last reported.
type CoderTemplateStatus struct {
	// observedGeneration is the metadata.generation that was last applied to Coder.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// id is the UUID of the template in Coder.
	// +optional
	ID string `json:"id,omitempty"`
	// templateName is the current name of the template in Coder. The object keeps its first name.
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
	// candidate is the version that was created from the spec while spec.activation is Manual or
	// AfterTest, and was not promoted yet.
	// +optional
	Candidate *TemplateCandidate `json:"candidate,omitempty"`
	// history are the versions that were active, the newest activation first: the first one is the
	// active version. It includes activations in Coder, and has at most 10 entries.
	// +optional
	// +listType=atomic
	History []TemplateActivation `json:"history,omitempty"`
	// latestVersionID is the UUID of the newest version, active or not.
	// +optional
	LatestVersionID string `json:"latestVersionID,omitempty"`
	// latestVersionStatus is the build status of the newest version: pending, running, succeeded,
	// failed, canceling or canceled.
	// +optional
	LatestVersionStatus string `json:"latestVersionStatus,omitempty"`
	// latestVersionError is the error of the build of the newest version, if it failed.
	// +optional
	LatestVersionError string `json:"latestVersionError,omitempty"`
	// latestVersionName is the name of the newest version.
	// +optional
	LatestVersionName string `json:"latestVersionName,omitempty"`
	// source describes the files of the template.
	// +optional
	Source *TemplateSource `json:"source,omitempty"`
	// deprecated is true if no workspace can be created from the template any more.
	// +optional
	Deprecated bool `json:"deprecated,omitempty"`
	// deprecationMessage is the message that users see about the deprecation.
	// +optional
	DeprecationMessage string `json:"deprecationMessage,omitempty"`
	// updatedAt is when the template last changed.
	// +optional
	UpdatedAt *metav1.Time `json:"updatedAt,omitempty"`
	// conditions are Ready, Reconciling and Stalled as defined by kstatus, Synced, BuildSucceeded,
	// FilesAvailable if spec.files cannot be shown, VersionsTruncated if it has versions without a
	// CoderTemplateVersion, and Truncated if the object is too large to be stored.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Versions are served as CoderTemplateVersions, and are no part of the served object.
	Versions *TemplateVersions `json:"-"`
}

// TemplateCandidate is a version of a template that waits until it is promoted.
type TemplateCandidate struct {
	// id is the UUID of the version in Coder. It is empty until the version was created there.
	// +optional
	ID string `json:"id,omitempty"`
	// name is the name of the version.
	Name string `json:"name"`
	// status is the status of the version's build: pending, running, succeeded, failed, canceling or
	// canceled. It is empty until the version was created in Coder.
	// +optional
	Status string `json:"status,omitempty"`
	// error is the error of the build, if it failed, or the reason why Coder rejected the version.
	// +optional
	Error string `json:"error,omitempty"`
	// createdAt is when the version was created in Coder.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`
	// createdBy is the Coder username of the user who created the version.
	// +optional
	CreatedBy string `json:"createdBy,omitempty"`
	// tests are the states of spec.tests for this version, if it is promoted when they have succeeded.
	// +optional
	// +listType=map
	// +listMapKey=name
	Tests []TemplateTestState `json:"tests,omitempty"`
}

// TemplateTestState is the state of a test of a candidate.
type TemplateTestState struct {
	// name is the name of the test in spec.tests.
	Name string `json:"name"`
	// testName is the name of the CoderTemplateTest.
	TestName string `json:"testName"`
	// phase is Pending, Running, Succeeded or Failed. A failed test runs again if its CoderTemplateTest
	// is deleted.
	Phase coderv1alpha1.TemplateTestPhase `json:"phase"`
	// failedCheck is the check that failed, if one did: Build, Agents, Apps, ReadyWithin or
	// Command/<name>.
	// +optional
	FailedCheck string `json:"failedCheck,omitempty"`
	// message says what the test waits for, or why it failed.
	// +optional
	Message string `json:"message,omitempty"`
}

// TemplateActivation is an entry of the history of a template: a version that became active.
type TemplateActivation struct {
	// versionID is the UUID of the version.
	VersionID string `json:"versionID"`
	// versionName is the name of the version.
	// +optional
	VersionName string `json:"versionName,omitempty"`
	// since is when the version became active. It is empty if that was before the template was first
	// read from Coder.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// by is the Coder user as whom the version was made active. It is empty if it was made active in
	// Coder, or by a caller that spec.identity of the control plane does not map to a user.
	// +optional
	By string `json:"by,omitempty"`
}

// TemplateSource describes the archive from which a template's version was created. The subresource
// files returns the whole archive.
type TemplateSource struct {
	// fileID is the UUID of the archive in Coder.
	// +optional
	FileID string `json:"fileID,omitempty"`
	// versionID is the UUID of the version whose source this is.
	// +optional
	VersionID string `json:"versionID,omitempty"`
	// inline is true if spec.files contains the whole source.
	// +optional
	Inline bool `json:"inline,omitempty"`
	// fileCount is the number of files.
	// +optional
	FileCount int32 `json:"fileCount,omitempty"`
	// sizeBytes is the total size of all files in bytes.
	// +optional
	SizeBytes int64 `json:"sizeBytes,omitempty"`
}
