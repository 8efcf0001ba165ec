package coderd

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// Parameter is the value of a parameter of a template version. Lists are encoded as JSON.
type Parameter struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Variable is the value of a Terraform variable of a template. It may be secret.
type Variable struct{ Name, Value string }

// VersionParameter is a parameter that a template version defines for its workspaces.
type VersionParameter struct {
	Name        string `json:"name"`
	DisplayName string `json:"display_name"`
	Description string `json:"description"`
	// Type is string, number, bool or list(string).
	Type string `json:"type"`
	// FormType is the type of the form field, for example radio or slider.
	FormType string `json:"form_type"`
	// Required reports that there is no default, so that the first build must set a value.
	Required bool   `json:"required"`
	Default  string `json:"default_value"`
	// Options are the allowed values. Empty allows any.
	Options []ParameterOption `json:"options"`
	// Mutable reports that the value may change for an existing workspace.
	Mutable bool `json:"mutable"`
	// Ephemeral reports that the value applies to one build and is not kept.
	Ephemeral bool `json:"ephemeral"`
	// Regex must match a string. Min and Max limit a number. Monotonic (increasing or decreasing)
	// compares with the previous value. RegexMessage is the message if a value does not satisfy one
	// of them.
	Regex        string `json:"validation_regex"`
	RegexMessage string `json:"validation_error"`
	Min          *int32 `json:"validation_min"`
	Max          *int32 `json:"validation_max"`
	Monotonic    string `json:"validation_monotonic"`
}

// ParameterOption is one of the allowed values.
type ParameterOption struct {
	Name        string `json:"name"`
	Value       string `json:"value"`
	Description string `json:"description"`
}

// VersionPreset is a named set of parameter values of a template version. Coder's API has the same
// names.
type VersionPreset struct {
	ID          uuid.UUID
	Name        string
	Description string
	// Default reports that the preset is selected by default.
	Default    bool
	Parameters []Parameter
}

// VersionVariable is a Terraform variable of a template version. The values of a sensitive variable
// are never kept.
type VersionVariable struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Type is string, number or bool.
	Type string `json:"type"`
	// Required reports that there is no default.
	Required  bool `json:"required"`
	Sensitive bool `json:"sensitive"`
	// Value is the value with which the version was built, and Default the one in its files.
	Value   string `json:"value"`
	Default string `json:"default_value"`
}

// BuildParameters reads the parameter values of a workspace build.
func (c *Client) BuildParameters(ctx context.Context, build uuid.UUID) ([]Parameter, error) {
	return get[[]Parameter](ctx, c, fmt.Sprintf("reading the parameters of workspace build %s", build),
		fmt.Sprintf("/api/v2/workspacebuilds/%s/parameters", build), nil)
}

// VersionParameters reads the parameters of a template version. The error is IsTooEarly if the
// build of the version has not finished.
func (c *Client) VersionParameters(ctx context.Context, version uuid.UUID) ([]VersionParameter, error) {
	return get[[]VersionParameter](ctx, c, fmt.Sprintf("reading the parameters of template version %s", version),
		fmt.Sprintf("/api/v2/templateversions/%s/rich-parameters", version), nil)
}

// VersionPresets reads the presets of a template version.
func (c *Client) VersionPresets(ctx context.Context, version uuid.UUID) ([]VersionPreset, error) {
	out, err := get[[]VersionPreset](ctx, c, fmt.Sprintf("reading the presets of template version %s", version),
		fmt.Sprintf("/api/v2/templateversions/%s/presets", version), nil)
	for _, preset := range out {
		slices.SortFunc(preset.Parameters, func(a, b Parameter) int { return cmp.Compare(a.Name, b.Name) })
	}
	return out, err
}

// VersionVariables reads the Terraform variables of a template version. The error is IsTooEarly if
// the build of the version has not finished.
func (c *Client) VersionVariables(ctx context.Context, version uuid.UUID) ([]VersionVariable, error) {
	out, err := get[[]VersionVariable](ctx, c, fmt.Sprintf("reading the variables of template version %s", version),
		fmt.Sprintf("/api/v2/templateversions/%s/variables", version), nil)
	// Coder returns them in no defined order.
	slices.SortFunc(out, func(a, b VersionVariable) int { return cmp.Compare(a.Name, b.Name) })
	for i := range out {
		if out[i].Sensitive {
			out[i].Value, out[i].Default = "", ""
		}
	}
	return out, err
}

func sdkParameters(parameters []Parameter) []codersdk.WorkspaceBuildParameter {
	var out []codersdk.WorkspaceBuildParameter
	for _, p := range parameters {
		out = append(out, codersdk.WorkspaceBuildParameter(p))
	}
	return out
}
