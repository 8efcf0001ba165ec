package workspace

import (
	"context"
	"fmt"
	"maps"
	"slices"

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
	return t, k.fill(ctx, s, n, c, version, &t)
}

// chooseVersion returns the template version for the build: the wanted version, or that of the
// newest build.
func (t *buildPlan) chooseVersion(ctx context.Context, s subject, wanted string) (uuid.UUID, error) {
	latest := s.workspace.LatestBuild
	version := latest.TemplateVersionID
	switch {
	case wanted != "" && wanted != version.String():
		chosen, err := s.version(ctx, wanted)
		if err != nil {
			return uuid.Nil, err
		}
		t.request.TemplateVersionID, t.needed = chosen, true
		return chosen, nil
	case wanted == "" && t.starts(latest) && s.workspace.AutomaticUpdates == updatesAlways:
		// Coder does the same only for starts that it initiates itself.
		version = s.workspace.TemplateActiveVersionID
		t.request.TemplateVersionID = version
	}
	return version, nil
}

// starts reports whether the build starts a workspace whose newest build is not a start.
func (t buildPlan) starts(latest coderd.Build) bool {
	return t.request.Transition == coderd.TransitionStart && latest.Transition != coderd.TransitionStart
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

// fill adds the parameters to a plan.
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

// specValues returns the changed and the unchanged parameters of the spec.
func (a parameterSet) specValues(now map[string]string) []value {
	out := a.changed
	for _, name := range a.named {
		if _, ok := (&change{Parameters: a.changed}).valueOf(name); ok {
			continue
		}
		if v, ok := now[name]; ok {
			out = append(out[:len(out):len(out)], value{name, v})
		}
	}
	return out
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
		named := map[string]bool{}
		for _, name := range n.Parameters {
			named[name] = true
		}
		a.presetID, a.values = withPreset(preset, named, c.Parameters)
	}
	a.values = slices.Concat(a.values, c.Ephemeral)
	// While a version is being built, it has no presets yet, and define returns the reason.
	if err := s.define(ctx, version, now, &a); err != nil {
		return a, err
	}
	return a, invalid(s.name, unknown...)
}

// define adds the parameters of a template version to the values. Coder evaluates them, unless the
// template uses the classic parameter flow. If Coder cannot evaluate them for the user, the stored
// list is used: it applies to the default values.
func (s subject) define(ctx context.Context, version uuid.UUID, now map[string]string, a *parameterSet) (err error) {
	if !s.workspace.UseClassicParameterFlow {
		a.defined, err = s.evaluate(ctx, version, now, *a)
		if !coderd.IsNotSupported(err) && !coderd.IsNotFound(err) {
			a.evaluated = true
			return err
		}
	}
	a.defined, err = s.connection.Client.VersionParameters(ctx, version)
	return err
}

// evaluate returns the parameters as Coder evaluates them for the next build. The next build drops
// ephemeral values. Only an evaluation shows which parameters are ephemeral, so a second one follows
// if there are any.
func (s subject) evaluate(ctx context.Context, version uuid.UUID, now map[string]string, a parameterSet) ([]coderd.VersionParameter, error) {
	client, owner, values := s.connection.Client, s.workspace.OwnerID, a.appliedTo(now)
	defined, err := client.EvaluateParameters(ctx, version, owner, values)
	kept := maps.Clone(now)
	for _, p := range defined {
		if p.Ephemeral {
			delete(kept, p.Name)
		}
	}
	if err != nil || len(kept) == len(now) {
		return defined, err
	}
	return client.EvaluateParameters(ctx, version, owner, a.appliedTo(kept))
}

// version validates the template version that the workspace is to be built from.
func (s subject) version(ctx context.Context, id string) (uuid.UUID, error) {
	return findVersion(ctx, s.connection.Client, s.name, id, s.workspace.TemplateID, s.workspace.TemplateName)
}

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
