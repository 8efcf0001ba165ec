package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// buildPlan is the build that applies a change.
type buildPlan struct {
	request coderd.BuildRequest
	// needed is false if Coder already has the desired state.
	needed bool
	// values are the values of the parameters of the spec after the build.
	values map[string]string
}

// subject is the workspace that an operation changes.
type subject struct {
	connection connections.Connection
	// name is the name of the object, for errors.
	name      string
	workspace coderd.Workspace
}

// planBuild determines the build that a change requires, and validates it. It only reads. Errors are
// API statuses, or errors of an evaluation.
func (k *Kind) planBuild(ctx context.Context, s subject, n intent, c change) (buildPlan, error) {
	b := s.workspace.LatestBuild
	t := buildPlan{request: coderd.BuildRequest{Transition: coderd.TransitionStop}}
	if running := isStarted(s.workspace); c.Running == nil && running || c.Running != nil && *c.Running {
		t.request.Transition = coderd.TransitionStart
		t.request.Wake = s.workspace.Dormant
	}
	t.needed = t.request.Transition != b.Transition || c.Force && hasFailed(b) || len(c.Ephemeral) > 0
	if n.Values != nil {
		t.values = n.Values.Values
	}
	version, err := t.chooseVersion(ctx, s, c.Version)
	if err != nil {
		return buildPlan{}, err
	}
	moved := version != b.TemplateVersionID
	if len(c.Parameters) == 0 && len(c.Ephemeral) == 0 && c.Preset == nil && (!moved || len(n.Parameters) == 0 && n.Preset == "") {
		return t, nil
	}
	err = k.fill(ctx, s, n, c, version, &t)
	return t, err
}

// chooseVersion returns the template version for the build: the wanted version, or that of the
// newest build.
func (t *buildPlan) chooseVersion(ctx context.Context, s subject, wanted string) (uuid.UUID, error) {
	latest := s.workspace.LatestBuild
	version := latest.TemplateVersionID
	switch {
	case wanted != "" && wanted != version.String():
		chosen, err := findVersion(ctx, s.connection.Client, s.name, wanted, s.workspace.TemplateID, s.workspace.TemplateName)
		if err != nil {
			return uuid.Nil, err
		}
		t.request.TemplateVersionID, t.needed = chosen, true
		return chosen, nil
	case wanted == "" && t.request.Transition == coderd.TransitionStart && latest.Transition != coderd.TransitionStart &&
		s.workspace.AutomaticUpdates == updatesAlways:
		// Coder does the same only for starts that it initiates itself.
		version = s.workspace.TemplateActiveVersionID
		t.request.TemplateVersionID = version
	}
	return version, nil
}

// replaces reports whether the build starts a workspace that runs. It is stopped first, as Coder's own
// clients do: an agent on a machine that survives the build, for example a VM, would keep its old token
// and could not connect again. A start that failed is repeated without a stop, which might fail for the
// same reason.
func (t buildPlan) replaces(w coderd.Workspace) bool {
	return t.needed && t.request.Transition == coderd.TransitionStart && w.LatestBuild.Status == statusRunning
}

// outdated reports whether the start after a stop has another version than the active one, which the
// template requires.
func (t buildPlan) outdated(w coderd.Workspace) bool {
	version := t.request.TemplateVersionID
	if version == uuid.Nil && w.AutomaticUpdates != updatesAlways {
		version = w.LatestBuild.TemplateVersionID
	}
	return w.TemplateRequireActiveVersion && version != uuid.Nil && version != w.TemplateActiveVersionID
}

func (k *Kind) fill(ctx context.Context, s subject, n intent, c change, version uuid.UUID, t *buildPlan) error {
	now, err := k.valuesOf(ctx, s.connection, s.workspace)
	if err != nil {
		return fault(s.name, err)
	}
	set, err := s.readParameters(ctx, n, c, version, now)
	if err != nil {
		return err
	}
	if err := invalid(s.name, set.problems(now)...); err != nil {
		return err
	}
	all := set.appliedTo(now)
	if len(c.Ephemeral) > 0 || !maps.Equal(all, now) {
		t.needed, t.request.PresetID = true, set.presetID
		for _, v := range set.values {
			t.request.Parameters = append(t.request.Parameters, coderd.Parameter{Name: v.Name, Value: v.Value})
		}
	}
	t.values = n.named(all)
	return nil
}

// parameterSet holds the parameters of a template version and the values for them.
type parameterSet struct {
	defined []coderd.VersionParameter
	// evaluated reports that Coder evaluated defined for the values.
	evaluated bool
	// named are the parameters of the spec, and changed are the new values among them.
	named   []string
	changed []value
	// ephemeral are the values for the next build only.
	ephemeral []value
	// values and presetID are sent to Coder.
	values   []value
	presetID uuid.UUID
}

// appliedTo returns the values of an existing workspace, replaced by those of the request.
func (a parameterSet) appliedTo(now map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, now)
	for _, v := range a.values {
		out[v.Name] = v.Value
	}
	return out
}

// readParameters reads the parameters of a template version. Now holds the values of an existing workspace,
// and is nil for a new one. An error of the evaluation is not converted to an API status, so that
// refuse recognizes a token that Coder does not accept.
func (s subject) readParameters(ctx context.Context, n intent, c change, version uuid.UUID, now map[string]string) (parameterSet, error) {
	a := parameterSet{named: n.Parameters, changed: c.Parameters, ephemeral: c.Ephemeral, values: c.Parameters}
	var unknown []*field.Error
	if n.Preset != "" {
		presets, err := s.connection.Client.VersionPresets(ctx, version)
		if err != nil {
			return a, fault(s.name, err)
		}
		preset, problem := findPreset(presets, n.Preset)
		if problem != nil {
			unknown = append(unknown, problem)
		}
		// The values of the spec take precedence. In Coder, the preset takes precedence. So if both set a parameter, the values
		// of the preset are sent in place of its ID.
		a.presetID, a.values = preset.ID, slices.Clone(c.Parameters)
		for _, p := range preset.Parameters {
			if slices.Contains(n.Parameters, p.Name) {
				a.presetID = uuid.Nil
				continue
			}
			a.values = append(a.values, value{p.Name, p.Value})
		}
	}
	a.values = slices.Concat(a.values, c.Ephemeral)
	// While a version is being built, it has no presets yet, and define returns the reason.
	if err := s.define(ctx, version, now, &a); err != nil {
		return a, err
	}
	return a, invalid(s.name, unknown...)
}

// define adds the parameters of a template version to the values. Coder evaluates them for the next build, unless the
// template uses the classic parameter flow. If Coder cannot evaluate them for the user, the stored list is used: it applies
// to the default values.
func (s subject) define(ctx context.Context, version uuid.UUID, now map[string]string, a *parameterSet) (err error) {
	client, owner := s.connection.Client, s.workspace.OwnerID
	if !s.workspace.UseClassicParameterFlow {
		a.defined, err = client.EvaluateParameters(ctx, version, owner, a.appliedTo(now))
		// The next build drops ephemeral values. Only an evaluation shows which parameters are ephemeral, so a second one
		// follows if there are any.
		kept := maps.Clone(now)
		for _, p := range a.defined {
			if p.Ephemeral {
				delete(kept, p.Name)
			}
		}
		if err == nil && len(kept) < len(now) {
			a.defined, err = client.EvaluateParameters(ctx, version, owner, a.appliedTo(kept))
		}
		if !coderd.IsNotSupported(err) && !coderd.IsNotFound(err) {
			a.evaluated = true
			return err
		}
	}
	a.defined, err = client.VersionParameters(ctx, version)
	return err
}

// findVersion validates the template version that a workspace is to be built from.
func findVersion(ctx context.Context, client *coderd.Client, name, id string, template uuid.UUID, templateName string) (uuid.UUID, error) {
	refuse := func(format string, args ...any) error {
		return invalid(name, field.Invalid(versionPath, id, fmt.Sprintf(format, args...)))
	}
	parsed, err := uuid.Parse(id)
	if err != nil {
		return uuid.Nil, refuse("must be a UUID")
	}
	version, err := client.TemplateVersion(ctx, parsed)
	switch {
	case coderd.IsNotFound(err) || err == nil && (version.TemplateID == nil || *version.TemplateID != template):
		return uuid.Nil, refuse("template %q has no such version", templateName)
	case err != nil:
		return uuid.Nil, fault(name, err)
	case version.Status == statusFailed || version.Status == statusCanceled:
		return uuid.Nil, refuse("no workspace can be built from this version: the build of the version %s", version.Status)
	}
	return parsed, nil
}

// problems validates the values. Now holds the values of an existing workspace, and is nil for a new
// one.
func (a parameterSet) problems(now map[string]string) []*field.Error {
	given := slices.Clone(a.changed)
	for _, name := range a.named {
		v, ok := now[name]
		if ok && !slices.ContainsFunc(a.changed, func(c value) bool { return c.Name == name }) {
			given = append(given, value{name, v})
		}
	}
	errs := append(checkParameters(a.defined, given, now, false), checkParameters(a.defined, a.ephemeral, nil, true)...)
	if now == nil || a.evaluated {
		errs = append(errs, checkOthers(a.defined, slices.Concat(given, a.ephemeral), a.appliedTo(now))...)
	}
	return errs
}

// checkParameters validates values against the parameters of a template version. Before holds the
// values of an existing workspace, and is nil for a new one. Ephemeral values are those for one build.
func checkParameters(defined []coderd.VersionParameter, given []value, before map[string]string, ephemeral bool) []*field.Error {
	var names []string
	for _, p := range defined {
		names = append(names, p.Name)
	}
	in := parametersPath
	if ephemeral {
		in = ephemeralPath
	}
	var errs []*field.Error
	for _, v := range given {
		path := in.Key(v.Name)
		i := slices.Index(names, v.Name)
		if i < 0 {
			errs = append(errs, field.Invalid(path, v.Value, "the template version has no such parameter with these values; it has "+listed(names)))
			continue
		}
		p := defined[i]
		was, exists := before[v.Name]
		switch {
		case p.Ephemeral && !ephemeral:
			errs = append(errs, field.Invalid(path, v.Value, "the parameter is ephemeral: its value applies to one build only, so give it to the subresource start or restart, and not in a spec"))
		case !p.Ephemeral && ephemeral:
			errs = append(errs, field.Invalid(path, v.Value, "the parameter is not ephemeral: its value is kept, so set it in spec.parameters"))
		case exists && was != v.Value && !p.Mutable:
			errs = append(errs, field.Invalid(path, v.Value, fmt.Sprintf("cannot change from %q: the parameter is immutable in the template", was)))
		default:
			problems := checkValue(path, p, v.Value, was, exists)
			if len(problems) == 0 && p.Problem != "" {
				problems = append(problems, field.Invalid(path, v.Value, p.Fill(p.Problem, v.Value)))
			}
			errs = append(errs, problems...)
		}
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
			problem := "the template has no default for this parameter: give a " + p.Type
			if len(p.Options) > 0 {
				problem += ", one of " + listed(optionValues(p))
			}
			errs = append(errs, field.Required(path, problem))
		case p.Problem != "" && !slices.ContainsFunc(given, func(v value) bool { return v.Name == p.Name }):
			errs = append(errs, field.Invalid(path, field.OmitValueType{}, p.Fill(p.Problem, "the value")))
		}
	}
	return errs
}

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
