package workspace

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
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
	keepOwn(ctx, ws, nil)
	spec := &ws.Spec
	if name, err := objectname.ParseWorkspace(ws.Name); err == nil && spec.Organization == "" {
		spec.Organization = name.Organization
	}
	if spec.Running == nil {
		spec.Running = ptr.To(!ptr.Deref(spec.Dormant, false))
	}
	if spec.Dormant == nil {
		spec.Dormant = ptr.To(false)
	}
	spec.AutomaticUpdates = cmp.Or(spec.AutomaticUpdates, updatesNever)
	*spec = canonical(*spec)
}

// PrepareForUpdate keeps the status, takes what is not set as not meant, and
// counts the changes of the spec.
func (strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	ws, current := obj.(*aggregationv1alpha1.CoderWorkspace), old.(*aggregationv1alpha1.CoderWorkspace)
	ws.Status = current.Status
	keepOwn(ctx, ws, current)
	spec, was := &ws.Spec, current.Spec
	if registry.SameOrganization(spec.Organization, was.Organization) {
		spec.Organization = was.Organization
	}
	spec.TemplateName = cmp.Or(spec.TemplateName, was.TemplateName)
	spec.TemplateVersionID = cmp.Or(spec.TemplateVersionID, was.TemplateVersionID)
	spec.AutomaticUpdates = cmp.Or(spec.AutomaticUpdates, was.AutomaticUpdates)
	if spec.Dormant == nil {
		spec.Dormant = was.Dormant
	}
	if spec.Running == nil {
		spec.Running = was.Running
	}
	if ptr.Deref(spec.Dormant, false) && !ptr.Deref(was.Dormant, false) {
		// Whoever puts it to sleep wants it stopped.
		spec.Running = ptr.To(false)
	}
	if spec.TTLMillis == nil {
		spec.TTLMillis = was.TTLMillis
	}
	if spec.AutostartSchedule == nil {
		spec.AutostartSchedule = was.AutostartSchedule
	}
	*spec = canonical(*spec)
	ws.Generation = current.Generation
	if !equality.Semantic.DeepEqual(*spec, was) {
		ws.Generation++
	}
}

// keepOwn puts back what the server itself puts on every object: no client can
// take it off, or put it on another one.
func keepOwn(ctx context.Context, ws, current *aggregationv1alpha1.CoderWorkspace) {
	if !slices.Contains(ws.Finalizers, aggregationv1alpha1.FinalizerWorkspace) {
		ws.Finalizers = append([]string{aggregationv1alpha1.FinalizerWorkspace}, ws.Finalizers...)
	}
	for _, label := range []string{aggregationv1alpha1.LabelControlPlaneName, aggregationv1alpha1.LabelControlPlaneNamespace} {
		var value string
		if current != nil {
			value = current.Labels[label]
		}
		if value == "" {
			delete(ws.Labels, label)
			continue
		}
		if ws.Labels == nil {
			ws.Labels = map[string]string{}
		}
		ws.Labels[label] = value
	}
	if requestedAction(ctx) == "" {
		delete(ws.Annotations, actionAnnotation)
	}
}

// canonical writes a spec the way Coder tells it, so that the same again is no
// change: never is not set at all, a TTL has whole minutes, and a UUID is in lower
// case.
func canonical(spec aggregationv1alpha1.CoderWorkspaceSpec) aggregationv1alpha1.CoderWorkspaceSpec {
	if ttl := spec.TTLMillis; ttl != nil && *ttl == 0 {
		spec.TTLMillis = nil
	} else if ttl != nil && *ttl >= minTTLMillis {
		spec.TTLMillis = ptr.To(*ttl - *ttl%minTTLMillis)
	}
	if spec.AutostartSchedule != nil && *spec.AutostartSchedule == "" {
		spec.AutostartSchedule = nil
	}
	if id, err := uuid.Parse(spec.TemplateVersionID); err == nil {
		spec.TemplateVersionID = id.String()
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
