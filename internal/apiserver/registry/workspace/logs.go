package workspace

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// openLog implements the subresource log: the log of a build of a workspace, or of one of its agents.
func (r *subresource) openLog(ctx context.Context, name string, asked *aggregationv1alpha1.CoderWorkspaceLogOptions) (runtime.Object, error) {
	// Also parameters that would have no effect are rejected.
	switch {
	case asked.Source != "" && asked.Source != sourceBuild && asked.Source != sourceAgent:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("source is %q, and must be build or agent", asked.Source))
	case asked.Source != sourceAgent && (asked.Agent != "" || asked.Script != ""):
		return nil, apierrors.NewBadRequest("agent and script need source=agent")
	case asked.Source == sourceAgent && asked.Build != 0:
		return nil, apierrors.NewBadRequest("build needs source=build: only the logs of the agents of the newest build are served")
	case asked.TailLines < 0:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("tailLines is %d, and must not be negative", asked.TailLines))
	}
	ws, err := r.kind.Find(ctx, r.store, name)
	if err != nil {
		return nil, err
	}
	open := openBuildLog
	if asked.Source == sourceAgent {
		open = openAgentLog
	}
	client, err := r.kind.client(ctx, ws)
	if err != nil {
		return nil, err
	}
	// The object may be out of date.
	w, err := client.Workspace(ctx, ws.ID)
	if err != nil {
		return nil, fault(name, err)
	}
	lines, err := open(ctx, client, name, w, asked)
	if err != nil {
		return nil, err
	}
	if asked.TailLines > 0 {
		lines.Tail(asked.TailLines)
	}
	return registry.NewLogStream(lines, asked.Follow), nil
}

// The sources of logs.
const (
	sourceBuild = "build"
	sourceAgent = "agent"
)

func openAgentLog(
	ctx context.Context, client *coderd.Client, name string, w coderd.Workspace, asked *aggregationv1alpha1.CoderWorkspaceLogOptions,
) (*coderd.LogStream, error) {
	agent, err := findAgent(name, w, asked.Agent)
	if err != nil {
		return nil, err
	}
	lines, err := client.AgentLogs(ctx, w.ID, agent.ID, asked.Script, asked.After, asked.Follow)
	var unknown *coderd.UnknownScriptError
	if errors.As(err, &unknown) {
		return nil, apierrors.NewBadRequest(unknown.Error())
	}
	return lines, fault(name, err)
}

func openBuildLog(
	ctx context.Context, client *coderd.Client, name string, w coderd.Workspace, asked *aggregationv1alpha1.CoderWorkspaceLogOptions,
) (*coderd.LogStream, error) {
	build := w.LatestBuild
	if number := asked.Build; number != 0 && number != build.Number {
		missing := apierrors.NewBadRequest(fmt.Sprintf("build=%d: the workspace has builds 1 to %d", number, build.Number))
		if number < 0 || number > build.Number {
			return nil, missing
		}
		var err error
		build, err = client.WorkspaceBuildByNumber(ctx, w, number)
		switch {
		case coderd.IsNotFound(err):
			return nil, missing
		case err != nil:
			return nil, fault(name, err)
		}
	}
	lines, err := client.BuildLogs(ctx, build.ID, asked.After, asked.Follow)
	return lines, fault(name, err)
}
