package diagnosis

import (
	"cmp"
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

func controlPlaneName(ws *aggregationv1alpha1.CoderWorkspace) string {
	return ws.Labels[aggregationv1alpha1.LabelControlPlaneName]
}

// firstTemplateName returns the name that the object of a workspace's template has if neither
// the template nor its organization was renamed in Coder. The name of a workspace is
// [<control plane>.]<organization>.<user>.<workspace>, and none of these parts contains a dot.
// Names of objects are in lower case, unlike those in Coder.
func firstTemplateName(ws *aggregationv1alpha1.CoderWorkspace) string {
	parts := strings.Split(ws.Name, ".")
	template := cmp.Or(ws.Spec.TemplateName, ws.Status.TemplateName)
	return strings.ToLower(strings.Join(append(parts[:max(len(parts)-2, 0)], template), "."))
}

// TemplateOf returns the template of a workspace, or nil if there is none. It finds the
// template by its current names in Coder, because the names of objects and in specs are those
// from before a rename. A caller who may not list templates gets the template if its object
// still has the current name. The error is that of the list.
func TemplateOf(ctx context.Context, kube *callers.Kube, ws *aggregationv1alpha1.CoderWorkspace) (*aggregationv1alpha1.CoderTemplate, error) {
	organization, name := ws.Status.OrganizationName, ws.Status.TemplateName
	list := &aggregationv1alpha1.CoderTemplateList{}
	err := kube.List(ctx, list, client.InNamespace(ws.Namespace), client.Limit(1),
		client.MatchingLabels{aggregationv1alpha1.LabelControlPlaneName: controlPlaneName(ws)},
		client.MatchingFields{fieldOrganization: organization, fieldTemplate: name})
	switch {
	case apierrors.IsForbidden(err):
		tmpl, key := &aggregationv1alpha1.CoderTemplate{}, client.ObjectKey{Namespace: ws.Namespace, Name: firstTemplateName(ws)}
		if kube.Get(ctx, key, tmpl) == nil && tmpl.Status.OrganizationName == organization && tmpl.Status.TemplateName == name {
			return tmpl, nil
		}
		return nil, err
	case err != nil || len(list.Items) == 0:
		return nil, err
	}
	return &list.Items[0], nil
}

// The field selectors of a template's current names in Coder.
const (
	fieldOrganization = "status.organizationName"
	fieldTemplate     = "status.templateName"
)
