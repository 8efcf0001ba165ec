package template

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
)

var (
	resource = aggregationv1alpha1.Resource(Plural)
	kind     = aggregationv1alpha1.GroupVersion.WithKind(kindName).GroupKind()
)

// fault converts an error about a template to an API status.
func fault(name string, err error) error {
	var wrong *field.Error
	if errors.As(err, &wrong) {
		return apierrors.NewInvalid(kind, name, field.ErrorList{wrong})
	}
	return coderfault.Subject{Kind: kind, Resource: resource, Name: name, Fields: coderFields()}.Status(err)
}

// createFault is like fault, for an error of the creation itself.
func createFault(name string, err error) error {
	return coderfault.Subject{Kind: kind, Resource: resource, Name: name, Fields: coderFields()}.Created(err)
}

// versionFault is like fault, for an error about a new version. The fields of the error are those
// of the version.
func versionFault(name string, err error) error {
	fields := coderFields()
	fields["name"] = versionNamePath
	fields["message"] = specPath.Child("versionMessage")
	fields["tags"] = specPath.Child("provisionerTags")
	fields["user_variable_values"] = variablesPath
	var wrong *field.Error
	if errors.As(err, &wrong) {
		return apierrors.NewInvalid(kind, name, field.ErrorList{wrong})
	}
	return coderfault.Subject{Kind: kind, Resource: resource, Name: name, Fields: fields}.Status(err)
}

// coderFields maps the fields of Coder's API to fields of the object.
func coderFields() map[string]*field.Path {
	return map[string]*field.Path{
		"name":                             namePath,
		"display_name":                     specPath.Child("displayName"),
		"description":                      specPath.Child("description"),
		"icon":                             specPath.Child("icon"),
		"default_ttl_ms":                   specPath.Child("defaultTTLMillis"),
		"activity_bump_ms":                 specPath.Child("activityBumpMillis"),
		"allow_user_cancel_workspace_jobs": specPath.Child("allowUserCancelWorkspaceJobs"),
		"cors_behavior":                    specPath.Child("corsBehavior"),
		"use_classic_parameter_flow":       specPath.Child("useClassicParameterFlow"),
		"template_version_id":              versionPath,
		"file_id":                          filesPath,
		"file":                             filesPath,
		"files":                            filesPath,
	}
}

func invalid(tmpl *aggregationv1alpha1.CoderTemplate, problem *field.Error) error {
	return apierrors.NewInvalid(kind, tmpl.Name, field.ErrorList{problem})
}
