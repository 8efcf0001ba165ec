package user

import (
	"cmp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// Plural is the name of the resource.
const Plural = "coderusers"

type object = *aggregationv1alpha1.CoderUser

var info = registry.ResourceInfo[object]{
	Plural: Plural, Singular: "coderuser", Kind: "CoderUser", ShortNames: []string{"cusr"}, InCoder: coderd.ResourceUser,
	New:       func() runtime.Object { return &aggregationv1alpha1.CoderUser{} },
	NewList:   func() runtime.Object { return &aggregationv1alpha1.CoderUserList{} },
	ParseName: metadata.ParseUserName,
	Fields: map[string]func(object) string{
		"spec.email":      func(u object) string { return u.Spec.Email },
		"spec.loginType":  func(u object) string { return u.Spec.LoginType },
		"status.username": func(u object) string { return u.Status.Username },
		"status.state":    func(u object) string { return u.Status.State },
	},
	Folded: []string{"spec.email", "status.username"},
	Columns: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "Name of the object: the username in lower case."},
		{Name: "Email", Type: "string", Description: "The address in Coder."},
		{Name: "State", Type: "string", Description: "active, dormant, suspended or Deleting."},
		{Name: "Roles", Type: "string", Description: "The site roles."},
		{Name: "Login", Type: "string", Description: "How the user logs in."},
		{Name: "Last seen", Type: "string", Description: "Time since the user did something in Coder."},
		{Name: "Age", Type: "string", Description: "Time since the user was created."},
		{Name: "Full name", Type: "string", Priority: 1, Description: "The name of the person."},
		{Name: "Username", Type: "string", Priority: 1, Description: "The current name in Coder. The name of the object does not change."},
		{Name: "Organizations", Type: "string", Priority: 1, Description: "The organizations that the user is a member of."},
		{Name: "Control plane", Type: "string", Priority: 1, Description: "The CoderControlPlane."},
		{Name: "Reason", Type: "string", Priority: 1, Description: "Why the user is not as the spec requests."},
	},
	Row:        row,
	Conditions: func(u object) *[]metav1.Condition { return &u.Status.Conditions },
	Spec:       func(u object) any { return u.Spec },
	CoderFields: func(error) map[string]*field.Path {
		return map[string]*field.Path{
			"username": namePath, "email": emailPath, "name": specPath.Child("fullName"), "password": passwordPath,
			"organization_ids": organizationsPath, "roles": rolesPath, "login_type": loginTypePath,
		}
	},
}

var resource = info.GroupResource()

// Config configures the kind.
type Config struct {
	registry.Config
	Secrets registry.Secrets
	// MembersAge is the minimum interval at which a list of members is read. 0 means 50s.
	MembersAge time.Duration
}

// Kind implements users. It is safe for concurrent use.
type Kind struct {
	registry.Base[object]
	secrets registry.Secrets
	members *members
}

var (
	_ records.Writer   = (*Kind)(nil)
	_ registry.Checker = (*Kind)(nil)
)

// New returns the kind.
func New(config Config) *Kind {
	return &Kind{
		Base: registry.NewBase(&info, config.Config), secrets: config.Secrets,
		members: newMembers(config.Clock, cmp.Or(config.MembersAge, 50*time.Second)),
	}
}

// Registry returns the description of users for the registry.
func (k *Kind) Registry() registry.Kind {
	return k.Base.Registry(strategy{registry.NewStrategy(k.Typer), k.secrets}, k)
}

// AddToScheme registers the fields that selectors of users support.
func AddToScheme(s *runtime.Scheme) error { return info.AddToScheme(s) }

func row(u object, ages registry.Ages) []any {
	status, seen, reason := u.Status, "never", ""
	if status.LastSeenAt != nil {
		seen = ages.Since(status.LastSeenAt)
	}
	if c := meta.FindStatusCondition(status.Conditions, aggregationv1alpha1.ConditionSynced); c != nil && c.Status != metav1.ConditionTrue {
		reason = c.Message
	}
	state := status.State
	if c := meta.FindStatusCondition(status.Conditions, aggregationv1alpha1.ConditionReady); c != nil && c.Reason == aggregationv1alpha1.ReasonDeleting {
		state, reason = c.Reason, c.Message
	}
	memberships := make([]string, 0, len(status.Organizations))
	for _, o := range status.Organizations {
		memberships = append(memberships, o.Name)
	}
	return []any{
		u.Name, status.Email, state, strings.Join(status.Roles, ","), status.LoginType, seen, ages.Since(&u.CreationTimestamp),
		status.FullName, status.Username, strings.Join(memberships, ","), u.Labels[aggregationv1alpha1.LabelControlPlaneName], reason,
	}
}

// subjectOf returns the impersonation.Subject of a user. u is the user as Coder reports it for this
// change. It has no ID if it is to be created, and is empty if Coder cannot be asked.
func subjectOf(name string, u coderd.User) impersonation.Subject {
	return impersonation.Subject{Resource: resource, Name: name, Owner: &impersonation.Owner{ID: u.ID, Username: u.Username}, IsUser: true}
}

// isRefusal reports whether the same request would be refused again.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err)
}
