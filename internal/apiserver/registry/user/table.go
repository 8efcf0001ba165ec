package user

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
)

// columns of kubectl get. Those with priority 1 are in the wide form.
func columns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "Name of the object: the username in lower case."},
		{Name: "Email", Type: "string", Description: "The address in Coder."},
		{Name: "State", Type: "string", Description: "active, dormant or suspended."},
		{Name: "Roles", Type: "string", Description: "The site roles."},
		{Name: "Login", Type: "string", Description: "How the user logs in."},
		{Name: "Last seen", Type: "string", Description: "Time since the user did something in Coder."},
		{Name: "Age", Type: "string", Description: "Time since the user was created."},
		{Name: "Full name", Type: "string", Priority: 1, Description: "The name of the person."},
		{Name: "Username", Type: "string", Priority: 1, Description: "The name in Coder now. The object keeps the first one."},
		{Name: "Organizations", Type: "string", Priority: 1, Description: "The organizations that the user is a member of."},
		{Name: "Control plane", Type: "string", Priority: 1, Description: "The CoderControlPlane."},
		{Name: "Reason", Type: "string", Priority: 1, Description: "Why it is not as the spec asks."},
	}
}

// table implements rest.TableConvertor.
type table struct {
	registry.Ages
}

// ConvertToTable implements rest.TableConvertor.
func (t table) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return registry.NewTable(object, options, columns(), func(item runtime.Object) []any {
		return t.row(item.(*aggregationv1alpha1.CoderUser))
	})
}

func (t table) row(u *aggregationv1alpha1.CoderUser) []any {
	status, seen, reason := u.Status, "never", ""
	if status.LastSeenAt != nil {
		seen = t.Since(status.LastSeenAt)
	}
	if c := meta.FindStatusCondition(status.Conditions, aggregationv1alpha1.ConditionSynced); c != nil && c.Status != metav1.ConditionTrue {
		reason = c.Message
	}
	memberships := make([]string, 0, len(status.Organizations))
	for _, o := range status.Organizations {
		memberships = append(memberships, o.Name)
	}
	return []any{
		u.Name, status.Email, status.State, strings.Join(status.Roles, ","), status.LoginType, seen, t.Since(&u.CreationTimestamp),
		status.FullName, status.Username, strings.Join(memberships, ","), u.Labels[aggregationv1alpha1.LabelControlPlaneName], reason,
	}
}
