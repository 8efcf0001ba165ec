package workspace

import (
	"fmt"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectname"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
)

// minTTLMillis is the shortest life that Coder accepts.
const minTTLMillis = 60_000

var (
	specPath = field.NewPath("spec")
	namePath = field.NewPath("metadata", "name")
)

// validateNew checks what can be checked without Coder.
func validateNew(ws *aggregationv1alpha1.CoderWorkspace) field.ErrorList {
	name, err := objectname.ParseWorkspace(ws.Name)
	if err != nil {
		return field.ErrorList{field.Invalid(namePath, ws.Name, err.Error())}
	}
	var errs field.ErrorList
	spec := ws.Spec
	if !registry.SameOrganization(spec.Organization, name.Organization) {
		errs = append(errs, field.Invalid(specPath.Child("organization"), spec.Organization,
			fmt.Sprintf("must be %q, the organization in metadata.name, or empty", name.Organization)))
	}
	if spec.TemplateName == "" {
		errs = append(errs, field.Required(specPath.Child("templateName"), "name the template to build the workspace from"))
	}
	if spec.TemplateVersionID != "" {
		if _, err := uuid.Parse(spec.TemplateVersionID); err != nil {
			errs = append(errs, field.Invalid(specPath.Child("templateVersionID"), spec.TemplateVersionID, "must be a UUID"))
		}
	}
	if !ptr.Deref(spec.Running, true) {
		errs = append(errs, field.Invalid(specPath.Child("running"), false,
			"a workspace starts when it is created: leave this unset, and set it to false when the workspace runs"))
	}
	return append(errs, validateSchedule(spec)...)
}

// validateChange checks that only what can change does.
func validateChange(ws, old *aggregationv1alpha1.CoderWorkspace) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct{ name, wanted, current string }{
		{"organization", ws.Spec.Organization, old.Spec.Organization},
		{"templateName", ws.Spec.TemplateName, old.Spec.TemplateName},
		{"templateVersionID", ws.Spec.TemplateVersionID, old.Spec.TemplateVersionID},
	} {
		if f.wanted != f.current {
			errs = append(errs, field.Invalid(specPath.Child(f.name), f.wanted,
				fmt.Sprintf("cannot change from %q; running, ttlMillis and autostartSchedule can", f.current)))
		}
	}
	return append(errs, validateSchedule(ws.Spec)...)
}

func validateSchedule(spec aggregationv1alpha1.CoderWorkspaceSpec) field.ErrorList {
	if ttl := spec.TTLMillis; ttl != nil && *ttl < minTTLMillis {
		return field.ErrorList{field.Invalid(specPath.Child("ttlMillis"), *ttl,
			fmt.Sprintf("must be at least %d (one minute), or 0 for never", minTTLMillis))}
	}
	return nil
}
