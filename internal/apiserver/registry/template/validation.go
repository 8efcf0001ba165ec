package template

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectname"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

var (
	specPath    = field.NewPath("spec")
	namePath    = field.NewPath("metadata", "name")
	versionPath = specPath.Child("versionID")
	filesPath   = specPath.Child("files")
)

// validateNew checks what can be checked without Coder.
func validateNew(tmpl *aggregationv1alpha1.CoderTemplate) field.ErrorList {
	name, err := objectname.ParseTemplate(tmpl.Name)
	if err != nil {
		return field.ErrorList{field.Invalid(namePath, tmpl.Name, err.Error())}
	}
	var errs field.ErrorList
	spec := tmpl.Spec
	if !registry.SameOrganization(spec.Organization, name.Organization) {
		errs = append(errs, field.Invalid(specPath.Child("organization"), spec.Organization,
			fmt.Sprintf("must be %q, the organization in metadata.name, or empty", name.Organization)))
	}
	switch {
	case len(spec.Files) > 0 && spec.VersionID != "":
		errs = append(errs, field.Invalid(versionPath, spec.VersionID, "must be empty where spec.files is set: a new version is made of the files"))
	case len(spec.Files) > 0:
		errs = append(errs, validateFiles(spec.Files)...)
	case spec.VersionID == "":
		errs = append(errs, field.Required(filesPath, "give the source of the template here, or an existing version in spec.versionID"))
	default:
		errs = append(errs, validateVersionID(spec.VersionID)...)
	}
	return errs
}

// validateChange checks that only what can change does.
func validateChange(tmpl, old *aggregationv1alpha1.CoderTemplate) field.ErrorList {
	var errs field.ErrorList
	if tmpl.Spec.Organization != old.Spec.Organization {
		errs = append(errs, field.Invalid(specPath.Child("organization"), tmpl.Spec.Organization,
			fmt.Sprintf("cannot change from %q", old.Spec.Organization)))
	}
	changedFiles := !maps.Equal(tmpl.Spec.Files, old.Spec.Files)
	if tmpl.Spec.VersionID != old.Spec.VersionID {
		errs = append(errs, validateVersionID(tmpl.Spec.VersionID)...)
		if changedFiles {
			errs = append(errs, field.Invalid(versionPath, tmpl.Spec.VersionID,
				"cannot change together with spec.files: a new version is made of the files"))
		}
	}
	if changedFiles {
		errs = append(errs, validateFiles(tmpl.Spec.Files)...)
	}
	return errs
}

func validateVersionID(id string) field.ErrorList {
	if _, err := uuid.Parse(id); err != nil {
		return field.ErrorList{field.Invalid(versionPath, id, "must be the UUID of a version")}
	}
	return nil
}

// validateFiles packs the files, because that knows all limits.
func validateFiles(files map[string]string) field.ErrorList {
	_, err := coderd.PackFiles(files, nil)
	return filesProblems(err)
}

// filesProblems gives the fields of an error of packing.
func filesProblems(err error) field.ErrorList {
	var fault *coderd.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &fault) || len(fault.Fields) == 0:
		return field.ErrorList{field.Invalid(filesPath, field.OmitValueType{}, err.Error())}
	}
	var errs field.ErrorList
	for _, f := range fault.Fields {
		path := filesPath
		if name, ok := strings.CutPrefix(f.Field, "files["); ok {
			path = filesPath.Key(strings.TrimSuffix(name, "]"))
		}
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, f.Detail))
	}
	return errs
}
