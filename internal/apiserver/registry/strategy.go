package registry

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// Strategy is the part of a strategy that all kinds share.
type Strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
}

// NewStrategy returns a Strategy with the scheme's types.
func NewStrategy(typer runtime.ObjectTyper) Strategy {
	return Strategy{ObjectTyper: typer, NameGenerator: names.SimpleNameGenerator}
}

// NamespaceScoped returns true: an object is in the namespace of its control plane.
func (Strategy) NamespaceScoped() bool { return true }

// Canonicalize does nothing.
func (Strategy) Canonicalize(runtime.Object) {}

// AllowCreateOnUpdate returns false: PUT to an object that does not exist is 404.
func (Strategy) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate returns false: PUT requires the resourceVersion that it replaces. A
// patch does not.
func (Strategy) AllowUnconditionalUpdate(context.Context) bool { return false }

// WarningsOnCreate returns none. Warnings about metadata are added with the defaults.
func (Strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

// WarningsOnUpdate returns none.
func (Strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// GetResetFields returns the fields that an applier never owns.
func (Strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(aggregationv1alpha1.GroupVersion.String()): fieldpath.NewSet(fieldpath.MakePathOrDie("status")),
	}
}

// KeepLabels restores the two control plane labels, which clients cannot change. All other labels
// are free. current contains the labels of the stored object.
func KeepLabels(obj metav1.Object, current map[string]string) {
	labels := obj.GetLabels()
	for _, label := range aggregationv1alpha1.ControlPlaneLabels() {
		value := current[label]
		if value == "" {
			delete(labels, label)
			continue
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[label] = value
	}
	obj.SetLabels(labels)
}

// Labels returns the labels that each object of a control plane has.
func Labels(controlPlane types.NamespacedName) map[string]string {
	labels := map[string]string{aggregationv1alpha1.LabelControlPlaneNamespace: controlPlane.Namespace}
	if controlPlane.Name != "" {
		labels[aggregationv1alpha1.LabelControlPlaneName] = controlPlane.Name
	}
	return labels
}

// KeepsFirstName returns the validation error for a spec that uses the new name of something that
// was renamed in Coder. An object keeps the name that it was created with.
func KeepsFirstName(first string) string {
	return fmt.Sprintf("is the new name after a rename in Coder; objects keep their first name, so it must be %q", first)
}

// SameOrganization reports whether the organization in a spec can be the one in the object's name.
// Coder accepts "default" as another name of its first organization, so "default" matches every
// name here. Organization resolves it later.
func SameOrganization(inSpec, inName string) bool {
	return inSpec == "" || inSpec == coderd.DefaultOrganization || strings.EqualFold(inSpec, inName)
}

// ValidateNew returns the errors of the name of a new object that is in an organization, and of another organization in
// its spec. what is template or workspace.
func ValidateNew(what, object string, name metadata.Name, organization string) field.ErrorList {
	var errs field.ErrorList
	if problem := coderd.CheckName(name.Name); problem != nil {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), object, fmt.Sprintf("the name of the %s, %q, %v", what, name.Name, problem)))
	}
	if !SameOrganization(organization, name.Organization) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "organization"), organization,
			fmt.Sprintf("must be %q, the organization in metadata.name, or empty", name.Organization)))
	}
	return errs
}

// CanonicalID returns the form in which Coder returns an ID. Another text is returned unchanged.
func CanonicalID(id string) string {
	if parsed, err := uuid.Parse(id); err == nil {
		return parsed.String()
	}
	return id
}

// ValidateChanged returns an error if a text that an update sets or changes does not pass the check.
func ValidateChanged(path *field.Path, text, old string, check func(string) error) field.ErrorList {
	if text == "" || text == old {
		return nil
	}
	if problem := check(text); problem != nil {
		return field.ErrorList{field.Invalid(path, text, problem.Error())}
	}
	return nil
}

// ValidateText returns an error if a text that an update sets or changes has more characters than Coder stores.
func ValidateText(path *field.Path, text, old string, most int) field.ErrorList {
	if text == old {
		return nil
	}
	if problem := coderd.CheckText(text, most); problem != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, problem.Error())}
	}
	return nil
}

// ValidateValue returns an error if Coder cannot store the value of a parameter or a variable, which may be secret.
func ValidateValue(path *field.Path, value string) field.ErrorList {
	return ValidateText(path, value, "", len(value))
}
