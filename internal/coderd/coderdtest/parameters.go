package coderdtest

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/google/uuid"
	"k8s.io/utils/ptr"

	"github.com/coder/coder/v2/codersdk"
)

type buildParameters = []codersdk.WorkspaceBuildParameter

func find(parameters buildParameters, name string) *codersdk.WorkspaceBuildParameter {
	i := slices.IndexFunc(parameters, func(p codersdk.WorkspaceBuildParameter) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &parameters[i]
}

// defaultsOf returns the default values of a version's parameters.
func defaultsOf(v *version) buildParameters {
	var out buildParameters
	for _, p := range v.content.parameters {
		out = append(out, codersdk.WorkspaceBuildParameter{Name: p.Name, Value: p.DefaultValue})
	}
	return out
}

// resolve returns the parameter values for a build, and the preset that matches them. last is nil
// in the first build of a workspace.
func (s *Server) resolve(t *template, v *version, last *build, preset uuid.UUID, given buildParameters) (buildParameters, uuid.UUID) {
	var before buildParameters
	if last != nil {
		before = last.parameters
	}
	wanted := slices.Clone(presetOf(v, preset))
	for _, g := range given {
		// The values of a preset take precedence over those in the request.
		if find(wanted, g.Name) == nil {
			wanted = append(wanted, g)
		}
	}
	var values buildParameters
	if t.UseClassicParameterFlow {
		values = resolveClassic(v, before, wanted)
	} else {
		values = resolveDynamic(v, before, wanted)
	}
	if preset == uuid.Nil {
		preset = matchingPreset(v, values)
	}
	return values, preset
}

func presetOf(v *version, id uuid.UUID) buildParameters {
	var out buildParameters
	for _, p := range v.content.presets {
		if p.ID == id {
			for _, value := range p.Parameters {
				out = append(out, codersdk.WorkspaceBuildParameter(value))
			}
		}
	}
	return out
}

// matchingPreset returns the largest preset whose values are all set.
func matchingPreset(v *version, values buildParameters) uuid.UUID {
	id, size := uuid.Nil, -1
	for _, p := range v.content.presets {
		differs := func(wanted codersdk.PresetParameter) bool {
			value := find(values, wanted.Name)
			return value == nil || value.Value != wanted.Value
		}
		if len(p.Parameters) > size && !slices.ContainsFunc(p.Parameters, differs) {
			id, size = p.ID, len(p.Parameters)
		}
	}
	return id
}

// resolveClassic refuses the request at the first invalid value.
func resolveClassic(v *version, before, wanted buildParameters) buildParameters {
	resolver := codersdk.ParameterResolver{Rich: before}
	var out buildParameters
	for _, p := range v.content.parameters {
		if p.ValidationError == "" && p.ValidationRegex == "" && p.ValidationMonotonic == "" {
			// Coder does the same: if only the bounds are set, Terraform checks them and fails the
			// build.
			p.ValidationMin, p.ValidationMax = nil, nil
		}
		value, err := resolver.ValidateResolve(p, find(wanted, p.Name))
		if err != nil {
			refuseDetailed(http.StatusBadRequest, fmt.Sprintf("Unable to validate parameter %q", p.Name), err.Error())
		}
		out = append(out, codersdk.WorkspaceBuildParameter{Name: p.Name, Value: value})
	}
	return out
}

// resolveDynamic refuses the request with all invalid values together. It ignores values without a
// parameter.
func resolveDynamic(v *version, before, wanted buildParameters) buildParameters {
	var out buildParameters
	var problems []codersdk.ValidationError
	for _, p := range v.content.evaluate(append(slices.Clone(wanted), v.content.kept(before)...)) {
		previous := find(before, p.Name)
		value := find(wanted, p.Name)
		if value == nil && !p.Ephemeral {
			value = previous
		}
		if value == nil && !p.Required {
			value = &codersdk.WorkspaceBuildParameter{Name: p.Name, Value: p.DefaultValue}
		}
		if problem := problemOf(p, value, previous); problem != nil {
			problems = append(problems, codersdk.ValidationError{Field: p.Name, Detail: problem.Summary + "; " + problem.Detail})
			continue
		}
		out = append(out, codersdk.WorkspaceBuildParameter{Name: p.Name, Value: value.Value})
	}
	if len(problems) > 0 {
		refuse(http.StatusBadRequest, "Unable to validate parameters", problems...)
	}
	return out
}

// kept returns the values that are not those of ephemeral parameters.
func (c *content) kept(values buildParameters) buildParameters {
	return slices.DeleteFunc(slices.Clone(values), func(v codersdk.WorkspaceBuildParameter) bool {
		return slices.ContainsFunc(c.defined, func(p definedParameter) bool { return p.Name == v.Name && p.Ephemeral })
	})
}

func problemOf(p codersdk.TemplateVersionParameter, value, previous *codersdk.WorkspaceBuildParameter) *codersdk.FriendlyDiagnostic {
	problem := func(summary, detail string) *codersdk.FriendlyDiagnostic {
		return &codersdk.FriendlyDiagnostic{Severity: codersdk.DiagnosticSeverityError, Summary: summary, Detail: detail}
	}
	if value == nil {
		return problem("Required parameter not provided", "parameter value is null")
	}
	if !p.Mutable && previous != nil && value.Value != previous.Value {
		return problem("Immutable parameter changed", fmt.Sprintf("Parameter %q is not mutable, so it can't be updated after creating a workspace.", p.Name))
	}
	err := codersdk.ValidateWorkspaceBuildParameter(p, value, previous)
	switch {
	case err == nil:
		return nil
	case len(p.Options) > 0:
		return problem("Value must be a valid option", fmt.Sprintf("the value %q must be defined as one of options", value.Value))
	}
	return problem("Invalid parameter value according to 'validation' block", err.Error())
}

func (s *Server) postEvaluate(r *request) {
	v := s.pathVersion(r)
	body := read[codersdk.DynamicParametersRequest](r)
	if v.job.CompletedAt == nil {
		refuse(http.StatusTooEarly, "Template version job has not finished")
	}
	if s.index.users[body.OwnerID] == nil {
		problem := codersdk.FriendlyDiagnostic{
			Severity: codersdk.DiagnosticSeverityError, Summary: "Failed to fetch workspace owner",
			Detail: "Please check your permissions or the user may not exist.", Extra: codersdk.DiagnosticExtra{Code: "owner_not_found"},
		}
		r.write(http.StatusOK, codersdk.DynamicParametersResponse{Diagnostics: []codersdk.FriendlyDiagnostic{problem}})
		return
	}
	var values buildParameters
	for name, value := range body.Inputs {
		values = append(values, codersdk.WorkspaceBuildParameter{Name: name, Value: value})
	}
	out := codersdk.DynamicParametersResponse{Diagnostics: []codersdk.FriendlyDiagnostic{}, Parameters: []codersdk.PreviewParameter{}}
	for _, p := range v.content.evaluate(values) {
		out.Parameters = append(out.Parameters, preview(p, find(values, p.Name)))
	}
	r.write(http.StatusOK, out)
}

// preview returns a parameter with its value. given is nil if there is none.
func preview(p codersdk.TemplateVersionParameter, given *codersdk.WorkspaceBuildParameter) codersdk.PreviewParameter {
	out := codersdk.PreviewParameter{PreviewParameterData: codersdk.PreviewParameterData{
		Name: p.Name, DisplayName: p.DisplayName, Description: p.Description, Type: codersdk.OptionType(p.Type),
		FormType: codersdk.ParameterFormType(p.FormType), Mutable: p.Mutable, Ephemeral: p.Ephemeral, Required: p.Required,
		DefaultValue: codersdk.NullHCLString{Value: p.DefaultValue, Valid: !p.Required},
		Options:      []codersdk.PreviewParameterOption{}, Validations: []codersdk.PreviewParameterValidation{},
	}, Diagnostics: []codersdk.FriendlyDiagnostic{}}
	for _, o := range p.Options {
		value := codersdk.NullHCLString{Value: o.Value, Valid: true}
		out.Options = append(out.Options, codersdk.PreviewParameterOption{Name: o.Name, Description: o.Description, Value: value})
	}
	limits := codersdk.PreviewParameterValidation{
		Error: p.ValidationError, Regex: nonZero(p.ValidationRegex), Min: wide(p.ValidationMin), Max: wide(p.ValidationMax),
		Monotonic: nonZero(string(p.ValidationMonotonic)),
	}
	if limits != (codersdk.PreviewParameterValidation{}) {
		out.Validations = append(out.Validations, limits)
	}
	if given == nil && !p.Required {
		given = &codersdk.WorkspaceBuildParameter{Name: p.Name, Value: p.DefaultValue}
	}
	if given != nil {
		out.Value = codersdk.NullHCLString{Value: given.Value, Valid: true}
	}
	if problem := problemOf(p, given, nil); problem != nil {
		out.Diagnostics = append(out.Diagnostics, *problem)
	}
	return out
}

func nonZero(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func wide(n *int32) *int64 {
	if n == nil {
		return nil
	}
	return ptr.To(int64(*n))
}

func (s *Server) getParameters(r *request) {
	v := s.pathVersion(r)
	if v.job.CompletedAt == nil {
		refuse(http.StatusTooEarly, "Template version job has not finished")
	}
	r.write(http.StatusOK, append([]codersdk.TemplateVersionParameter{}, v.content.parameters...))
}

func (s *Server) getPresets(r *request) {
	v := s.pathVersion(r)
	var out []codersdk.Preset
	if v.job.Status == codersdk.ProvisionerJobSucceeded {
		out = v.content.presets
	}
	r.write(http.StatusOK, out)
}

func (s *Server) getVariables(r *request) {
	v := s.pathVersion(r)
	if v.job.CompletedAt == nil {
		refuse(http.StatusForbidden, "Template version job has not finished")
	}
	out := append([]codersdk.TemplateVersionVariable{}, v.content.variables...)
	for i := range out {
		if out[i].Sensitive {
			out[i].Value, out[i].DefaultValue = "*redacted*", "*redacted*"
		}
	}
	r.write(http.StatusOK, out)
}

// VariableValues returns the values with which a version was built, including the sensitive ones,
// which the API does not return.
func (s *Server) VariableValues(version uuid.UUID) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	if v := s.index.versions[version]; v != nil {
		for _, variable := range v.content.variables {
			out[variable.Name] = variable.Value
		}
	}
	return out
}

// fill sets the values of a version's variables, and returns the required variables without a
// value.
func (c *content) fill(values []codersdk.VariableValue) (missing []string) {
	for i := range c.variables {
		variable := &c.variables[i]
		at := slices.IndexFunc(values, func(v codersdk.VariableValue) bool { return v.Name == variable.Name })
		switch {
		case at >= 0:
			variable.Value = values[at].Value
		case variable.Required:
			missing = append(missing, variable.Name)
		}
	}
	slices.SortFunc(missing, cmp.Compare[string])
	return missing
}
