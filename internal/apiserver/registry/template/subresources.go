package template

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// Subresources returns the storages of the subresources of codertemplates, by name.
func (k *Kind) Subresources(store registry.Store) map[string]rest.Storage {
	r := &reader{kind: k, store: store}
	newParameters := func() runtime.Object { return &aggregationv1alpha1.CoderTemplateParameterList{} }
	return map[string]rest.Storage{
		"files":      &filesREST{k.New, r},
		"parameters": registry.NewOptionsGetter(newParameters, r.parameters),
		"promote":    &promoteREST{newPromotion, r},
		"log":        registry.NewLogGetter(k.New, r.log),
	}
}

// reader reads the subresources of templates.
type reader struct {
	kind  *Kind
	store registry.Store
}

// subject is the template of a request to a subresource, with its connection to Coder.
type subject struct{ registry.Found[object] }

// subject returns the template of that name in the namespace of the request.
func (r *reader) subject(ctx context.Context, name string) (subject, error) {
	found, err := r.kind.Find(ctx, r.store, name)
	return subject{found}, err
}

// version reads one version of the template. It returns 400 if the text is not a UUID, and 404 if
// the version does not belong to the template.
func (s subject) version(ctx context.Context, parameter, text string) (coderd.TemplateVersion, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return coderd.TemplateVersion{}, apierrors.NewBadRequest(fmt.Sprintf("%s is %q, and must be the UUID of a version", parameter, text))
	}
	v, err := s.Connection.Client.TemplateVersion(ctx, id)
	switch {
	case coderd.IsNotFound(err), err == nil && (v.TemplateID == nil || *v.TemplateID != s.ID):
		missing := apierrors.NewNotFound(aggregationv1alpha1.Resource(VersionPlural), text)
		missing.ErrStatus.Message = fmt.Sprintf("%s %s is not a version of template %q; its CoderTemplateVersions have the ids of the newest ones",
			parameter, text, s.Object.Name)
		return coderd.TemplateVersion{}, missing
	}
	return v, fault(s.Object.Name, err)
}

// parameters implements codertemplates/parameters: the parameters that a template defines for its
// workspaces.
func (r *reader) parameters(ctx context.Context, name string, asked *aggregationv1alpha1.CoderTemplateParameterOptions) (runtime.Object, error) {
	found, err := r.subject(ctx, name)
	if err != nil {
		return nil, err
	}
	version, err := found.versionOrActive(ctx, asked.Version)
	if err != nil {
		return nil, err
	}
	if version.Status != buildSucceeded {
		return nil, apierrors.NewConflict(resource, name, unbuilt(version))
	}
	parameters, err := found.Connection.Client.VersionParameters(ctx, version.ID)
	if err != nil {
		return nil, fault(name, err)
	}
	presets, err := found.Connection.Client.VersionPresets(ctx, version.ID)
	if err != nil {
		return nil, fault(name, err)
	}
	return parameterList(version, parameters, presets), nil
}

// versionOrActive returns the requested version, or the active one. It reads the active version
// from Coder, because the object may be out of date.
func (s subject) versionOrActive(ctx context.Context, asked string) (coderd.TemplateVersion, error) {
	if asked == "" {
		current, err := s.Connection.Client.Template(ctx, s.ID)
		if err != nil {
			return coderd.TemplateVersion{}, fault(s.Object.Name, err)
		}
		asked = current.ActiveVersionID.String()
	}
	return s.version(ctx, "version", asked)
}

// unbuilt returns why the parameters of a version are not known. For a version whose build failed,
// Coder would return an empty list.
func unbuilt(v coderd.TemplateVersion) error {
	if building(v) {
		return fmt.Errorf("the build of version %q is %s; its parameters are known after it has succeeded", v.Name, v.Status)
	}
	return fmt.Errorf("the build of version %q is %s, so its parameters are not known; see the subresource log", v.Name, v.Status)
}

func parameterList(
	v coderd.TemplateVersion, parameters []coderd.VersionParameter, presets []coderd.VersionPreset,
) *aggregationv1alpha1.CoderTemplateParameterList {
	out := &aggregationv1alpha1.CoderTemplateParameterList{VersionID: v.ID.String(), Items: []aggregationv1alpha1.CoderTemplateParameter{}}
	for _, p := range parameters {
		out.Items = append(out.Items, newParameter(p))
	}
	for _, p := range presets {
		preset := aggregationv1alpha1.CoderTemplatePreset{
			Name: p.Name, Description: p.Description, Default: p.Default, Parameters: map[string]string{},
		}
		for _, value := range p.Parameters {
			preset.Parameters[value.Name] = value.Value
		}
		out.Presets = append(out.Presets, preset)
	}
	return out
}

func newParameter(p coderd.VersionParameter) aggregationv1alpha1.CoderTemplateParameter {
	out := aggregationv1alpha1.CoderTemplateParameter{
		Name: p.Name, DisplayName: p.DisplayName, Description: p.Description, Type: p.Type, FormType: p.FormType,
		Required: p.Required, DefaultValue: p.Default, Mutable: p.Mutable, Ephemeral: p.Ephemeral,
	}
	for _, o := range p.Options {
		out.Options = append(out.Options, aggregationv1alpha1.CoderTemplateParameterOption(o))
	}
	validation := aggregationv1alpha1.CoderTemplateParameterValidation{
		Min: p.Min, Max: p.Max, Regex: p.Regex, Error: p.Fill(p.RegexMessage, "{value}"), Monotonic: p.Monotonic,
	}
	if validation != (aggregationv1alpha1.CoderTemplateParameterValidation{}) {
		out.Validation = &validation
	}
	return out
}

// log implements codertemplates/log: the log of the build of a version.
func (r *reader) log(ctx context.Context, name string, asked *aggregationv1alpha1.CoderTemplateLogOptions) (runtime.Object, error) {
	found, err := r.subject(ctx, name)
	if err != nil {
		return nil, err
	}
	version, err := found.versionOrNewest(ctx, asked.Version)
	if err != nil {
		return nil, err
	}
	client, err := r.kind.Actors.Client(ctx, found.Connection, subjectOf(name))
	if err != nil {
		return nil, err
	}
	lines, err := client.VersionLogs(ctx, version, asked.After, asked.Follow)
	if err != nil {
		return nil, fault(name, err)
	}
	return registry.NewLogStream(lines, asked.Follow), nil
}

// versionOrNewest returns the requested version, or the newest one. It reads the newest version
// from Coder, because the object may be out of date.
func (s subject) versionOrNewest(ctx context.Context, asked string) (uuid.UUID, error) {
	if asked != "" {
		v, err := s.version(ctx, "version", asked)
		return v.ID, err
	}
	versions, err := s.Connection.Client.TemplateVersions(ctx, s.ID)
	switch {
	case err != nil:
		return uuid.Nil, fault(s.Object.Name, err)
	case len(versions) == 0:
		// This happens only while the template is being deleted.
		return uuid.Nil, apierrors.NewNotFound(resource, s.Object.Name)
	}
	return versions[len(versions)-1].ID, nil
}
