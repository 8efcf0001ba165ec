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
type Parameter struct{ Name, Value string }

// Variable is the value of a Terraform variable of a template. It may be secret.
type Variable struct{ Name, Value string }

// VersionParameter is a parameter that a template version defines for its workspaces.
type VersionParameter struct {
	Name, DisplayName, Description string
	// Type is string, number, bool or list(string).
	Type string
	// FormType is the type of the form field, for example radio or slider.
	FormType string
	// Required reports that there is no default, so that the first build must set a value.
	Required bool
	Default  string
	// Options are the allowed values. Empty allows any.
	Options []ParameterOption
	// Mutable reports that the value may change for an existing workspace.
	Mutable bool
	// Ephemeral reports that the value applies to one build and is not kept.
	Ephemeral bool
	// Regex must match a string. Min and Max limit a number. Monotonic (increasing or decreasing)
	// compares with the previous value. RegexMessage is the message if a value does not satisfy one
	// of them.
	Regex, RegexMessage string
	Min, Max            *int32
	Monotonic           string
}

// ParameterOption is one of the allowed values.
type ParameterOption struct{ Name, Value, Description string }

// VersionPreset is a named set of parameter values of a template version.
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
	Name, Description string
	// Type is string, number or bool.
	Type string
	// Required reports that there is no default.
	Required  bool
	Sensitive bool
	// Value is the value with which the version was built, and Default the one in its files.
	Value, Default string
}

// BuildParameters reads the parameter values of a workspace build.
func (c *Client) BuildParameters(ctx context.Context, build uuid.UUID) ([]Parameter, error) {
	op := fmt.Sprintf("reading the parameters of workspace build %s", build)
	return fetchList(ctx, c, op, newParameter, func(ctx context.Context) ([]codersdk.WorkspaceBuildParameter, error) {
		return c.sdk.WorkspaceBuildParameters(ctx, build)
	})
}

// VersionParameters reads the parameters of a template version. The error is IsTooEarly if the
// build of the version has not finished.
func (c *Client) VersionParameters(ctx context.Context, version uuid.UUID) ([]VersionParameter, error) {
	op := fmt.Sprintf("reading the parameters of template version %s", version)
	return fetchList(ctx, c, op, newVersionParameter, func(ctx context.Context) ([]codersdk.TemplateVersionParameter, error) {
		return c.sdk.TemplateVersionRichParameters(ctx, version)
	})
}

func newParameter(p codersdk.WorkspaceBuildParameter) Parameter {
	return Parameter{Name: p.Name, Value: p.Value}
}

func newVersionParameter(p codersdk.TemplateVersionParameter) VersionParameter {
	out := VersionParameter{
		Name:         p.Name,
		DisplayName:  p.DisplayName,
		Description:  p.Description,
		Type:         p.Type,
		FormType:     p.FormType,
		Required:     p.Required,
		Default:      p.DefaultValue,
		Mutable:      p.Mutable,
		Ephemeral:    p.Ephemeral,
		Regex:        p.ValidationRegex,
		RegexMessage: p.ValidationError,
		Min:          p.ValidationMin,
		Max:          p.ValidationMax,
		Monotonic:    string(p.ValidationMonotonic),
	}
	for _, o := range p.Options {
		out.Options = append(out.Options, ParameterOption{Name: o.Name, Value: o.Value, Description: o.Description})
	}
	return out
}

// VersionPresets reads the presets of a template version.
func (c *Client) VersionPresets(ctx context.Context, version uuid.UUID) ([]VersionPreset, error) {
	op := fmt.Sprintf("reading the presets of template version %s", version)
	return fetchList(ctx, c, op, newVersionPreset, func(ctx context.Context) ([]codersdk.Preset, error) {
		return c.sdk.TemplateVersionPresets(ctx, version)
	})
}

func newVersionPreset(p codersdk.Preset) VersionPreset {
	preset := VersionPreset{ID: p.ID, Name: p.Name, Description: p.Description, Default: p.Default}
	for _, v := range p.Parameters {
		preset.Parameters = append(preset.Parameters, Parameter{Name: v.Name, Value: v.Value})
	}
	slices.SortFunc(preset.Parameters, func(a, b Parameter) int { return cmp.Compare(a.Name, b.Name) })
	return preset
}

// VersionVariables reads the Terraform variables of a template version. The error is IsTooEarly if
// the build of the version has not finished.
func (c *Client) VersionVariables(ctx context.Context, version uuid.UUID) ([]VersionVariable, error) {
	op := fmt.Sprintf("reading the variables of template version %s", version)
	out, err := fetchList(ctx, c, op, newVersionVariable, func(ctx context.Context) ([]codersdk.TemplateVersionVariable, error) {
		return c.sdk.TemplateVersionVariables(ctx, version)
	})
	// Coder returns them in no defined order.
	slices.SortFunc(out, func(a, b VersionVariable) int { return cmp.Compare(a.Name, b.Name) })
	return out, err
}

func newVersionVariable(v codersdk.TemplateVersionVariable) VersionVariable {
	variable := VersionVariable{Name: v.Name, Description: v.Description, Type: v.Type, Required: v.Required, Sensitive: v.Sensitive}
	if !v.Sensitive {
		variable.Value, variable.Default = v.Value, v.DefaultValue
	}
	return variable
}

func sdkParameters(parameters []Parameter) []codersdk.WorkspaceBuildParameter {
	var out []codersdk.WorkspaceBuildParameter
	for _, p := range parameters {
		out = append(out, codersdk.WorkspaceBuildParameter{Name: p.Name, Value: p.Value})
	}
	return out
}
