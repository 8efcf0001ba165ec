package template

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// Subresources returns the storages of the subresources of codertemplates, by name.
func (k *Kind) Subresources(store registry.Store) map[string]rest.Storage {
	r := &reader{kind: k, store: store}
	newVersions := func() runtime.Object { return &aggregationv1alpha1.CoderTemplateVersionList{} }
	newParameters := func() runtime.Object { return &aggregationv1alpha1.CoderTemplateParameterList{} }
	return map[string]rest.Storage{
		"files":      &filesREST{k.New, r},
		"versions":   registry.NewOptionsGetter(newVersions, r.versions),
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
		missing := apierrors.NewNotFound(aggregationv1alpha1.Resource(Plural+"/versions"), text)
		missing.ErrStatus.Message = fmt.Sprintf("%s %s is not a version of template %q; the subresource versions lists all versions",
			parameter, text, s.Object.Name)
		return coderd.TemplateVersion{}, missing
	}
	return v, fault(s.Object.Name, err)
}

// The number of versions in one response.
const (
	defaultVersions = 50
	maxVersions     = 200
)

// versions implements codertemplates/versions: the versions of a template.
func (r *reader) versions(ctx context.Context, name string, asked *aggregationv1alpha1.CoderTemplateVersionOptions) (runtime.Object, error) {
	limit := cmp.Or(int(asked.Limit), defaultVersions)
	if limit < 1 || limit > maxVersions {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("limit is %d, and must be 1 to %d", limit, maxVersions))
	}
	found, err := r.subject(ctx, name)
	if err != nil {
		return nil, err
	}
	versions, err := found.versions(ctx, asked.Archived)
	if err != nil {
		return nil, err
	}
	if asked.After != "" {
		// The version need not be in the list: it may have been archived meanwhile.
		last, err := found.version(ctx, "after", asked.After)
		if err != nil {
			return nil, err
		}
		versions = slices.DeleteFunc(versions, func(v coderd.TemplateVersion) bool { return newestFirst(v, last) <= 0 })
	}
	// Read the active version from Coder, because the object may be out of date.
	current, err := found.Connection.Client.Template(ctx, found.ID)
	if err != nil {
		return nil, fault(name, err)
	}
	return versionList(versions, limit, current.ActiveVersionID), nil
}

// versions returns the versions of the template, newest first. Coder returns the oldest first, so
// all of them are read.
func (s subject) versions(ctx context.Context, archived bool) ([]coderd.TemplateVersion, error) {
	read := s.Connection.Client.TemplateVersions
	if archived {
		read = s.Connection.Client.AllTemplateVersions
	}
	versions, err := read(ctx, s.ID)
	slices.SortFunc(versions, newestFirst)
	return versions, fault(s.Object.Name, err)
}

// newestFirst compares versions by creation time, and then by ID as Coder does.
func newestFirst(a, b coderd.TemplateVersion) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID.String(), a.ID.String()))
}

// versionList returns the list with at most limit versions.
func versionList(versions []coderd.TemplateVersion, limit int, active uuid.UUID) *aggregationv1alpha1.CoderTemplateVersionList {
	out := &aggregationv1alpha1.CoderTemplateVersionList{Items: []aggregationv1alpha1.CoderTemplateVersion{}}
	if rest := int64(len(versions) - limit); rest > 0 {
		versions = versions[:limit]
		out.Continue, out.RemainingItemCount = versions[limit-1].ID.String(), &rest
	}
	for _, v := range versions {
		out.Items = append(out.Items, aggregationv1alpha1.CoderTemplateVersion{
			ID: v.ID.String(), Name: v.Name, Message: v.Message, Status: v.Status, Error: v.Error,
			Active: v.ID == active, Archived: v.Archived, CreatedAt: metav1.NewTime(v.CreatedAt), CreatedBy: v.CreatedBy,
		})
	}
	return out
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
	versions, err := s.versions(ctx, false)
	switch {
	case err != nil:
		return uuid.Nil, err
	case len(versions) == 0:
		// This happens only while the template is being deleted.
		return uuid.Nil, apierrors.NewNotFound(resource, s.Object.Name)
	}
	return versions[0].ID, nil
}
