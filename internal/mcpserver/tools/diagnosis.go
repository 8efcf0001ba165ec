package tools

import (
	"context"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/diagnosis"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func addDiagnosis(s *toolset.Set) {
	needs, uses := diagnosis.ControlPlaneRights()
	toolset.Add(s, toolset.Definition{
		Name: "diagnose_control_plane", Title: "Diagnose a control plane",
		Description: "Why a control plane does not work and what to do: conditions, pods, events, logs. Begin here.",
		Toolset:     toolset.ControlPlanes, Effect: toolset.Reads, Idempotent: true,
		Rights: needs, Uses: uses,
	}, diagnose(diagnosis.ControlPlane))

	needs, uses = diagnosis.WorkspaceRights()
	toolset.Add(s, toolset.Definition{
		Name: "diagnose_workspace", Title: "Diagnose a workspace",
		Description: "Why a workspace does not start and what to do: build error, template, agents, pods.",
		Toolset:     toolset.Workspaces, Effect: toolset.Reads, Idempotent: true,
		Rights: needs, Uses: uses,
	}, diagnose(diagnosis.Workspace))
}

// diagnose wraps a diagnosis function as a tool.
func diagnose(
	examine func(ctx context.Context, kube *callers.Kube, namespace, name string) (*diagnosis.Report, error),
) func(context.Context, *toolset.Call, objectInput) (diagnosis.Report, error) {
	return func(ctx context.Context, call *toolset.Call, in objectInput) (diagnosis.Report, error) {
		if err := toolset.RequireObject(in.Namespace, in.Name); err != nil {
			return diagnosis.Report{}, err
		}
		report, err := examine(ctx, call.Kube, in.Namespace, in.Name)
		if err != nil {
			return diagnosis.Report{}, err
		}
		return *report, nil
	}
}
