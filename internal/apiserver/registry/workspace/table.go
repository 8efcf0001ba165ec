package workspace

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
		{Name: "Name", Type: "string", Format: "name", Description: "Name of the object: organization, user and workspace."},
		{Name: "Owner", Type: "string", Description: "The user that owns the workspace."},
		{Name: "Template", Type: "string", Description: "The template that it was built from."},
		{Name: "Status", Type: "string", Description: "What the newest build has come to."},
		{Name: "Health", Type: "string", Description: "Whether a running workspace can be used: its agents and its pods."},
		{Name: "Outdated", Type: "boolean", Description: "Whether the template has a newer active version."},
		{Name: "Age", Type: "string", Description: "Time since the workspace was created."},
		{Name: "Workspace", Type: "string", Priority: 1, Description: "Its name in Coder now. The object keeps the first one."},
		{Name: "Organization", Type: "string", Priority: 1, Description: "The organization in Coder."},
		{Name: "Control plane", Type: "string", Priority: 1, Description: "The CoderControlPlane."},
		{Name: "Version", Type: "string", Priority: 1, Description: "The name of its template version."},
		{Name: "Autostop", Type: "string", Priority: 1, Description: "Time until it stops by itself."},
		{Name: "Last used", Type: "string", Priority: 1, Description: "Time since it was used."},
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
		return t.row(item.(*aggregationv1alpha1.CoderWorkspace))
	})
}

func (t table) row(ws *aggregationv1alpha1.CoderWorkspace) []any {
	status := ws.Status
	health := "-"
	if status.Healthy != nil {
		health = map[bool]string{true: "Healthy", false: "Unhealthy"}[*status.Healthy]
	} else if status.LatestBuildStatus == statusRunning {
		health = "Connecting"
	}
	version := ""
	if status.LatestBuild != nil {
		version = status.LatestBuild.TemplateVersionName
	}
	reason := ""
	if c := meta.FindStatusCondition(status.Conditions, aggregationv1alpha1.ConditionReady); c != nil && c.Status != metav1.ConditionTrue {
		reason = c.Reason
	}
	return []any{
		ws.Name, status.OwnerName, status.TemplateName, status.Phase, health, status.Outdated, t.Since(&ws.CreationTimestamp),
		status.WorkspaceName, status.OrganizationName, ws.Labels[aggregationv1alpha1.LabelControlPlaneName],
		version, t.Until(status.AutoShutdown), t.Since(status.LastUsedAt), reason,
	}
}
