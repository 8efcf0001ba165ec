package template

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// parametersREST implements codertemplates/parameters: the parameters that a template defines for
// its workspaces.
type parametersREST struct {
	kind  *Kind
	store Store
}

var _ rest.GetterWithOptions = (*parametersREST)(nil)

// New implements rest.Storage.
func (*parametersREST) New() runtime.Object {
	return &aggregationv1alpha1.CoderTemplateParameterList{}
}

// Destroy implements rest.Storage.
func (*parametersREST) Destroy() {}

// NewGetOptions implements rest.GetterWithOptions.
func (*parametersREST) NewGetOptions() (runtime.Object, bool, string) {
	return &aggregationv1alpha1.CoderTemplateParameterOptions{}, false, ""
}

// Get implements rest.GetterWithOptions.
func (r *parametersREST) Get(ctx context.Context, name string, options runtime.Object) (_ runtime.Object, err error) {
	defer coderfault.Name(ctx, &err)
	asked, ok := options.(*aggregationv1alpha1.CoderTemplateParameterOptions)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the options are a %T, want CoderTemplateParameterOptions", options))
	}
	found, err := r.kind.subject(ctx, r.store, name)
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
	parameters, err := found.connection.Client.VersionParameters(ctx, version.ID)
	if err != nil {
		return nil, fault(name, err)
	}
	presets, err := found.connection.Client.VersionPresets(ctx, version.ID)
	if err != nil {
		return nil, fault(name, err)
	}
	return parameterList(version, parameters, presets), nil
}

// versionOrActive returns the requested version, or the active one. It reads the active version
// from Coder, because the object may be out of date.
func (s subject) versionOrActive(ctx context.Context, asked string) (coderd.TemplateVersion, error) {
	if asked == "" {
		current, err := s.connection.Client.Template(ctx, s.id)
		if err != nil {
			return coderd.TemplateVersion{}, fault(s.tmpl.Name, err)
		}
		asked = current.ActiveVersionID.String()
	}
	return s.version(ctx, "version", asked)
}

// unbuilt returns why the parameters of a version are not known. For a version whose build failed,
// Coder would return an empty list.
func unbuilt(v coderd.TemplateVersion) error {
	if building(v) {
		return fmt.Errorf("the build of version %q is %s; its parameters are known when it has succeeded", v.Name, v.Status)
	}
	return fmt.Errorf("the build of version %q is %s, so its parameters are not known; the subresource log says why", v.Name, v.Status)
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
		Min: p.Min, Max: p.Max, Regex: p.Regex, Error: p.RegexMessage, Monotonic: p.Monotonic,
	}
	if validation != (aggregationv1alpha1.CoderTemplateParameterValidation{}) {
		out.Validation = &validation
	}
	return out
}
