package template

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectname"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
)

// strategy implements defaulting and validation of templates.
type strategy struct {
	registry.Strategy
	mayReadSecret func(ctx context.Context, who user.Info, namespace, secret string) error
}

// PrepareForCreate clears the fields that only the server sets, and sets defaults.
func (strategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	tmpl := obj.(*aggregationv1alpha1.CoderTemplate)
	tmpl.Status = aggregationv1alpha1.CoderTemplateStatus{}
	tmpl.Generation = 1
	if name, err := objectname.ParseTemplate(tmpl.Name); err == nil && tmpl.Spec.Organization == "" {
		tmpl.Spec.Organization = name.Organization
	}
}

// PrepareForUpdate restores the status, and keeps the current value of unset fields that Coder
// stores: another client may manage them.
func (strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	tmpl, current := obj.(*aggregationv1alpha1.CoderTemplate), old.(*aggregationv1alpha1.CoderTemplate)
	tmpl.Status = *current.Status.DeepCopy()
	if replaced, ok := replacementFrom(ctx); ok {
		tmpl.Status.Source = replaced.DeepCopy()
		tmpl.Spec.Files = current.Spec.Files
	}
	for _, label := range []string{aggregationv1alpha1.LabelControlPlaneName, aggregationv1alpha1.LabelControlPlaneNamespace} {
		if value, ok := current.Labels[label]; ok {
			if tmpl.Labels == nil {
				tmpl.Labels = map[string]string{}
			}
			tmpl.Labels[label] = value
		}
	}
	if registry.SameOrganization(tmpl.Spec.Organization, current.Spec.Organization) {
		tmpl.Spec.Organization = current.Spec.Organization
	}
	fill(&tmpl.Spec, current.Spec)
	tmpl.Generation = current.Generation
	if !equality.Semantic.DeepEqual(tmpl.Spec, current.Spec) || !sameSource(current, tmpl) {
		tmpl.Generation++
	}
}

// fill copies the current value to each unset field.
func fill(spec *aggregationv1alpha1.CoderTemplateSpec, current aggregationv1alpha1.CoderTemplateSpec) {
	for field, kept := range map[*string]string{
		&spec.VersionID: current.VersionID, &spec.DisplayName: current.DisplayName, &spec.Description: current.Description,
		&spec.Icon: current.Icon, &spec.CORSBehavior: current.CORSBehavior,
	} {
		if *field == "" {
			*field = kept
		}
	}
	if len(spec.Files) == 0 {
		spec.Files = current.Files
	}
	fillPointer(&spec.DefaultTTLMillis, current.DefaultTTLMillis)
	fillPointer(&spec.ActivityBumpMillis, current.ActivityBumpMillis)
	fillPointer(&spec.AllowUserCancelWorkspaceJobs, current.AllowUserCancelWorkspaceJobs)
	fillPointer(&spec.UseClassicParameterFlow, current.UseClassicParameterFlow)
}

func fillPointer[T any](field **T, kept *T) {
	if *field == nil && kept != nil {
		value := *kept
		*field = &value
	}
}

// Validate implements rest.RESTCreateStrategy.
func (s strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	tmpl := obj.(*aggregationv1alpha1.CoderTemplate)
	errs := validateNew(tmpl)
	if len(errs) > 0 {
		return errs
	}
	return s.validateSecrets(ctx, tmpl)
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (s strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	tmpl, current := obj.(*aggregationv1alpha1.CoderTemplate), old.(*aggregationv1alpha1.CoderTemplate)
	errs := validateChange(tmpl, current)
	if len(errs) > 0 || !changesContent(tmpl, current) {
		return errs
	}
	return s.validateSecrets(ctx, tmpl)
}

// validateSecrets checks whether the user has permission to get the Secrets that the new version
// uses. A user who changes only the files needs it too, because files can print the value of a
// variable.
func (s strategy) validateSecrets(ctx context.Context, tmpl *aggregationv1alpha1.CoderTemplate) field.ErrorList {
	if s.mayReadSecret == nil || !usesSecrets(tmpl.Spec.Variables) {
		return nil
	}
	who, ok := request.UserFrom(ctx)
	if !ok {
		return field.ErrorList{field.Forbidden(variablesPath, "it is not known who asks, so no Secret is read")}
	}
	var errs field.ErrorList
	for i, v := range tmpl.Spec.Variables {
		ref := secretOf(v)
		if ref == nil {
			continue
		}
		path := variablesPath.Index(i).Child("valueFrom", "secretKeyRef", "name")
		switch err := s.mayReadSecret(ctx, who, tmpl.Namespace, ref.Name); {
		case apierrors.IsForbidden(err):
			errs = append(errs, field.Forbidden(path, "user "+who.GetName()+" may not get Secret "+ref.Name+" in namespace "+tmpl.Namespace))
		case err != nil:
			errs = append(errs, field.InternalError(path, err))
		}
	}
	return errs
}
