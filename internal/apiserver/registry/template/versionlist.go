package template

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/google/uuid"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// The number of versions in one response.
const (
	defaultVersions = 50
	maxVersions     = 200
)

// versionsREST implements codertemplates/versions: the versions of a template.
type versionsREST struct {
	kind  *Kind
	store Store
}

var _ rest.GetterWithOptions = (*versionsREST)(nil)

// New implements rest.Storage.
func (*versionsREST) New() runtime.Object { return &aggregationv1alpha1.CoderTemplateVersionList{} }

// Destroy implements rest.Storage.
func (*versionsREST) Destroy() {}

// NewGetOptions implements rest.GetterWithOptions.
func (*versionsREST) NewGetOptions() (runtime.Object, bool, string) {
	return &aggregationv1alpha1.CoderTemplateVersionOptions{}, false, ""
}

// Get implements rest.GetterWithOptions.
func (r *versionsREST) Get(ctx context.Context, name string, options runtime.Object) (_ runtime.Object, err error) {
	defer coderfault.Name(ctx, &err)
	asked, ok := options.(*aggregationv1alpha1.CoderTemplateVersionOptions)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the options are a %T, want CoderTemplateVersionOptions", options))
	}
	limit := cmp.Or(int(asked.Limit), defaultVersions)
	if limit < 1 || limit > maxVersions {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("limit is %d, and must be 1 to %d", limit, maxVersions))
	}
	found, err := r.kind.subject(ctx, r.store, name)
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
	current, err := found.connection.Client.Template(ctx, found.id)
	if err != nil {
		return nil, fault(name, err)
	}
	return versionList(versions, limit, current.ActiveVersionID), nil
}

// versions returns the versions of the template, newest first. Coder returns the oldest first, so
// all of them are read.
func (s subject) versions(ctx context.Context, archived bool) ([]coderd.TemplateVersion, error) {
	read := s.connection.Client.TemplateVersions
	if archived {
		read = s.connection.Client.AllTemplateVersions
	}
	versions, err := read(ctx, s.id)
	slices.SortFunc(versions, newestFirst)
	return versions, fault(s.tmpl.Name, err)
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
