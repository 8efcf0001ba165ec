package tools

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func addDeleteWorkspace(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "delete_workspace", Title: "Delete a workspace",
		Description: "Deletes a workspace with all its data.",
		Toolset:     toolset.Workspaces, Effect: toolset.Destroys, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("get", workspacePlural), callers.AggregatedRight("delete", workspacePlural)},
		Uses:   []callers.Right{callers.AggregatedRight("watch", workspacePlural)},
	}, deleteWorkspace)
}

type deleteWorkspaceInput struct {
	Namespace      string `json:"namespace"`
	Name           string `json:"name"`
	DryRun         bool   `json:"dryRun,omitempty"`
	Wait           bool   `json:"wait,omitempty"`
	TimeoutSeconds int    `json:"timeoutSeconds,omitempty"`
	Confirm        string `json:"confirm,omitempty"`
}

// deleteWorkspaceOutput contains the last observed state of the workspace. Updated is false
// if the workspace was already being deleted.
type deleteWorkspaceOutput struct {
	Workspace workspace `json:"workspace"`
	Updated   bool      `json:"updated"`
	Gone      bool      `json:"gone"`
	Message   string    `json:"message,omitempty"`
}

func deleteWorkspace(ctx context.Context, call *toolset.Call, in deleteWorkspaceInput) (deleteWorkspaceOutput, error) {
	ws, err := readWorkspace(ctx, call.Kube, in.Namespace, in.Name)
	if err != nil {
		return deleteWorkspaceOutput{}, err
	}
	out := deleteWorkspaceOutput{Workspace: describeWorkspace(ws)}
	if ws.DeletionTimestamp == nil {
		if err := in.delete(ctx, call, ws); err != nil {
			return deleteWorkspaceOutput{}, err
		}
		out.Updated = !in.DryRun
	}
	if in.DryRun {
		out.Message = wouldBeAccepted
		return out, nil
	}
	if in.Wait {
		if out.Gone, out.Message, err = awaitDeletion(ctx, call, ws, in.TimeoutSeconds); err != nil {
			return deleteWorkspaceOutput{}, err
		}
		out.Workspace = describeWorkspace(ws)
	}
	return out, nil
}

// delete runs a dry run first, so that the user is not asked to confirm a deletion that the
// API would reject. The UID precondition prevents the deletion of a new workspace of the
// same name.
func (in deleteWorkspaceInput) delete(ctx context.Context, call *toolset.Call, ws *aggregationv1alpha1.CoderWorkspace) error {
	same := client.Preconditions{UID: &ws.UID}
	if err := call.Kube.Delete(ctx, ws, same, client.DryRunAll); err != nil {
		return workspaceError("delete", in.Namespace, in.Name, err)
	}
	if in.DryRun {
		return nil
	}
	err := call.Confirm(ctx, in.Confirm, toolset.Question{
		Name: ws.Name, UID: ws.UID, Text: fmt.Sprintf("Delete workspace %s of %s with all its data? It cannot be brought back.", ws.Name, ws.Status.OwnerName),
	})
	if err != nil {
		return err
	}
	if err := call.Kube.Delete(ctx, ws, same); err != nil {
		return workspaceError("delete", in.Namespace, in.Name, err)
	}
	return nil
}

// awaitDeletion waits until the workspace no longer exists or its deletion has failed.
func awaitDeletion(
	ctx context.Context, call *toolset.Call, ws *aggregationv1alpha1.CoderWorkspace, timeoutSeconds int,
) (gone bool, message string, err error) {
	failure := func() string {
		failed := meta.FindStatusCondition(ws.Status.Conditions, aggregationv1alpha1.ConditionDeletionFailed)
		if failed == nil {
			return ""
		}
		return excerpt(failed.Message)
	}
	gone, err = call.Until(ctx, ws, time.Duration(timeoutSeconds)*time.Second, func() (bool, string) {
		return failure() != "", ws.Status.Phase + ": " + progressMessage(ws.Status.Conditions)
	})
	if !gone && failure() != "" {
		message = fmt.Sprintf("the deletion failed: %s; get_build_logs shows the whole log", failure())
	}
	return gone, message, err
}
