package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CoderTemplateTest tests one version of a template: the operator creates one throwaway workspace from
// the version, checks it, records the result, and deletes the workspace. Like a Job, it runs once, and
// its spec cannot change.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ctt,categories=coder
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.template`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.versionName`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Ready After",type=integer,JSONPath=`.status.readyAfterSeconds`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CoderTemplateTest struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what to test. It cannot change.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a test runs once, so its spec cannot change; create another CoderTemplateTest"
	Spec CoderTemplateTestSpec `json:"spec"`
	// Status is the state of the test and its result.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status CoderTemplateTestStatus `json:"status,omitzero"`
}

// CoderTemplateTestList is a list of template tests.
//
// +kubebuilder:object:root=true
type CoderTemplateTestList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CoderTemplateTest `json:"items"`
}

// CoderTemplateTestSpec says what to test.
type CoderTemplateTestSpec struct {
	// ControlPlaneRef refers to the control plane of the template, in the same namespace. Its
	// spec.templateTests names the Coder user that owns the workspace.
	ControlPlaneRef ControlPlaneReference `json:"controlPlaneRef"`
	// Template is the template, as <organization>.<template>.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*[.][a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$')",message="must be <organization>.<template>, the names of both in Coder, for example coder.kubernetes"
	Template string `json:"template"`
	// Version is the version of the template. Defaults to the version that is active when the test
	// starts.
	// +optional
	// +kubebuilder:default={"active":true}
	Version TemplateTestVersion `json:"version,omitzero"`
	// Parameters are values for the parameters of the template. A parameter that is not listed has its
	// default.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	Parameters []TemplateTestParameter `json:"parameters,omitempty"`
	// Preset is the name of a preset of the version. Its values take precedence over parameters.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Preset string `json:"preset,omitempty"`
	// Checks are the conditions under which the test succeeds, in addition to a build without an error
	// and to agents that are all connected and ready.
	// +optional
	Checks TemplateTestChecks `json:"checks,omitzero"`
	// TimeoutSeconds limits the time from the request for the workspace to the end of the last check.
	// Before that, the test waits at most as long for its template, its version and its owner.
	// Defaults to 900.
	// +optional
	// +kubebuilder:default=900
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// TTLSecondsAfterFinished is the time after which a finished test is deleted. By default it is
	// kept.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// TemplateTestVersion selects a version of a template.
//
// +kubebuilder:validation:XValidation:rule="[has(self.active) && self.active, has(self.name), has(self.id)].filter(x, x).size() == 1",message="a version is the active one, or has a name or an id; give exactly one"
type TemplateTestVersion struct {
	// Active selects the version that is active when the test starts.
	// +optional
	Active bool `json:"active,omitempty"`
	// Name is the name of the version. It is case-sensitive.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`
	// ID is the UUID of the version.
	// +optional
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')",message="must be a UUID in lower case"
	ID string `json:"id,omitempty"`
}

// TemplateTestParameter is the value of a parameter.
//
// +k8s:openapi-gen=true
type TemplateTestParameter struct {
	// Name is the name of the parameter in the template.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name"`
	// Value is its value. It must not be a secret: everyone who may read the test can read it.
	// +kubebuilder:validation:MaxLength=8192
	Value string `json:"value"`
}

// TemplateTestChecks are the checks of a test.
//
// +k8s:openapi-gen=true
type TemplateTestChecks struct {
	// Apps requires that each app with a health check is healthy.
	// +optional
	Apps bool `json:"apps,omitempty"`
	// ReadyWithinSeconds is the longest time from the creation of the workspace until all its agents
	// are ready. By default only timeoutSeconds limits it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	ReadyWithinSeconds *int32 `json:"readyWithinSeconds,omitempty"`
	// Commands run in the workspace one after the other, when all its agents are ready. Each must end
	// with exit code 0. After a restart of the operator, a command may run again.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	Commands []TemplateTestCommand `json:"commands,omitempty"`
}

// TemplateTestCommand is a command that runs in the workspace.
//
// +k8s:openapi-gen=true
type TemplateTestCommand struct {
	// Name identifies the command in the status.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must consist of lower case letters, digits and dashes, with a letter or digit at both ends"
	Name string `json:"name"`
	// Command is the program and its arguments. No shell interprets them; for one, give
	// ["bash", "-c", "..."]. Everyone who may read the test can read them.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	Command []string `json:"command"`
	// Agent is the name of the agent. It may be empty if the workspace has only one.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Agent string `json:"agent,omitempty"`
	// TimeoutSeconds limits the command. Defaults to 60.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// TemplateTestPhase is the state of a test in one word.
//
// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed
type TemplateTestPhase string

// The phases of a test.
const (
	TemplateTestPending   TemplateTestPhase = "Pending"
	TemplateTestRunning   TemplateTestPhase = "Running"
	TemplateTestSucceeded TemplateTestPhase = "Succeeded"
	TemplateTestFailed    TemplateTestPhase = "Failed"
)

// CoderTemplateTestStatus is the state of a test and its result.
type CoderTemplateTestStatus struct {
	// ObservedGeneration is the generation that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is Pending, Running, Succeeded or Failed. The last two are final.
	// +optional
	Phase TemplateTestPhase `json:"phase,omitempty"`
	// Conditions are Ready (true if the test succeeded), Reconciling or Stalled, Finished (true if
	// there is a result) and WorkspaceDeleted.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// VersionID and VersionName identify the tested version.
	// +optional
	VersionID string `json:"versionID,omitempty"`
	// +optional
	VersionName string `json:"versionName,omitempty"`
	// WorkspaceName is the name of the workspace. It is derived from the UID of the test, and recorded
	// before the workspace is created. OwnerName is the Coder user that owns it.
	// +optional
	WorkspaceName string `json:"workspaceName,omitempty"`
	// +optional
	OwnerName string `json:"ownerName,omitempty"`
	// WorkspaceID is the UUID of the workspace. It is empty until the workspace certainly exists.
	// +optional
	WorkspaceID string `json:"workspaceID,omitempty"`
	// StartTime is when the workspace was first requested.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// CompletionTime is when the result was known.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// ReadyAfterSeconds is the time from the creation of the workspace until all its agents were ready.
	// +optional
	ReadyAfterSeconds *int32 `json:"readyAfterSeconds,omitempty"`
	// FailedCheck is the check that failed: Build, Agents, Apps, ReadyWithin or Command/<name>. It is
	// empty if the test failed for another reason.
	// +optional
	FailedCheck string `json:"failedCheck,omitempty"`
	// Commands are the results of the commands that have ended.
	// +optional
	// +listType=map
	// +listMapKey=name
	Commands []TemplateTestCommandResult `json:"commands,omitempty"`
}

// TemplateTestCommandResult is the result of a command.
type TemplateTestCommandResult struct {
	// Name is the name of the command.
	Name string `json:"name"`
	// ExitCode is its exit code. It is empty if the command did not end by itself.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`
	// Output is the end of what the command printed, at most 2048 bytes. What looks like a secret is
	// removed.
	// +optional
	Output string `json:"output,omitempty"`
}
