package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CoderTemplateParameterList is the answer to a GET of the subresource parameters
// of codertemplates: what a version of the template asks about each workspace.
//
// +kubebuilder:object:root=true
type CoderTemplateParameterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// versionID is the UUID of the version that asks.
	VersionID string `json:"versionID"`
	// items are the parameters in the order in which people are asked.
	Items []CoderTemplateParameter `json:"items"`
	// presets are sets of values that have a name.
	// +optional
	Presets []CoderTemplatePreset `json:"presets,omitempty"`
}

// CoderTemplateParameter is one thing that a template asks about each workspace.
type CoderTemplateParameter struct {
	// name is what spec.parameters of a workspace calls it.
	Name string `json:"name"`
	// displayName is what people see instead of the name.
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// description says what it is for. It may be Markdown.
	// +optional
	Description string `json:"description,omitempty"`
	// type is string, number, bool or list(string). The value of a list is JSON.
	Type string `json:"type"`
	// formType is how people are asked: for example radio, dropdown or slider.
	// +optional
	FormType string `json:"formType,omitempty"`
	// required says that there is no default, so that a new workspace must give a
	// value.
	Required bool `json:"required"`
	// defaultValue counts where a workspace gives no value.
	// +optional
	DefaultValue string `json:"defaultValue,omitempty"`
	// mutable says that the value of an existing workspace may change.
	Mutable bool `json:"mutable"`
	// ephemeral says that the value counts for one build and is not kept.
	Ephemeral bool `json:"ephemeral"`
	// options are the only values that are allowed. None allows any.
	// +optional
	Options []CoderTemplateParameterOption `json:"options,omitempty"`
	// validation says which values are allowed.
	// +optional
	Validation *CoderTemplateParameterValidation `json:"validation,omitempty"`
}

// CoderTemplateParameterOption is a value that may be chosen.
type CoderTemplateParameterOption struct {
	// name is what people see.
	Name string `json:"name"`
	// value is what a workspace gives.
	Value string `json:"value"`
	// description says what it means.
	// +optional
	Description string `json:"description,omitempty"`
}

// CoderTemplateParameterValidation says which values of a parameter are allowed.
type CoderTemplateParameterValidation struct {
	// min is the least number.
	// +optional
	Min *int32 `json:"min,omitempty"`
	// max is the greatest number.
	// +optional
	Max *int32 `json:"max,omitempty"`
	// regex must match a string.
	// +optional
	Regex string `json:"regex,omitempty"`
	// error is what people are told of a value that is not allowed.
	// +optional
	Error string `json:"error,omitempty"`
	// monotonic says how a number may change: increasing or decreasing.
	// +optional
	Monotonic string `json:"monotonic,omitempty"`
}

// CoderTemplatePreset is a set of values of a version's parameters.
type CoderTemplatePreset struct {
	// name is what people choose it by.
	Name string `json:"name"`
	// description says what it is for.
	// +optional
	Description string `json:"description,omitempty"`
	// default says that people are offered it first.
	// +optional
	Default bool `json:"default,omitempty"`
	// parameters are the values, by the names of parameters.
	// +optional
	Parameters map[string]string `json:"parameters,omitempty"`
}

// CoderTemplateParameterOptions are the query parameters of a GET of the subresource
// parameters of codertemplates.
//
// +kubebuilder:object:root=true
type CoderTemplateParameterOptions struct {
	metav1.TypeMeta `json:",inline"`

	// version is the UUID of a version of the template. Unset is the active one.
	// +optional
	Version string `json:"version,omitempty"`
}
