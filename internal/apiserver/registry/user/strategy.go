package user

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

var (
	namePath          = field.NewPath("metadata", "name")
	specPath          = field.NewPath("spec")
	emailPath         = specPath.Child("email")
	loginTypePath     = specPath.Child("loginType")
	servicePath       = specPath.Child("serviceAccount")
	passwordPath      = specPath.Child("passwordFrom", "secretKeyRef")
	rolesPath         = specPath.Child("roles")
	organizationsPath = specPath.Child("organizations")
)

// The login types of new users.
const (
	loginPassword = "password"
	loginOIDC     = "oidc"
	loginNone     = "none"
)

const (
	// maxRoles limits the roles in one list, and the organizations.
	maxRoles = 50
	// maxRole limits the name of a role or an organization.
	maxRole = 64
)

// strategy implements defaulting and validation of users.
type strategy struct {
	registry.Strategy
	secrets registry.Secrets
}

// PrepareForCreate clears the fields that only the server sets, and sets the login type of a service account.
func (strategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	u := obj.(object)
	u.Status = aggregationv1alpha1.CoderUserStatus{}
	u.Generation = 1
	if isService(u.Spec) {
		u.Spec.LoginType = cmp.Or(u.Spec.LoginType, loginNone)
	}
}

// PrepareForUpdate restores the status, and keeps the current value of unset fields.
func (strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	u, was := obj.(object), old.(object)
	was = was.DeepCopy()
	u.Status = was.Status
	registry.KeepLabels(u, was.Labels)
	spec, current := &u.Spec, was.Spec
	if spec.Email == "" || strings.EqualFold(spec.Email, current.Email) {
		spec.Email = current.Email
	}
	spec.FullName = cmp.Or(spec.FullName, current.FullName)
	spec.LoginType = cmp.Or(spec.LoginType, current.LoginType)
	if spec.LoginType == loginNone && current.LoginType == loginPassword {
		// The upgrade to Coder 2.36 changes none to password, but not the manifest.
		spec.LoginType = loginPassword
		warning.AddWarning(ctx, "", "spec.loginType: the user keeps the login type password; Coder 2.36 and later have none only for service accounts")
	}
	if spec.ServiceAccount == nil || isService(*spec) == isService(current) {
		spec.ServiceAccount = current.ServiceAccount
	}
	spec.Suspended = cmp.Or(spec.Suspended, current.Suspended)
	if spec.Roles == nil {
		spec.Roles = current.Roles
	}
	if spec.Organizations == nil {
		spec.Organizations = current.Organizations
	}
	u.Generation = was.Generation
	if !equality.Semantic.DeepEqual(*spec, current) {
		u.Generation++
	}
}

// Validate implements rest.RESTCreateStrategy.
func (s strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	u := obj.(object)
	errs := validate(u, aggregationv1alpha1.CoderUserSpec{})
	name, err := metadata.ParseUserName(u.Name)
	if err == nil {
		err = coderd.CheckName(name.Name)
	}
	if err != nil {
		errs = append(errs, field.Invalid(namePath, u.Name, err.Error()))
	}
	switch service := isService(u.Spec); {
	case service && u.Spec.Email != "":
		errs = append(errs, field.Forbidden(emailPath, "a service account has no email address"))
	case service && u.Spec.LoginType != loginNone:
		errs = append(errs, field.Invalid(loginTypePath, u.Spec.LoginType, "a service account cannot log in: leave it out, or set none"))
	case !service && u.Spec.Email == "":
		errs = append(errs, field.Required(emailPath, "Coder requires an email address for a new user"))
	}
	errs = append(errs, registry.ValidateChanged(emailPath, u.Spec.Email, "", coderd.CheckEmail)...)
	types := []string{loginPassword, loginOIDC, loginNone}
	switch {
	case u.Spec.LoginType == "":
		errs = append(errs, field.Required(loginTypePath, "one of "+strings.Join(types, ", ")))
	case !slices.Contains(types, u.Spec.LoginType):
		errs = append(errs, field.NotSupported(loginTypePath, u.Spec.LoginType, types))
	}
	return s.withSecret(ctx, u, nil, errs)
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (s strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	u, was := obj.(object), old.(object)
	errs := validate(u, was.Spec)
	if u.Spec.Email != was.Spec.Email {
		errs = append(errs, field.Invalid(emailPath, u.Spec.Email, fmt.Sprintf("Coder's API cannot change it from %q; the user's identity provider can", was.Spec.Email)))
	}
	if u.Spec.LoginType != was.Spec.LoginType {
		errs = append(errs, field.Invalid(loginTypePath, u.Spec.LoginType, fmt.Sprintf("cannot change from %q: in Coder only the user can", was.Spec.LoginType)))
	}
	if isService(u.Spec) != isService(was.Spec) {
		errs = append(errs, field.Invalid(servicePath, isService(u.Spec), "cannot change: Coder makes no user a service account, and no service account a user"))
	}
	return s.withSecret(ctx, u, was.Spec.PasswordFrom, errs)
}

func isService(spec aggregationv1alpha1.CoderUserSpec) bool {
	return ptr.Deref(spec.ServiceAccount, false)
}

func validate(u object, old aggregationv1alpha1.CoderUserSpec) field.ErrorList {
	spec := u.Spec
	errs := validateRoles(rolesPath, spec.Roles)
	errs = append(errs, registry.ValidateChanged(specPath.Child("fullName"), spec.FullName, old.FullName, coderd.CheckFullName)...)
	if len(spec.Organizations) > maxRoles {
		errs = append(errs, field.TooMany(organizationsPath, len(spec.Organizations), maxRoles))
	}
	seen := map[string]bool{}
	for i, o := range spec.Organizations {
		path := organizationsPath.Index(i)
		switch {
		case o.Name == "" || len(o.Name) > maxRole:
			errs = append(errs, field.Invalid(path.Child("name"), o.Name, "must be the name of an organization"))
		case seen[o.Name]:
			errs = append(errs, field.Duplicate(path.Child("name"), o.Name))
		}
		seen[o.Name] = true
		errs = append(errs, validateRoles(path.Child("roles"), o.Roles)...)
	}
	switch spec.ReclaimPolicy {
	case "", aggregationv1alpha1.ReclaimSuspend, aggregationv1alpha1.ReclaimDelete:
	default:
		errs = append(errs, field.NotSupported(specPath.Child("reclaimPolicy"), spec.ReclaimPolicy,
			[]string{aggregationv1alpha1.ReclaimSuspend, aggregationv1alpha1.ReclaimDelete}))
	}
	if from := spec.PasswordFrom; from != nil {
		switch ref := from.SecretKeyRef; {
		case ref == nil || ref.Name == "" || ref.Key == "":
			errs = append(errs, field.Required(passwordPath, "name and key of a Secret"))
		case spec.LoginType != loginPassword:
			errs = append(errs, field.Forbidden(specPath.Child("passwordFrom"), "only users with the login type password have a password"))
		}
	}
	return errs
}

func validateRoles(path *field.Path, roles []string) field.ErrorList {
	var errs field.ErrorList
	if len(roles) > maxRoles {
		errs = append(errs, field.TooMany(path, len(roles), maxRoles))
	}
	for i, role := range roles {
		switch {
		case role == "" || len(role) > maxRole || strings.ContainsAny(role, ":/ "):
			errs = append(errs, field.Invalid(path.Index(i), role, "must be the name of a role"))
		case role == "member" || role == "organization-member":
			errs = append(errs, field.Invalid(path.Index(i), role, "every user has this role; leave it out"))
		case slices.Contains(roles[:i], role):
			errs = append(errs, field.Duplicate(path.Index(i), role))
		}
	}
	return errs
}

// withSecret adds an error if the update takes a password from a Secret that the caller may not read.
func (s strategy) withSecret(
	ctx context.Context, u object, was *aggregationv1alpha1.CoderUserPasswordSource, errs field.ErrorList,
) field.ErrorList {
	from := u.Spec.PasswordFrom
	if len(errs) > 0 || from == nil || equality.Semantic.DeepEqual(from, was) {
		return errs
	}
	if problem := s.secrets.Check(ctx, u.Namespace, from.SecretKeyRef.Name, passwordPath.Child("name")); problem != nil {
		return field.ErrorList{problem}
	}
	return nil
}
