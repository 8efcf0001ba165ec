package workspace

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
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
	"github.com/coder-k8s/coder-k8s/internal/coderd"
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
// is the current one, may have seconds. A share has the default role.
func canonical(spec aggregationv1alpha1.CoderWorkspaceSpec, current *int64) aggregationv1alpha1.CoderWorkspaceSpec {
	spec.TemplateVersionID = registry.CanonicalID(spec.TemplateVersionID)
	if ttl := ptr.Deref(spec.TTLMillis, 0); ttl >= minTTLMillis && ttl != ptr.Deref(current, 0) {
		spec.TTLMillis = ptr.To(ttl - ttl%minTTLMillis)
	}
	spec.SharedWith = slices.Clone(spec.SharedWith)
	for i := range spec.SharedWith {
		spec.SharedWith[i].Role = cmp.Or(spec.SharedWith[i].Role, coderd.RoleUse)
	}
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
	if requested, _ := ctx.Value(actionKey{}).(action); requested == "" {
		delete(ws.Annotations, actionAnnotation)
	}
}

// Validate implements rest.RESTCreateStrategy.
func (strategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	ws := obj.(object)
	name, err := metadata.ParseWorkspaceName(ws.Name)
	if err != nil {
		return field.ErrorList{field.Invalid(namePath, ws.Name, err.Error())}
	}
	spec := ws.Spec
	errs := registry.ValidateNew("workspace", ws.Name, name, spec.Organization)
	if spec.TemplateName == "" {
		errs = append(errs, field.Required(specPath.Child("templateName"), "name the template to build the workspace from"))
	}
	return append(errs, validateSpec(spec, aggregationv1alpha1.CoderWorkspaceSpec{})...)
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (strategy) ValidateUpdate(_ context.Context, obj, was runtime.Object) field.ErrorList {
	ws, old := obj.(object), was.(object)
	var errs field.ErrorList
	for _, f := range []struct{ name, wanted, current, inCoder string }{
		{"organization", ws.Spec.Organization, old.Spec.Organization, old.Status.OrganizationName},
		{"templateName", ws.Spec.TemplateName, old.Spec.TemplateName, old.Status.TemplateName},
	} {
		switch f.wanted {
		case f.current:
		case f.inCoder:
			errs = append(errs, field.Invalid(specPath.Child(f.name), f.wanted, registry.KeepsFirstName(f.current)))
		default:
			errs = append(errs, field.Invalid(specPath.Child(f.name), f.wanted,
				fmt.Sprintf("is immutable and must stay %q; all other fields of the spec can be changed", f.current)))
		}
	}
	return append(errs, validateSpec(ws.Spec, old.Spec)...)
}

// minTTLMillis and maxTTLMillis are the shortest and the longest TTL that Coder accepts.
const (
	minTTLMillis = 60_000
	maxTTLMillis = 30 * 24 * 60 * minTTLMillis
)

var (
	specPath       = field.NewPath("spec")
	namePath       = field.NewPath("metadata", "name")
	parametersPath = specPath.Child("parameters")
	presetPath     = specPath.Child("templateVersionPreset")
	versionPath    = specPath.Child("templateVersionID")
	ephemeralPath  = field.NewPath("ephemeralParameters")
)

// validateSpec validates the mutable fields.
func validateSpec(spec, old aggregationv1alpha1.CoderWorkspaceSpec) field.ErrorList {
	var errs field.ErrorList
	if spec.TemplateVersionID != "" && spec.TemplateVersionID != old.TemplateVersionID {
		if _, err := uuid.Parse(spec.TemplateVersionID); err != nil {
			errs = append(errs, field.Invalid(versionPath, spec.TemplateVersionID, "must be a UUID, such as status.activeVersionID of a CoderTemplate"))
		}
	}
	ttl := ptr.Deref(spec.TTLMillis, 0)
	if ttl != 0 && (ttl < minTTLMillis || ttl > maxTTLMillis) && ttl != ptr.Deref(old.TTLMillis, 0) {
		errs = append(errs, field.Invalid(specPath.Child("ttlMillis"), ttl, fmt.Sprintf(
			"must be from %d (one minute) to %d (30 days), or 0 for never", minTTLMillis, maxTTLMillis)))
	}
	if schedule := ptr.Deref(spec.AutostartSchedule, ""); schedule != "" && schedule != ptr.Deref(old.AutostartSchedule, "") {
		if err := coderd.CheckSchedule(schedule); err != nil {
			errs = append(errs, field.Invalid(specPath.Child("autostartSchedule"), schedule, fmt.Sprintf(
				`must be minute, hour, * * and day of week, such as "CRON_TZ=Europe/Berlin 30 9 * * 1-5": %v`, err)))
		}
	}
	switch spec.AutomaticUpdates {
	case "", updatesAlways, updatesNever:
	default:
		errs = append(errs, field.NotSupported(specPath.Child("automaticUpdates"), spec.AutomaticUpdates, []string{updatesAlways, updatesNever}))
	}
	// In Coder, a running workspace can be made dormant without a stop.
	both := func(s aggregationv1alpha1.CoderWorkspaceSpec) bool {
		return ptr.Deref(s.Dormant, false) && ptr.Deref(s.Running, false)
	}
	if both(spec) && !both(old) {
		errs = append(errs, field.Invalid(specPath.Child("running"), true,
			"a dormant workspace is stopped: set dormant to false to let it run, or running to false"))
	}
	errs = append(errs, validateSharing(spec.SharedWith, old.SharedWith)...)
	return append(errs, validateParameterNames(parametersPath, spec.Parameters)...)
}

func validateParameterNames(in *field.Path, parameters []aggregationv1alpha1.WorkspaceParameter) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, p := range parameters {
		switch path := in.Index(i).Child("name"); {
		case p.Name == "":
			errs = append(errs, field.Required(path, "name the parameter of the template"))
		case seen[p.Name]:
			errs = append(errs, field.Duplicate(path, p.Name))
		}
		seen[p.Name] = true
		errs = append(errs, registry.ValidateValue(in.Index(i).Child("value"), p.Value)...)
	}
	return errs
}
