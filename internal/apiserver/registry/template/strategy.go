package template

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectname"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
)

// strategy holds defaults and validation of templates.
type strategy struct {
	registry.Strategy
}

// PrepareForCreate drops what only the server may say, and fills in what
// follows from the name.
func (strategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	tmpl := obj.(*aggregationv1alpha1.CoderTemplate)
	tmpl.Status = aggregationv1alpha1.CoderTemplateStatus{}
	tmpl.Generation = 1
	registry.KeepMetadata(ctx, tmpl, nil)
	if name, err := objectname.ParseTemplate(tmpl.Name); err == nil && tmpl.Spec.Organization == "" {
		tmpl.Spec.Organization = name.Organization
	}
}

// PrepareForUpdate keeps the status, and takes source and version that are not
// set as kept by somebody else. A display name that is not set is none.
func (strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	tmpl, current := obj.(*aggregationv1alpha1.CoderTemplate), old.(*aggregationv1alpha1.CoderTemplate)
	tmpl.Status = current.Status
	registry.KeepMetadata(ctx, tmpl, current)
	if registry.SameOrganization(tmpl.Spec.Organization, current.Spec.Organization) {
		tmpl.Spec.Organization = current.Spec.Organization
	}
	if tmpl.Spec.VersionID == "" {
		tmpl.Spec.VersionID = current.Spec.VersionID
	}
	if len(tmpl.Spec.Files) == 0 {
		tmpl.Spec.Files = current.Spec.Files
	}
}

// Validate implements rest.RESTCreateStrategy.
func (strategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	return validateNew(obj.(*aggregationv1alpha1.CoderTemplate))
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (strategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return validateChange(obj.(*aggregationv1alpha1.CoderTemplate), old.(*aggregationv1alpha1.CoderTemplate))
}
