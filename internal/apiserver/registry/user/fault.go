package user

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

func subjectOf(name string) coderfault.Subject {
	return coderfault.Subject{Kind: kind, Resource: resource, Name: name, Fields: map[string]*field.Path{
		"username": namePath, "email": emailPath, "name": specPath.Child("fullName"), "password": passwordPath,
		"organization_ids": organizationsPath, "roles": rolesPath, "login_type": loginTypePath,
	}}
}

// fault returns the Kubernetes form of an error about a user.
func fault(name string, err error) error {
	var wrong *field.Error
	if errors.As(err, &wrong) {
		return apierrors.NewInvalid(kind, name, field.ErrorList{wrong})
	}
	return subjectOf(name).Status(err)
}

// createFault is fault for an error of the creation itself, after which the user may exist.
func createFault(name string, err error) error {
	var wrong *field.Error
	if errors.As(err, &wrong) {
		return fault(name, err)
	}
	return subjectOf(name).Created(err)
}

// isRefusal reports whether the same again would be refused again.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err)
}
