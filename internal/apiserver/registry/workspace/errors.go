package workspace

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

var (
	resource = aggregationv1alpha1.Resource(Plural)
	kind     = aggregationv1alpha1.GroupVersion.WithKind("CoderWorkspace").GroupKind()
)

// fault converts an error about a workspace to an API status.
func fault(name string, err error) error {
	return coderfault.Subject{Kind: kind, Resource: resource, Name: name, Fields: pathsOf(err)}.Status(err)
}

// pathsOf maps the fields that Coder names to fields of the object. A field that is not in the list
// is the name of a parameter.
func pathsOf(err error) map[string]*field.Path {
	paths := map[string]*field.Path{
		"name":                       namePath,
		"template_id":                specPath.Child("templateName"),
		"template_version_id":        versionPath,
		"template_version_preset_id": presetPath,
		"rich_parameter_values":      parametersPath,
		"automatic_updates":          specPath.Child("automaticUpdates"),
		"dormant":                    specPath.Child("dormant"),
		"ttl_ms":                     specPath.Child("ttlMillis"),
		"schedule":                   specPath.Child("autostartSchedule"),
		"autostart_schedule":         specPath.Child("autostartSchedule"),
	}
	var told *coderd.Error
	if !errors.As(err, &told) {
		return paths
	}
	for _, f := range told.Fields {
		if paths[f.Field] == nil {
			paths[f.Field] = parametersPath.Key(f.Field)
		}
	}
	return paths
}

// invalid returns 422 with the problems, or nil if there are none.
func invalid(name string, problems ...*field.Error) error {
	if len(problems) == 0 {
		return nil
	}
	return apierrors.NewInvalid(kind, name, problems)
}

// unrecorded converts an error of a write to a record. Clients do not know the record as a
// resource, so the error is not returned unchanged.
func unrecorded(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsInvalid(err):
		return invalid(name, field.Invalid(field.NewPath("metadata"), field.OmitValueType{}, err.Error()))
	default:
		return coderfault.Unavailable("the metadata of workspace "+name+" cannot be stored now: "+err.Error(), 0)
	}
}

// isRefusal reports whether the same request would fail again until the spec is changed.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err)
}
