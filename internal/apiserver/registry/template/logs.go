package template

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/google/uuid"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/buildlog"
)

// logREST implements codertemplates/log: the log of the build of a version.
type logREST struct {
	kind  *Kind
	store Store
}

var (
	_ rest.GetterWithOptions = (*logREST)(nil)
	_ rest.StorageMetadata   = (*logREST)(nil)
)

// New implements rest.Storage.
func (*logREST) New() runtime.Object { return &aggregationv1alpha1.CoderTemplate{} }

// Destroy implements rest.Storage.
func (*logREST) Destroy() {}

// NewGetOptions implements rest.GetterWithOptions.
func (*logREST) NewGetOptions() (runtime.Object, bool, string) {
	return &aggregationv1alpha1.CoderTemplateLogOptions{}, false, ""
}

// ProducesMIMETypes implements rest.StorageMetadata.
func (*logREST) ProducesMIMETypes(string) []string { return []string{buildlog.MediaType} }

// ProducesObject implements rest.StorageMetadata.
func (*logREST) ProducesObject(string) any { return "" }

// Get implements rest.GetterWithOptions.
func (r *logREST) Get(ctx context.Context, name string, options runtime.Object) (_ runtime.Object, err error) {
	defer coderfault.Name(ctx, &err)
	asked, ok := options.(*aggregationv1alpha1.CoderTemplateLogOptions)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the options are a %T, want CoderTemplateLogOptions", options))
	}
	found, err := r.kind.subject(ctx, r.store, name)
	if err != nil {
		return nil, err
	}
	version, err := found.versionOrNewest(ctx, asked.Version)
	if err != nil {
		return nil, err
	}
	client, err := r.kind.config.Actors.Client(ctx, found.connection, subjectOf(name))
	if err != nil {
		return nil, err
	}
	lines, err := client.VersionLogs(ctx, version, asked.After, asked.Follow)
	if err != nil {
		return nil, fault(name, err)
	}
	return buildlog.New(lines, asked.Follow), nil
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
		return uuid.Nil, apierrors.NewNotFound(resource, s.tmpl.Name)
	}
	return versions[0].ID, nil
}
