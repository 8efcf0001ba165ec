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

type reader struct {
	kind  *Kind
	store registry.Store
}

// ownVersion reads one version of a template. It returns 400 if the text is not a UUID, and 404 if
// the version does not belong to the template.
func ownVersion(ctx context.Context, s registry.Found[object], text string) (coderd.TemplateVersion, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return coderd.TemplateVersion{}, apierrors.NewBadRequest(fmt.Sprintf("version is %q, and must be the UUID of a version", text))
	}
	v, err := s.Connection.Client.TemplateVersion(ctx, id)
	switch {
	case coderd.IsNotFound(err), err == nil && (v.TemplateID == nil || *v.TemplateID != s.ID):
		missing := apierrors.NewNotFound(aggregationv1alpha1.Resource(VersionPlural), text)
		missing.ErrStatus.Message = fmt.Sprintf("version %s is not a version of template %q; its CoderTemplateVersions have the ids of the newest ones",
			text, s.Object.Name)
		return coderd.TemplateVersion{}, missing
	}
	return v, fault(s.Object.Name, err)
}

// parameters implements codertemplates/parameters: the parameters that a template defines for its
// workspaces.
func (r *reader) parameters(ctx context.Context, name string, asked *aggregationv1alpha1.CoderTemplateParameterOptions) (runtime.Object, error) {
	found, err := r.kind.Find(ctx, r.store, name)
	if err != nil {
		return nil, err
	}
	id := asked.Version
	if id == "" {
		// The object may be out of date.
		current, err := found.Connection.Client.Template(ctx, found.ID)
		if err != nil {
			return nil, fault(name, err)
		}
		id = current.ActiveVersionID.String()
	}
	version, err := ownVersion(ctx, found, id)
	switch {
	case err != nil:
		return nil, err
	case building(version):
		return nil, apierrors.NewConflict(resource, name, fmt.Errorf(
			"the build of version %q is %s; its parameters are known after it has succeeded", version.Name, version.Status))
	case version.Status != buildSucceeded:
		// Coder would return an empty list.
		return nil, apierrors.NewConflict(resource, name, fmt.Errorf(
			"the build of version %q is %s, so its parameters are not known; see the subresource log", version.Name, version.Status))
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

func parameterList(
	v coderd.TemplateVersion, parameters []coderd.VersionParameter, presets []coderd.VersionPreset,
) *aggregationv1alpha1.CoderTemplateParameterList {
	out := &aggregationv1alpha1.CoderTemplateParameterList{VersionID: v.ID.String(), Items: []aggregationv1alpha1.CoderTemplateParameter{}}
	for _, p := range parameters {
		parameter := aggregationv1alpha1.CoderTemplateParameter{
			Name: p.Name, DisplayName: p.DisplayName, Description: p.Description, Type: p.Type, FormType: p.FormType,
			Required: p.Required, DefaultValue: p.Default, Mutable: p.Mutable, Ephemeral: p.Ephemeral,
		}
		for _, o := range p.Options {
			parameter.Options = append(parameter.Options, aggregationv1alpha1.CoderTemplateParameterOption(o))
		}
		validation := aggregationv1alpha1.CoderTemplateParameterValidation{
			Min: p.Min, Max: p.Max, Regex: p.Regex, Error: p.Fill(p.RegexMessage, "{value}"), Monotonic: p.Monotonic,
		}
		if validation != (aggregationv1alpha1.CoderTemplateParameterValidation{}) {
			parameter.Validation = &validation
		}
		out.Items = append(out.Items, parameter)
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

// log implements codertemplates/log: the log of the build of a version.
func (r *reader) log(ctx context.Context, name string, asked *aggregationv1alpha1.CoderTemplateLogOptions) (runtime.Object, error) {
	found, err := r.kind.Find(ctx, r.store, name)
	if err != nil {
		return nil, err
	}
	var version uuid.UUID
	if asked.Version != "" {
		v, err := ownVersion(ctx, found, asked.Version)
		if err != nil {
			return nil, err
		}
		version = v.ID
	} else {
		// The object may be out of date.
		versions, err := found.Connection.Client.TemplateVersions(ctx, found.ID)
		switch {
		case err != nil:
			return nil, fault(name, err)
		case len(versions) == 0:
			// This happens only while the template is being deleted.
			return nil, apierrors.NewNotFound(resource, name)
		}
		version = versions[len(versions)-1].ID
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
