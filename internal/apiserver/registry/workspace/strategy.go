package workspace

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectname"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
)

// strategy holds defaults and validation of workspaces.
type strategy struct {
	registry.Strategy
}

// PrepareForCreate drops what only the server may say, and fills in what
// follows from the name.
func (strategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	ws := obj.(*aggregationv1alpha1.CoderWorkspace)
	ws.Status = aggregationv1alpha1.CoderWorkspaceStatus{}
	ws.Generation = 1
	registry.KeepMetadata(ctx, ws, nil)
	if name, err := objectname.ParseWorkspace(ws.Name); err == nil && ws.Spec.Organization == "" {
		ws.Spec.Organization = name.Organization
	}
	ws.Spec = canonical(ws.Spec)
}

// PrepareForUpdate keeps the status, and takes what is not set as not meant.
func (strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	ws, current := obj.(*aggregationv1alpha1.CoderWorkspace), old.(*aggregationv1alpha1.CoderWorkspace)
	ws.Status = current.Status
	registry.KeepMetadata(ctx, ws, current)
	spec, was := &ws.Spec, current.Spec
	if registry.SameOrganization(spec.Organization, was.Organization) {
		spec.Organization = was.Organization
	}
	if spec.TemplateName == "" {
		spec.TemplateName = was.TemplateName
	}
	if spec.TemplateVersionID == "" {
		spec.TemplateVersionID = was.TemplateVersionID
	}
	if spec.Running == nil {
		spec.Running = was.Running
	}
	if spec.TTLMillis == nil {
		spec.TTLMillis = was.TTLMillis
	}
	if spec.AutostartSchedule == nil {
		spec.AutostartSchedule = was.AutostartSchedule
	}
	*spec = canonical(*spec)
}

// canonical writes a schedule the way Coder tells it, so that the same again is
// no change: never is not set at all, and a TTL has whole minutes.
func canonical(spec aggregationv1alpha1.CoderWorkspaceSpec) aggregationv1alpha1.CoderWorkspaceSpec {
	if ttl := spec.TTLMillis; ttl != nil && *ttl == 0 {
		spec.TTLMillis = nil
	} else if ttl != nil && *ttl >= minTTLMillis {
		spec.TTLMillis = ptr.To(*ttl - *ttl%minTTLMillis)
	}
	if spec.AutostartSchedule != nil && *spec.AutostartSchedule == "" {
		spec.AutostartSchedule = nil
	}
	return spec
}

// Validate implements rest.RESTCreateStrategy.
func (strategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	return validateNew(obj.(*aggregationv1alpha1.CoderWorkspace))
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (strategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return validateChange(obj.(*aggregationv1alpha1.CoderWorkspace), old.(*aggregationv1alpha1.CoderWorkspace))
}
