package tools

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func addCreateWorkspace(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "create_workspace", Title: "Create a workspace",
		Description: "Creates a workspace. get_template shows its parameters.",
		Toolset:     toolset.Workspaces, Effect: toolset.Writes,
		Rights: []callers.Right{callers.AggregatedRight("create", workspacePlural)},
		Uses:   []callers.Right{callers.AggregatedRight("get", workspacePlural), callers.AggregatedRight("watch", workspacePlural)},
	}, createWorkspace)
}

type createWorkspaceInput struct {
	Namespace      string            `json:"namespace"`
	Owner          string            `json:"owner"`
	Name           string            `json:"name"`
	Template       string            `json:"template"`
	VersionID      string            `json:"versionID,omitempty"`
	Preset         string            `json:"preset,omitempty"`
	Parameters     map[string]string `json:"parameters,omitempty"`
	Running        *bool             `json:"running,omitempty"`
	TTL            string            `json:"ttl,omitempty" jsonschema:"like 8h"`
	Autostart      string            `json:"autostart,omitempty"`
	DryRun         bool              `json:"dryRun,omitempty"`
	Wait           bool              `json:"wait,omitempty"`
	TimeoutSeconds int               `json:"timeoutSeconds,omitempty"`
}

func createWorkspace(ctx context.Context, call *toolset.Call, in createWorkspaceInput) (workspaceResult, error) {
	ws, err := in.workspace()
	if err != nil {
		return workspaceResult{}, err
	}
	var options []client.CreateOption
	if in.DryRun {
		options = append(options, client.DryRunAll)
	}
	if err := call.Kube.Create(ctx, ws, options...); err != nil {
		return workspaceResult{}, workspaceError("create", in.Namespace, ws.Name, err)
	}
	if in.DryRun {
		return workspaceResult{Workspace: describeWorkspace(ws), Message: wouldBeAccepted}, nil
	}
	out := workspaceResult{Updated: true}
	if in.Wait {
		if out.Message, err = awaitWorkspace(ctx, call, ws, ptr.Deref(in.Running, true), in.TimeoutSeconds); err != nil {
			return workspaceResult{}, err
		}
	}
	out.Workspace = describeWorkspace(ws)
	return out, nil
}

// wouldBeAccepted is the message of a dry run that succeeded.
const wouldBeAccepted = "dry run: this would be accepted; nothing was changed"

// workspace returns the requested object. The prefix of its name,
// [control-plane.]organization, is that of the template's name.
func (in createWorkspaceInput) workspace() (*aggregationv1alpha1.CoderWorkspace, error) {
	if err := toolset.RequireObject(in.Namespace, in.Name); err != nil {
		return nil, err
	}
	dot := strings.LastIndex(in.Template, ".")
	ttl, err := ttlMillis(in.TTL)
	switch {
	case err != nil:
		return nil, err
	case in.TTL == never:
		return nil, toolset.UsageError("a new workspace cannot have the ttl never: omit ttl, and set it to never with update_workspace afterwards")
	case in.Owner == "" || strings.Contains(in.Owner, "."):
		return nil, toolset.UsageError(fmt.Sprintf("owner %q is not a valid user name in Coder", in.Owner))
	case strings.Contains(in.Name, "."):
		return nil, toolset.UsageError(fmt.Sprintf("name %q has a dot: give only the workspace's own name, such as dev; organization and owner are added", in.Name))
	case dot <= 0 || dot == len(in.Template)-1:
		return nil, toolset.UsageError(fmt.Sprintf("template %q must be organization.template, as list_templates names it, for example %q", in.Template, "coder."+strings.Trim(in.Template, ".")))
	}
	ws := &aggregationv1alpha1.CoderWorkspace{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: in.Namespace,
			Name:      strings.ToLower(in.Template[:dot] + "." + in.Owner + "." + in.Name),
		},
		Spec: aggregationv1alpha1.CoderWorkspaceSpec{
			TemplateName:          in.Template[dot+1:],
			TemplateVersionID:     in.VersionID,
			TemplateVersionPreset: in.Preset,
			Running:               in.Running,
			TTLMillis:             ttl,
			AutostartSchedule:     autostartSchedule(in.Autostart),
		},
	}
	setParameters(&ws.Spec, in.Parameters)
	return ws, nil
}

// setParameters sets the values of these parameters and keeps the others.
func setParameters(spec *aggregationv1alpha1.CoderWorkspaceSpec, values map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parameter := aggregationv1alpha1.WorkspaceParameter{Name: name, Value: values[name]}
		i := slices.IndexFunc(spec.Parameters, func(p aggregationv1alpha1.WorkspaceParameter) bool { return p.Name == name })
		if i < 0 {
			spec.Parameters = append(spec.Parameters, parameter)
			continue
		}
		spec.Parameters[i] = parameter
	}
}
