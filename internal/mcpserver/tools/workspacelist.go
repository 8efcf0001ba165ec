package tools

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func addListWorkspaces(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "list_workspaces", Title: "Workspaces",
		Description: "Lists workspaces, named organization.user.workspace.",
		Toolset:     toolset.Workspaces, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("list", workspacePlural)},
	}, listWorkspaces)
}

type listWorkspacesInput struct {
	Namespace string `json:"namespace,omitempty"`
	Owner     string `json:"owner,omitempty"`
	Template  string `json:"template,omitempty"`
	Phase     string `json:"phase,omitempty"`
	Running   *bool  `json:"running,omitempty"`
	Limit     int    `json:"limit,omitempty"`
	Cursor    string `json:"cursor,omitempty"`
}

func listWorkspaces(ctx context.Context, call *toolset.Call, in listWorkspacesInput) (listOutput[workspace], error) {
	page, err := toolset.NewPage(in.Limit, in.Cursor)
	if err != nil {
		return listOutput[workspace]{}, err
	}
	options := page.Options(in.Namespace)
	if err := in.filter(options); err != nil {
		return listOutput[workspace]{}, err
	}
	var list aggregationv1alpha1.CoderWorkspaceList
	if err := call.Kube.List(ctx, &list, options); err != nil {
		return listOutput[workspace]{}, workspaceError("list", in.Namespace, "", err)
	}
	return onePage(page, list.Items, list.Continue, describeWorkspace), nil
}

// filter sets the selectors, so that the API server filters and pages are full.
func (in listWorkspacesInput) filter(options *client.ListOptions) error {
	controlPlane, organization, template := splitTemplateName(in.Template)
	phase, err := phaseNamed(in.Phase)
	if err != nil {
		return err
	}
	running := ""
	if in.Running != nil {
		running = strconv.FormatBool(*in.Running)
	}
	var selectors []fields.Selector
	for _, wanted := range []struct{ field, value string }{
		{"spec.organization", organization},
		{"spec.templateName", template},
		{"spec.running", running},
		{"status.ownerName", in.Owner},
		{"status.phase", phase},
	} {
		if wanted.value != "" {
			selectors = append(selectors, fields.OneTermEqualSelector(wanted.field, wanted.value))
		}
	}
	if len(selectors) > 0 {
		options.FieldSelector = fields.AndSelectors(selectors...)
	}
	if controlPlane != "" {
		options.LabelSelector = labels.SelectorFromSet(labels.Set{aggregationv1alpha1.LabelControlPlaneName: controlPlane})
	}
	return nil
}

// splitTemplateName splits the name of a template, which is either the name of its object,
// [control-plane.]organization.template, or the template's own name.
func splitTemplateName(name string) (controlPlane, organization, template string) {
	parts := strings.Split(name, ".")
	template = parts[len(parts)-1]
	if len(parts) > 1 {
		organization = parts[len(parts)-2]
	}
	return strings.Join(parts[:max(0, len(parts)-2)], "."), organization, template
}

// phaseNamed returns the phase with this name, ignoring case.
func phaseNamed(name string) (string, error) {
	phases := []string{"Pending", "Starting", "Running", "Stopping", "Stopped", "Failed", "Canceling", "Canceled", "Deleting", "Deleted"}
	i := slices.IndexFunc(phases, func(phase string) bool { return strings.EqualFold(phase, name) })
	switch {
	case name == "":
		return "", nil
	case i < 0:
		return "", toolset.UsageError(fmt.Sprintf("phase %q is none of %s", name, strings.Join(phases, ", ")))
	default:
		return phases[i], nil
	}
}
