package template

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
)

// strategy implements defaulting and validation of templates.
type strategy struct {
	registry.Strategy
	secrets registry.Secrets
}

// PrepareForCreate clears the fields that only the server sets, and sets defaults.
func (strategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	tmpl := obj.(object)
	tmpl.Status = aggregationv1alpha1.CoderTemplateStatus{}
	tmpl.Generation = 1
	if name, err := metadata.ParseTemplateName(tmpl.Name); err == nil && tmpl.Spec.Organization == "" {
		tmpl.Spec.Organization = name.Organization
	}
	tmpl.Spec.VersionID = registry.CanonicalID(tmpl.Spec.VersionID)
}

// PrepareForUpdate restores the status, and keeps the current value of unset fields that Coder
// stores: another client may manage them.
func (strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	tmpl, current := obj.(object), old.(object)
	tmpl.Status = *current.Status.DeepCopy()
	if replaced, ok := ctx.Value(replacementKey{}).(*aggregationv1alpha1.TemplateSource); ok {
		tmpl.Status.Source = replaced.DeepCopy()
		tmpl.Spec.Files = current.Spec.Files
	}
	registry.KeepLabels(tmpl, current.Labels)
	if registry.SameOrganization(tmpl.Spec.Organization, current.Spec.Organization) {
		tmpl.Spec.Organization = current.Spec.Organization
	}
	tmpl.Spec.VersionID = registry.CanonicalID(tmpl.Spec.VersionID)
	fill(&tmpl.Spec, current.Spec)
	tmpl.Generation = current.Generation
	if !equality.Semantic.DeepEqual(tmpl.Spec, current.Spec) || !sameSource(current, tmpl) {
		tmpl.Generation++
	}
}

// fill copies the current value to each unset field.
func fill(spec *aggregationv1alpha1.CoderTemplateSpec, current aggregationv1alpha1.CoderTemplateSpec) {
	if len(spec.Files) == 0 {
		spec.Files = current.Files
	}
	spec.VersionID = cmp.Or(spec.VersionID, current.VersionID)
	spec.DisplayName = cmp.Or(spec.DisplayName, current.DisplayName)
	spec.Description = cmp.Or(spec.Description, current.Description)
	spec.Icon = cmp.Or(spec.Icon, current.Icon)
	spec.CORSBehavior = cmp.Or(spec.CORSBehavior, current.CORSBehavior)
	spec.DefaultTTLMillis = cmp.Or(spec.DefaultTTLMillis, current.DefaultTTLMillis)
	spec.ActivityBumpMillis = cmp.Or(spec.ActivityBumpMillis, current.ActivityBumpMillis)
	spec.AllowUserCancelWorkspaceJobs = cmp.Or(spec.AllowUserCancelWorkspaceJobs, current.AllowUserCancelWorkspaceJobs)
	spec.UseClassicParameterFlow = cmp.Or(spec.UseClassicParameterFlow, current.UseClassicParameterFlow)
}

// Validate implements rest.RESTCreateStrategy.
func (s strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	tmpl := obj.(object)
	errs := validateNew(tmpl)
	if len(errs) > 0 {
		return errs
	}
	return s.validateSecrets(ctx, tmpl)
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (s strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	tmpl, current := obj.(object), old.(object)
	errs := validateChange(tmpl, current)
	if len(errs) > 0 || !changesContent(tmpl, current) {
		return errs
	}
	return s.validateSecrets(ctx, tmpl)
}

// WarningsOnCreate implements rest.RESTCreateStrategy.
func (strategy) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	return sensitiveValues(obj.(object).Spec)
}

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (strategy) WarningsOnUpdate(_ context.Context, obj, old runtime.Object) []string {
	tmpl := obj.(object)
	if !changesContent(tmpl, old.(object)) {
		return nil
	}
	return sensitiveValues(tmpl.Spec)
}

// validateSecrets checks whether the user has permission to get the Secrets that the new version
// uses. A user who changes only the files needs it too, because files can print the value of a
// variable.
func (s strategy) validateSecrets(ctx context.Context, tmpl object) field.ErrorList {
	var errs field.ErrorList
	for i, v := range tmpl.Spec.Variables {
		ref := secretOf(v)
		if ref == nil {
			continue
		}
		path := variablesPath.Index(i).Child("valueFrom", "secretKeyRef", "name")
		if problem := s.secrets.Check(ctx, tmpl.Namespace, ref.Name, path); problem != nil {
			errs = append(errs, problem)
		}
	}
	return errs
}
