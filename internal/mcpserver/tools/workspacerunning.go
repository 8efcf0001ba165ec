package tools

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const (
	startResource = workspacePlural + "/start"
	stopResource  = workspacePlural + "/stop"
)

func addSetWorkspaceRunning(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "set_workspace_running", Title: "Start or stop a workspace",
		Description: "Starts or stops a workspace; builds again what failed.",
		Toolset:     toolset.Workspaces, Effect: toolset.Destroys, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("get", workspacePlural)},
		OneOf:  []callers.Right{callers.AggregatedRight("create", startResource), callers.AggregatedRight("create", stopResource)},
		Uses:   []callers.Right{callers.AggregatedRight("watch", workspacePlural)},
	}, setWorkspaceRunning)
}

type setWorkspaceRunningInput struct {
	Namespace      string `json:"namespace"`
	Name           string `json:"name"`
	Running        bool   `json:"running"`
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
	if in.Wait {
		if out.Message, err = awaitWorkspace(ctx, call, ws, in.Running, in.TimeoutSeconds); err != nil {
			return workspaceResult{}, err
		}
	}
	out.Workspace = describeWorkspace(ws)
	return out, nil
}

// runsAsWanted reports whether nothing needs to be done. A workspace whose last build
// failed or was canceled is built again.
func runsAsWanted(ws *aggregationv1alpha1.CoderWorkspace, running bool) bool {
	failed := ws.Status.Phase == "Failed" || ws.Status.Phase == "Canceled"
	return !failed && ptr.Deref(ws.Spec.Running, !running) == running
}

// startOrStop starts or stops the workspace and returns its new state. Before a stop it
// makes a dry run, so that the user is not asked to confirm a request that the API would
// reject.
func startOrStop(
	ctx context.Context, call *toolset.Call, ws *aggregationv1alpha1.CoderWorkspace, in setWorkspaceRunningInput,
) (*aggregationv1alpha1.CoderWorkspace, error) {
	if in.Running {
		return act(ctx, call, ws, "start", startResource)
	}
	if _, err := act(ctx, call, ws, "stop", stopResource, client.DryRunAll); err != nil {
		return nil, err
	}
	err := call.Confirm(ctx, in.Confirm, toolset.Question{
		Name: ws.Name, UID: ws.UID, Text: fmt.Sprintf("Stop workspace %s of %s? Its processes are stopped.", ws.Name, ws.Status.OwnerName),
	})
	if err != nil {
		return nil, err
	}
	return act(ctx, call, ws, "stop", stopResource)
}

// act creates the subresource of the action and returns the new state of the workspace.
func act(
	ctx context.Context, call *toolset.Call, ws *aggregationv1alpha1.CoderWorkspace, action, resource string, options ...client.SubResourceCreateOption,
) (*aggregationv1alpha1.CoderWorkspace, error) {
	if err := call.Kube.SubResource(action).Create(ctx, ws, &aggregationv1alpha1.CoderWorkspaceAction{}, options...); err != nil {
		return nil, &toolset.CallError{Verb: "create", Resource: resource + "." + aggregationGroup, Namespace: ws.Namespace, Name: ws.Name, Err: err}
	}
	return readWorkspace(ctx, call.Kube, ws.Namespace, ws.Name)
}

// awaitWorkspace waits until the workspace is ready in the phase Running or Stopped, or
// until a user must act. It updates ws. message is not empty if the workspace was deleted
// or is stalled.
func awaitWorkspace(
	ctx context.Context, call *toolset.Call, ws *aggregationv1alpha1.CoderWorkspace, running bool, timeoutSeconds int,
) (message string, err error) {
	phase := "Stopped"
	if running {
		phase = "Running"
	}
	gone, err := call.Until(ctx, ws, time.Duration(timeoutSeconds)*time.Second, func() (bool, string) {
		conditions := ws.Status.Conditions
		ready := meta.IsStatusConditionTrue(conditions, aggregationv1alpha1.ConditionReady) && ws.Status.Phase == phase
		return ready || stalledMessage(conditions) != "", ws.Status.Phase + ": " + progressMessage(conditions)
	})
	if gone {
		return "the workspace was deleted in the meantime", err
	}
	if stalled := stalledMessage(ws.Status.Conditions); stalled != "" {
		return fmt.Sprintf("%s; get_build_logs shows the whole log", stalled), err
	}
	return "", err
}
