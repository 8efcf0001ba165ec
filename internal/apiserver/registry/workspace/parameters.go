package workspace

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// problems validates the values. Now holds the values of an existing workspace, and is nil for a new
// one.
func (a parameterSet) problems(now map[string]string) []*field.Error {
	given := a.specValues(now)
	errs := append(checkParameters(a.defined, given, now), checkEphemeral(a.defined, a.ephemeral)...)
	if now == nil || a.evaluated {
		errs = append(errs, checkOthers(a.defined, slices.Concat(given, a.ephemeral), a.appliedTo(now))...)
	}
	return errs
}

// checkParameters validates values against the parameters of a template version. Before holds the
// values of an existing workspace, and is nil for a new one.
func checkParameters(defined []coderd.VersionParameter, given []value, before map[string]string) []*field.Error {
	var errs []*field.Error
	for _, v := range given {
		path := parametersPath.Key(v.Name)
		p, unknown := parameterOf(defined, path, v)
		was, exists := before[v.Name]
		switch {
		case unknown != nil:
			errs = append(errs, unknown)
		case p.Ephemeral:
			errs = append(errs, field.Invalid(path, v.Value, "the parameter is ephemeral: its value applies to one build only, so give it to the subresource start or restart, and not in a spec"))
		case exists && was != v.Value && !p.Mutable:
			errs = append(errs, field.Invalid(path, v.Value, fmt.Sprintf("cannot change from %q: the parameter is immutable in the template", was)))
		default:
			errs = append(errs, checkGiven(path, p, v.Value, was, exists)...)
		}
	}
	return errs
}

// checkEphemeral validates values for one build.
func checkEphemeral(defined []coderd.VersionParameter, given []value) []*field.Error {
	var errs []*field.Error
	for _, v := range given {
		path := ephemeralPath.Key(v.Name)
		p, unknown := parameterOf(defined, path, v)
		switch {
		case unknown != nil:
			errs = append(errs, unknown)
		case !p.Ephemeral:
			errs = append(errs, field.Invalid(path, v.Value, "the parameter is not ephemeral: its value is kept, so set it in spec.parameters"))
		default:
			errs = append(errs, checkGiven(path, p, v.Value, "", false)...)
		}
	}
	return errs
}

// parameterOf returns the parameter of a value, or an error that lists those of the template version.
func parameterOf(defined []coderd.VersionParameter, path *field.Path, v value) (coderd.VersionParameter, *field.Error) {
	i := slices.IndexFunc(defined, func(p coderd.VersionParameter) bool { return p.Name == v.Name })
	if i < 0 {
		return coderd.VersionParameter{}, field.Invalid(path, v.Value, "the template version has no such parameter with these values; it has "+listed(parameterNames(defined)))
	}
	return defined[i], nil
}

// checkGiven validates a value against its parameter, and adds what the evaluation found.
func checkGiven(path *field.Path, p coderd.VersionParameter, v, was string, exists bool) []*field.Error {
	errs := checkValue(path, p, v, was, exists)
	if len(errs) == 0 && p.Problem != "" {
		errs = append(errs, field.Invalid(path, v, p.Fill(p.Problem, v)))
	}
	return errs
}

// checkOthers validates the parameters that are not given. all contains the values of the preset and
// of the last build, too, which an error does not show.
func checkOthers(defined []coderd.VersionParameter, given []value, all map[string]string) []*field.Error {
	var errs []*field.Error
	for _, p := range defined {
		path := parametersPath.Key(p.Name)
		_, has := all[p.Name]
		switch {
		case p.Required && !has:
			errs = append(errs, field.Required(path, "the template has no default for this parameter: "+described(p)))
		case p.Problem != "" && !slices.ContainsFunc(given, func(v value) bool { return v.Name == p.Name }):
			errs = append(errs, field.Invalid(path, field.OmitValueType{}, p.Fill(p.Problem, "the value")))
		}
	}
	return errs
}

func described(p coderd.VersionParameter) string {
	out := "give a " + p.Type
	if len(p.Options) > 0 {
		out += ", one of " + listed(optionValues(p))
	}
	return out
}

// checkValue validates one value against its parameter.
func checkValue(path *field.Path, p coderd.VersionParameter, v, was string, exists bool) []*field.Error {
	refuse := func(format string, args ...any) []*field.Error {
		return []*field.Error{field.Invalid(path, v, fmt.Sprintf(format, args...))}
	}
	switch p.Type {
	case "bool":
		if v != "true" && v != "false" {
			return refuse(`must be "true" or "false"`)
		}
	case "number":
		return checkNumber(path, p, v, was, exists)
	case "list(string)":
		var items []string
		if json.Unmarshal([]byte(v), &items) != nil {
			return refuse(`must be a JSON list of strings, for example ["a","b"]`)
		}
		for _, item := range items {
			if len(p.Options) > 0 && !slices.Contains(optionValues(p), item) && !slices.Contains(optionValues(p), v) {
				return refuse("%q is not an option of the parameter; its options are %s", item, listed(optionValues(p)))
			}
		}
		return nil
	}
	if len(p.Options) > 0 && !slices.Contains(optionValues(p), v) {
		return refuse("must be one of %s", listed(optionValues(p)))
	}
	if p.Regex == "" {
		return nil
	}
	// If the pattern does not compile here, Coder alone validates the value.
	if pattern, err := regexp.Compile(p.Regex); err == nil && !pattern.MatchString(v) {
		return refuse("must match %q%s", p.Regex, because(p.Fill(p.RegexMessage, v)))
	}
	return nil
}

func checkNumber(path *field.Path, p coderd.VersionParameter, v, was string, exists bool) []*field.Error {
	refuse := func(format string, args ...any) []*field.Error {
		return []*field.Error{field.Invalid(path, v, fmt.Sprintf(format, args...))}
	}
	number, err := strconv.ParseFloat(v, 64)
	earlier, earlierErr := strconv.ParseFloat(was, 64)
	monotonic := exists && earlierErr == nil
	switch {
	case err != nil:
		return refuse("must be a number")
	case len(p.Options) > 0 && !slices.Contains(optionValues(p), v):
		return refuse("must be one of %s", listed(optionValues(p)))
	case p.Min != nil && number < float64(*p.Min):
		return refuse("must be at least %d%s", *p.Min, because(p.Fill(p.RegexMessage, v)))
	case p.Max != nil && number > float64(*p.Max):
		return refuse("must be at most %d%s", *p.Max, because(p.Fill(p.RegexMessage, v)))
	case monotonic && p.Monotonic == "increasing" && number < earlier:
		return refuse("must not be less than the current value %s", was)
	case monotonic && p.Monotonic == "decreasing" && number > earlier:
		return refuse("must not be more than the current value %s", was)
	}
	return nil
}

func because(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

func optionValues(p coderd.VersionParameter) []string {
	var out []string
	for _, o := range p.Options {
		out = append(out, o.Value)
	}
	return out
}

func parameterNames(defined []coderd.VersionParameter) []string {
	var out []string
	for _, p := range defined {
		out = append(out, p.Name)
	}
	return out
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return strings.Join(quoted, ", ")
}

// findPreset returns a preset by its name.
func findPreset(presets []coderd.VersionPreset, name string) (coderd.VersionPreset, *field.Error) {
	var names []string
	for _, p := range presets {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return coderd.VersionPreset{}, field.Invalid(presetPath, name, "the template version has no such preset; it has "+listed(names))
}

// withPreset merges a preset with the values of a spec, which take precedence. In Coder, the preset
// takes precedence. So if both set a parameter, the values of the preset are sent in place of its
// ID.
func withPreset(preset coderd.VersionPreset, spec map[string]bool, given []value) (presetID uuid.UUID, values []value) {
	overruled := slices.ContainsFunc(preset.Parameters, func(p coderd.Parameter) bool { return spec[p.Name] })
	values = slices.Clone(given)
	for _, p := range preset.Parameters {
		if !spec[p.Name] {
			values = append(values, value{p.Name, p.Value})
		}
	}
	if overruled {
		return uuid.Nil, values
	}
	return preset.ID, values
}
