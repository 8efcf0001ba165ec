package tools

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// aggregationGroup is the API group of workspaces and templates.
const aggregationGroup = "aggregation.coder.com"

const workspacePlural = "coderworkspaces"

func addWorkspaces(s *toolset.Set) {
	addListWorkspaces(s)
	addGetWorkspace(s)
	addSetWorkspaceRunning(s)
	addCreateWorkspace(s)
	addUpdateWorkspace(s)
	addDeleteWorkspace(s)
	addGetBuildLogs(s)
}

// workspaceResult is the output of tools that change a workspace.
type workspaceResult struct {
	Workspace workspace `json:"workspace"`
	Updated   bool      `json:"updated"`
	Message   string    `json:"message,omitempty"`
}

// readWorkspace reads a workspace with the caller's permissions. Its errors can be returned
// by tools as they are.
func readWorkspace(ctx context.Context, kube *callers.Kube, namespace, name string) (*aggregationv1alpha1.CoderWorkspace, error) {
	if err := toolset.RequireObject(namespace, name); err != nil {
		return nil, err
	}
	ws := &aggregationv1alpha1.CoderWorkspace{}
	if err := kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, ws); err != nil {
		return nil, workspaceError("get", namespace, name, err)
	}
	return ws, nil
}

// workspaceError adds the verb and the workspace to an error of the API.
func workspaceError(verb, namespace, name string, err error) error {
	return &toolset.CallError{Verb: verb, Resource: workspacePlural + "." + aggregationGroup, Namespace: namespace, Name: name, Err: err}
}
