package template

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
)

// columns returns the columns of kubectl get. Those with priority 1 are in the wide output only.
func columns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "Name of the object: organization and template."},
		{Name: "Display name", Type: "string", Description: "What Coder shows instead of the name."},
		{Name: "Status", Type: "string", Description: "Active, or what keeps the newest version from being so."},
		{Name: "Active version", Type: "string", Description: "The version from which workspaces are built."},
		{Name: "Deprecated", Type: "boolean", Description: "Whether no workspace can be made of it any more."},
		{Name: "Age", Type: "string", Description: "Time since the template was created."},
		{Name: "Template", Type: "string", Priority: 1, Description: "Its name in Coder now. The object keeps the first one."},
		{Name: "Organization", Type: "string", Priority: 1, Description: "The organization in Coder."},
		{Name: "Control plane", Type: "string", Priority: 1, Description: "The CoderControlPlane."},
		{Name: "Latest version", Type: "string", Priority: 1, Description: "The newest version, active or not."},
		{Name: "Latest status", Type: "string", Priority: 1, Description: "The status of its build."},
		{Name: "Updated", Type: "string", Priority: 1, Description: "Time since the template changed."},
		{Name: "Reason", Type: "string", Priority: 1, Description: "Why it is not ready."},
	}
}

// table implements rest.TableConvertor.
type table struct {
	registry.Ages
}

// ConvertToTable implements rest.TableConvertor.
func (t table) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return registry.NewTable(object, options, columns(), func(item runtime.Object) []any {
		return t.row(item.(*aggregationv1alpha1.CoderTemplate))
	})
}

func (t table) row(tmpl *aggregationv1alpha1.CoderTemplate) []any {
	status := tmpl.Status
	state, reason := "Unknown", ""
	if c := meta.FindStatusCondition(status.Conditions, aggregationv1alpha1.ConditionReady); c != nil {
		state = c.Reason
		if c.Status != metav1.ConditionTrue {
			reason = c.Message
		}
	}
	if c := meta.FindStatusCondition(status.Conditions, aggregationv1alpha1.ConditionSynced); c != nil &&
		c.Reason == aggregationv1alpha1.ReasonCoderUnreachable {
		reason = c.Message
	}
	if tmpl.DeletionTimestamp != nil {
		state = aggregationv1alpha1.ReasonDeleting
	}
	return []any{
		tmpl.Name, tmpl.Spec.DisplayName, state, status.ActiveVersionName, status.Deprecated, t.Since(&tmpl.CreationTimestamp),
		status.TemplateName, status.OrganizationName, tmpl.Labels[aggregationv1alpha1.LabelControlPlaneName],
		status.LatestVersionName, status.LatestVersionStatus, t.Since(status.UpdatedAt), reason,
	}
}
