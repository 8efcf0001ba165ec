package tools

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

type setWorkspaceRunningInput struct {
	Namespace      string `json:"namespace"`
	Name           string `json:"name"`
	Running        bool   `json:"running" jsonschema:"true starts it, false stops it"`
	Wait           bool   `json:"wait,omitempty"`
	TimeoutSeconds int    `json:"timeoutSeconds,omitempty"`
	Confirm        string `json:"confirm,omitempty"`
}

// setWorkspaceRunning uses the subresources start and stop instead of spec.running: they
// also build again after a failure, and they cannot fail with a conflict.
func setWorkspaceRunning(ctx context.Context, call *toolset.Call, in setWorkspaceRunningInput) (workspaceResult, error) {
	ws, err := readWorkspace(ctx, call.Kube, in.Namespace, in.Name)
	if err != nil {
		return workspaceResult{}, err
	}
	out := workspaceResult{Updated: !runsAsWanted(ws, in.Running)}
	if out.Updated {
		if ws, err = startOrStop(ctx, call, ws, in); err != nil {
			return workspaceResult{}, err
		}
	}
	return out.after(ctx, call, ws, in.Wait, in.Running, in.TimeoutSeconds)
}

// after returns the answer with the state of the workspace after the change. If wait is set,
// it waits until the workspace runs or is stopped, and the error says why it does not.
func (out workspaceResult) after(
	ctx context.Context, call *toolset.Call, ws *aggregationv1alpha1.CoderWorkspace, wait, running bool, timeoutSeconds int,
) (workspaceResult, error) {
	var err error
	if wait {
		err = awaitWorkspace(ctx, call, ws, running, timeoutSeconds)
	}
	out.Workspace = describeWorkspace(ws)
	return out, err
}

// runsAsWanted reports whether nothing needs to be done. A workspace whose last build
// failed or was canceled is built again, and a start or stop that Coder refused is requested
// again.
func runsAsWanted(ws *aggregationv1alpha1.CoderWorkspace, running bool) bool {
	failed := ws.Status.Phase == "Failed" || ws.Status.Phase == "Canceled"
	stalled := meta.FindStatusCondition(ws.Status.Conditions, aggregationv1alpha1.ConditionStalled)
	refused := ws.Status.Phase != phaseAfter(running) && stalled != nil && stalled.Status == metav1.ConditionTrue &&
		stalled.Reason == aggregationv1alpha1.ReasonChangeRefused
	return !failed && !refused && ptr.Deref(ws.Spec.Running, !running) == running
}

// phaseAfter returns the phase of a workspace that was started or stopped.
func phaseAfter(running bool) string {
	if running {
		return "Running"
	}
	return "Stopped"
}

// startOrStop starts or stops the workspace and returns its new state.
func startOrStop(
	ctx context.Context, call *toolset.Call, ws *aggregationv1alpha1.CoderWorkspace, in setWorkspaceRunningInput,
) (*aggregationv1alpha1.CoderWorkspace, error) {
	action, resource, ask := "start", startResource, confirmation{}
	if !in.Running {
		action, resource = "stop", stopResource
		ask = confirmation{confirm: in.Confirm, question: fmt.Sprintf("Stop workspace %s of %s? Its processes are stopped.", ws.Name, ws.Status.OwnerName)}
	}
	err := confirmed(ctx, call, ws, ask, func(ws *aggregationv1alpha1.CoderWorkspace, only bool) error {
		options := &client.SubResourceCreateOptions{CreateOptions: client.CreateOptions{DryRun: dryRun(only)}}
		err := call.Kube.SubResource(action).Create(ctx, ws, &aggregationv1alpha1.CoderWorkspaceAction{}, options)
		return callError("create", resource+"."+aggregationGroup, ws.Namespace, ws.Name, err)
	})
	if err != nil {
		return nil, err
	}
	return readWorkspace(ctx, call.Kube, in.Namespace, in.Name)
}

// awaitWorkspace waits until the workspace is ready in the phase Running or Stopped, or
// until it cannot become so without another action. It updates ws.
func awaitWorkspace(
	ctx context.Context, call *toolset.Call, ws *aggregationv1alpha1.CoderWorkspace, running bool, timeoutSeconds int,
) error {
	deleted := fmt.Sprintf("workspace %s was deleted in the meantime; list_workspaces shows which exist", ws.Name)
	return await(ctx, call, ws, time.Duration(timeoutSeconds)*time.Second, deleted, func() (done bool, problem, message string) {
		conditions := ws.Status.Conditions
		ready := meta.IsStatusConditionTrue(conditions, aggregationv1alpha1.ConditionReady) && ws.Status.Phase == phaseAfter(running)
		return ready, workspaceProblem(ws, running), ws.Status.Phase + ": " + progressMessage(conditions)
	})
}

// workspaceProblem returns why the workspace cannot start or stop without another action, and
// the tool to call next. It returns "" if waiting can help.
func workspaceProblem(ws *aggregationv1alpha1.CoderWorkspace, running bool) string {
	stalled := stalledMessage(ws.Status.Conditions)
	switch phase := ws.Status.Phase; {
	case ws.DeletionTimestamp != nil, phase == "Deleting", phase == "Deleted":
		return fmt.Sprintf("workspace %s is being deleted; get_workspace shows its state", ws.Name)
	case stalled != "" && (phase == "Failed" || phase == "Canceled"):
		return stalled + "; get_build_logs shows the whole log"
	case stalled != "":
		return stalled + "; diagnose_workspace says what to do"
	}
	for _, agent := range ws.Status.Agents {
		if running && ws.Status.Phase == "Running" && agent.Status == "timeout" {
			return fmt.Sprintf("agent %q did not connect in time; diagnose_workspace says what to do", agent.Name)
		}
	}
	return ""
}

type createWorkspaceInput struct {
	Namespace      string            `json:"namespace"`
	Owner          string            `json:"owner" jsonschema:"user name in Coder"`
	Name           string            `json:"name" jsonschema:"the workspace's own name without dots, like dev"`
	Template       string            `json:"template" jsonschema:"organization.template, as list_templates names it"`
	VersionID      string            `json:"versionID,omitempty" jsonschema:"id of a template version; the active one if omitted"`
	Preset         string            `json:"preset,omitempty" jsonschema:"name of a preset of the template version"`
	Parameters     map[string]string `json:"parameters,omitempty"`
	Running        *bool             `json:"running,omitempty" jsonschema:"start it at once"`
	TTL            string            `json:"ttl,omitempty" jsonschema:"like 8h"`
	Autostart      string            `json:"autostart,omitempty"`
	DryRun         bool              `json:"dryRun,omitempty"`
	Wait           bool              `json:"wait,omitempty"`
	TimeoutSeconds int               `json:"timeoutSeconds,omitempty"`
}

func createWorkspace(ctx context.Context, call *toolset.Call, in createWorkspaceInput) (workspaceResult, error) {
	ws, err := in.workspace(ctx, call.Kube)
	if err != nil {
		return workspaceResult{}, err
	}
	if err := call.Kube.Create(ctx, ws, &client.CreateOptions{DryRun: dryRun(in.DryRun)}); err != nil {
		return workspaceResult{}, callError("create", workspaceResource, in.Namespace, ws.Name, err)
	}
	if in.DryRun {
		return workspaceResult{Workspace: describeWorkspace(ws), Message: wouldBeAccepted("the build")}, nil
	}
	return workspaceResult{Updated: true}.after(ctx, call, ws, in.Wait, ptr.Deref(in.Running, true), in.TimeoutSeconds)
}

// workspace returns the requested object.
func (in createWorkspaceInput) workspace(ctx context.Context, kube *callers.Kube) (*aggregationv1alpha1.CoderWorkspace, error) {
	if err := toolset.RequireObject(in.Namespace, in.Name); err != nil {
		return nil, err
	}
	if err := refuseRedactedValues("parameter", in.Parameters); err != nil {
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
	// The API resolves the current names in Coder of the organization and the template.
	organization, template, err := templateInCoder(ctx, kube, in.Namespace, in.Template)
	if err != nil {
		return nil, err
	}
	controlPlane, _, _ := splitTemplateName(in.Template)
	name := strings.Join([]string{controlPlane, organization, in.Owner, in.Name}, ".")
	ws := &aggregationv1alpha1.CoderWorkspace{
		ObjectMeta: metav1.ObjectMeta{Namespace: in.Namespace, Name: strings.ToLower(strings.TrimPrefix(name, "."))},
		Spec: aggregationv1alpha1.CoderWorkspaceSpec{
			TemplateName:          template,
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
		spec.Parameters = replaceOrAppend(spec.Parameters, parameter, func(p aggregationv1alpha1.WorkspaceParameter) bool { return p.Name == name })
	}
}

// replaceOrAppend replaces the first item for which is returns true, or appends the new one.
func replaceOrAppend[T any](items []T, item T, is func(T) bool) []T {
	if i := slices.IndexFunc(items, is); i >= 0 {
		items[i] = item
		return items
	}
	return append(items, item)
}
