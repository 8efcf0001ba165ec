package workspace

import (
	"fmt"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

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

// validateNew validates a new workspace, without requests to Coder.
func validateNew(ws object) field.ErrorList {
	name, err := metadata.ParseWorkspaceName(ws.Name)
	if err != nil {
		return field.ErrorList{field.Invalid(namePath, ws.Name, err.Error())}
	}
	var errs field.ErrorList
	spec := ws.Spec
	if problem := coderd.CheckName(name.Name); problem != nil {
		errs = append(errs, field.Invalid(namePath, ws.Name, fmt.Sprintf("the name of the workspace, %q, %v", name.Name, problem)))
	}
	if !registry.SameOrganization(spec.Organization, name.Organization) {
		errs = append(errs, field.Invalid(specPath.Child("organization"), spec.Organization,
			fmt.Sprintf("must be %q, the organization in metadata.name, or empty", name.Organization)))
	}
	if spec.TemplateName == "" {
		errs = append(errs, field.Required(specPath.Child("templateName"), "name the template to build the workspace from"))
	}
	return append(errs, validateSpec(spec, aggregationv1alpha1.CoderWorkspaceSpec{})...)
}

// validateChange rejects changes of immutable fields, and validates the rest of the spec.
func validateChange(ws, old object) field.ErrorList {
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

// validateEphemeral validates the values for one build.
func validateEphemeral(a action, parameters []aggregationv1alpha1.WorkspaceParameter) field.ErrorList {
	if len(parameters) > 0 && a != actionStart && a != actionRestart {
		return field.ErrorList{field.Forbidden(ephemeralPath, "only start and restart take values for one build")}
	}
	return validateParameterNames(ephemeralPath, parameters)
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
