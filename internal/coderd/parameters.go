package coderd

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"k8s.io/utils/ptr"

	"github.com/coder/coder/v2/codersdk"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
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
	// Problem is the reason why Coder does not accept the value. Only EvaluateParameters sets it.
	Problem string `json:"-"`
}

// Fill returns a message about a value with the placeholders of templates filled in: {min}, {max} and {value}, as
// github.com/coder/terraform-provider-coder does.
func (p VersionParameter) Fill(message, value string) string {
	pairs := []string{"{value}", value}
	for name, bound := range map[string]*int32{"{min}": p.Min, "{max}": p.Max} {
		if bound != nil {
			pairs = append(pairs, name, strconv.Itoa(int(*bound)))
		}
	}
	return strings.NewReplacer(pairs...).Replace(message)
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

// VersionParameters reads the parameters of a template version. The error has the status 425 if the
// build of the version has not finished.
func (c *Client) VersionParameters(ctx context.Context, version uuid.UUID) ([]VersionParameter, error) {
	return get[[]VersionParameter](ctx, c, fmt.Sprintf("reading the parameters of template version %s", version),
		fmt.Sprintf("/api/v2/templateversions/%s/rich-parameters", version), nil)
}

// ownerNotFound is the code of the diagnostic if the owner does not exist, or the token may not read
// it.
const ownerNotFound = "owner_not_found"

// EvaluateParameters evaluates the parameters of a template version with these values, for a
// workspace of the owner. It changes nothing. Parameters, options and defaults may depend on the
// values and on the owner, unless the template has UseClassicParameterFlow. Values without a
// parameter are ignored. The actor of the context sends the request, because the result may contain
// data of the owner. The error is IsNotFound if the token may not read the version or the owner,
// and IsNotSupported if this Coder has no such endpoint.
func (c *Client) EvaluateParameters(ctx context.Context, version, owner uuid.UUID, values map[string]string) ([]VersionParameter, error) {
	ctx = WithBeforeChange(ctx, func(context.Context) error { return nil })
	op := fmt.Sprintf("evaluating the parameters of template version %s", version)
	response, err := post[codersdk.DynamicParametersResponse](ctx, c, op,
		fmt.Sprintf("/api/v2/templateversions/%s/dynamic-parameters/evaluate", version),
		codersdk.DynamicParametersRequest{Inputs: values, OwnerID: owner}, http.StatusOK)
	if i := firstError(response.Diagnostics); err == nil && i >= 0 {
		// Coder returns an evaluation without a result with the status 200.
		failed := &Error{Op: op, StatusCode: http.StatusBadRequest, Message: "Unable to validate parameters", Detail: diagnosis(response.Diagnostics[i])}
		if response.Diagnostics[i].Extra.Code == ownerNotFound {
			failed.StatusCode = http.StatusNotFound
		}
		failed.truncate()
		err = failed
	}
	var out []VersionParameter
	for _, p := range response.Parameters {
		parameter := VersionParameter{
			Name: p.Name, DisplayName: p.DisplayName, Description: p.Description, Type: string(p.Type), FormType: string(p.FormType),
			Required: p.Required, Default: p.DefaultValue.Value, Mutable: p.Mutable, Ephemeral: p.Ephemeral,
		}
		for _, o := range p.Options {
			parameter.Options = append(parameter.Options, ParameterOption{Name: o.Name, Value: o.Value.Value, Description: o.Description})
		}
		for _, v := range p.Validations {
			parameter.Regex, parameter.RegexMessage = ptr.Deref(v.Regex, ""), v.Error
			parameter.Min, parameter.Max, parameter.Monotonic = int32Of(v.Min), int32Of(v.Max), ptr.Deref(v.Monotonic, "")
		}
		if i := firstError(p.Diagnostics); i >= 0 {
			parameter.Problem = redaction.Truncate(diagnosis(p.Diagnostics[i]), maxMessage)
		}
		out = append(out, parameter)
	}
	return out, err
}

// firstError returns the index of the first error among the diagnostics, or -1. The others are
// warnings.
func firstError(diagnostics []codersdk.FriendlyDiagnostic) int {
	return slices.IndexFunc(diagnostics, func(d codersdk.FriendlyDiagnostic) bool { return d.Severity == codersdk.DiagnosticSeverityError })
}

func diagnosis(d codersdk.FriendlyDiagnostic) string { return d.Summary + ": " + d.Detail }

// int32Of returns nil for a bound that Coder itself cannot store.
func int32Of(n *int64) *int32 {
	if n == nil || *n < math.MinInt32 || *n > math.MaxInt32 {
		return nil
	}
	return ptr.To(int32(*n))
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

// VersionVariables reads the Terraform variables of a template version. The error has the status 425 if
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
