package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CoderTemplateParameterList is the response to a GET of the subresource parameters of
// codertemplates: the parameters that a version of the template defines for each workspace.
//
// +kubebuilder:object:root=true
type CoderTemplateParameterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// versionID is the UUID of the version that defines the parameters.
	VersionID string `json:"versionID"`
	// items are the parameters in the order in which users are asked for them.
	Items []CoderTemplateParameter `json:"items"`
	// presets are named sets of values.
	// +optional
	Presets []CoderTemplatePreset `json:"presets,omitempty"`
}

// CoderTemplateParameter is a parameter that a template defines for each workspace.
type CoderTemplateParameter struct {
	// name is the name of the parameter in spec.parameters of a workspace.
	Name string `json:"name"`
	// displayName is shown to users instead of the name.
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// description describes the parameter. It may be Markdown.
	// +optional
	Description string `json:"description,omitempty"`
	// type is string, number, bool or list(string). The value of a list is JSON.
	Type string `json:"type"`
	// formType is the form control that asks for the value: for example radio, dropdown or slider.
	// +optional
	FormType string `json:"formType,omitempty"`
	// required is true if there is no default, so that a new workspace must set a value.
	Required bool `json:"required"`
	// defaultValue is used if a workspace sets no value.
	// +optional
	DefaultValue string `json:"defaultValue,omitempty"`
	// mutable is true if the value of an existing workspace may change.
	Mutable bool `json:"mutable"`
	// ephemeral is true if the value applies to one build and is not kept.
	Ephemeral bool `json:"ephemeral"`
	// options are the only allowed values. If empty, any value is allowed.
	// +optional
	Options []CoderTemplateParameterOption `json:"options,omitempty"`
	// validation restricts the allowed values.
	// +optional
	Validation *CoderTemplateParameterValidation `json:"validation,omitempty"`
}

// CoderTemplateParameterOption is an allowed value of a parameter.
type CoderTemplateParameterOption struct {
	// name is shown to users.
	Name string `json:"name"`
	// value is the value that a workspace sets.
	Value string `json:"value"`
	// description describes the option.
	// +optional
	Description string `json:"description,omitempty"`
}

// CoderTemplateParameterValidation restricts the values of a parameter.
type CoderTemplateParameterValidation struct {
	// min is the minimum of a number.
	// +optional
	Min *int32 `json:"min,omitempty"`
	// max is the maximum of a number.
	// +optional
	Max *int32 `json:"max,omitempty"`
	// regex is a regular expression that a string must match.
	// +optional
	Regex string `json:"regex,omitempty"`
	// error is the message that users see for a value that is not allowed.
	// +optional
	Error string `json:"error,omitempty"`
	// monotonic is the direction in which a number may change: increasing or decreasing.
	// +optional
	Monotonic string `json:"monotonic,omitempty"`
}

// CoderTemplatePreset is a named set of values for a version's parameters.
type CoderTemplatePreset struct {
	// name is the name by which users choose the preset.
	Name string `json:"name"`
	// description describes the preset.
	// +optional
	Description string `json:"description,omitempty"`
	// default is true if the preset is preselected for users.
	// +optional
	Default bool `json:"default,omitempty"`
	// parameters maps names of parameters to values.
	// +optional
	Parameters map[string]string `json:"parameters,omitempty"`
}

// CoderTemplateParameterOptions are the query parameters of a GET of the subresource
// parameters of codertemplates.
//
// +kubebuilder:object:root=true
type CoderTemplateParameterOptions struct {
	metav1.TypeMeta `json:",inline"`

	// version is the UUID of a version of the template. If unset, the active version is used.
	// +optional
	Version string `json:"version,omitempty"`
}
