package workspace

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
)

// strategy implements defaulting and validation of workspaces.
type strategy struct {
	registry.Strategy
}

// PrepareForCreate clears the fields that only the server sets, and sets defaults.
func (strategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	ws := obj.(object)
	ws.Status = aggregationv1alpha1.CoderWorkspaceStatus{}
	ws.Generation = 1
	keepOwn(ctx, ws, nil)
	spec := &ws.Spec
	if name, err := metadata.ParseWorkspaceName(ws.Name); err == nil && spec.Organization == "" {
		spec.Organization = name.Organization
	}
	if spec.Running == nil {
		spec.Running = ptr.To(!ptr.Deref(spec.Dormant, false))
	}
	if spec.Dormant == nil {
		spec.Dormant = ptr.To(false)
	}
	spec.AutomaticUpdates = cmp.Or(spec.AutomaticUpdates, updatesNever)
	*spec = canonical(*spec, nil)
}

// PrepareForUpdate restores the status, keeps the current value of unset fields, and increments the
// generation if the spec changes.
func (strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	ws, current := obj.(object), old.(object)
	ws.Status = current.Status
	keepOwn(ctx, ws, current)
	spec, was := &ws.Spec, current.Spec
	if registry.SameOrganization(spec.Organization, was.Organization) {
		spec.Organization = was.Organization
	}
	// Coder ignores the case of a template's name.
	if spec.TemplateName == "" || strings.EqualFold(spec.TemplateName, was.TemplateName) {
		spec.TemplateName = was.TemplateName
	}
	spec.TemplateVersionID = cmp.Or(spec.TemplateVersionID, was.TemplateVersionID)
	spec.AutomaticUpdates = cmp.Or(spec.AutomaticUpdates, was.AutomaticUpdates)
	sent := spec.Dormant != nil
	spec.Dormant = cmp.Or(spec.Dormant, was.Dormant)
	spec.Running = cmp.Or(spec.Running, was.Running)
	spec.TTLMillis = cmp.Or(spec.TTLMillis, was.TTLMillis)
	spec.AutostartSchedule = cmp.Or(spec.AutostartSchedule, was.AutostartSchedule)
	if spec.SharedWith == nil {
		spec.SharedWith = was.SharedWith
	}
	switch {
	case !ptr.Deref(spec.Dormant, false):
	case !ptr.Deref(was.Dormant, false):
		// A workspace that becomes dormant is stopped.
		spec.Running = ptr.To(false)
	case !ptr.Deref(was.Running, false) && ptr.Deref(spec.Running, false) && !setsDormant(ctx, ws, sent):
		// Coder made the workspace dormant. A manifest with running: true stays valid.
		setRunning(ws, true)
	}
	*spec = canonical(*spec, was.TTLMillis)
	ws.Generation = current.Generation
	if !equality.Semantic.DeepEqual(*spec, was) {
		ws.Generation++
	}
}

// canonical normalizes a spec to the form that Coder returns, so that an equal value is no change: a UUID
// is in lower case, and a TTL is rounded down to minutes. But one that Coder took from a template, which
// is the current one, may have seconds.
func canonical(spec aggregationv1alpha1.CoderWorkspaceSpec, current *int64) aggregationv1alpha1.CoderWorkspaceSpec {
	spec.TemplateVersionID = registry.CanonicalID(spec.TemplateVersionID)
	if ttl := ptr.Deref(spec.TTLMillis, 0); ttl >= minTTLMillis && ttl != ptr.Deref(current, 0) {
		spec.TTLMillis = ptr.To(ttl - ttl%minTTLMillis)
	}
	spec.SharedWith = withRole(spec.SharedWith)
	return spec
}

// setsDormant reports whether a client sets spec.dormant. sent is true if the request contains it. A
// patch and an apply are merged with the current object first, so the managed fields decide. A PUT
// contains what its client read, or what it sets: that cannot be distinguished.
func setsDormant(ctx context.Context, ws object, sent bool) bool {
	if info, ok := request.RequestInfoFrom(ctx); ok && info.Verb == "update" && sent {
		return true
	}
	path := fieldpath.MakePathOrDie("spec", "dormant")
	return slices.ContainsFunc(ws.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		var fields fieldpath.Set
		return entry.FieldsV1 != nil && fields.FromJSON(entry.FieldsV1.GetRawReader()) == nil && fields.Has(path)
	})
}

// keepOwn restores the metadata that the server sets on each object. A client can neither remove it
// nor set it on another object.
func keepOwn(ctx context.Context, ws, current object) {
	if !slices.Contains(ws.Finalizers, aggregationv1alpha1.FinalizerWorkspace) {
		ws.Finalizers = append([]string{aggregationv1alpha1.FinalizerWorkspace}, ws.Finalizers...)
	}
	var own map[string]string
	if current != nil {
		own = current.Labels
	}
	registry.KeepLabels(ws, own)
	if requestedAction(ctx) == "" {
		delete(ws.Annotations, actionAnnotation)
	}
}

// Validate implements rest.RESTCreateStrategy.
func (strategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	return validateNew(obj.(object))
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (strategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return validateChange(obj.(object), old.(object))
}
