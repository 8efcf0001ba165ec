package workspace

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// openLog implements the subresource log: the log of a build of a workspace, or of one of its agents.
func (r *subresource) openLog(ctx context.Context, name string, asked *aggregationv1alpha1.CoderWorkspaceLogOptions) (runtime.Object, error) {
	if err := checkLogOptions(asked); err != nil {
		return nil, err
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
	lines, err := open(ctx, client, name, ws.ID, asked)
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

// checkLogOptions rejects invalid parameters, and those that would have no effect.
func checkLogOptions(asked *aggregationv1alpha1.CoderWorkspaceLogOptions) error {
	switch {
	case asked.Source != "" && asked.Source != sourceBuild && asked.Source != sourceAgent:
		return apierrors.NewBadRequest(fmt.Sprintf("source is %q, and must be build or agent", asked.Source))
	case asked.Source != sourceAgent && (asked.Agent != "" || asked.Script != ""):
		return apierrors.NewBadRequest("agent and script need source=agent")
	case asked.Source == sourceAgent && asked.Build != 0:
		return apierrors.NewBadRequest("build needs source=build: only the logs of the agents of the newest build are served")
	case asked.TailLines < 0:
		return apierrors.NewBadRequest(fmt.Sprintf("tailLines is %d, and must not be negative", asked.TailLines))
	}
	return nil
}

func openAgentLog(
	ctx context.Context, client *coderd.Client, name string, id uuid.UUID, asked *aggregationv1alpha1.CoderWorkspaceLogOptions,
) (*coderd.LogStream, error) {
	w, err := client.Workspace(ctx, id)
	if err != nil {
		return nil, fault(name, err)
	}
	agent, err := findAgent(name, w, asked.Agent)
	if err != nil {
		return nil, err
	}
	lines, err := client.AgentLogs(ctx, id, agent.ID, asked.Script, asked.After, asked.Follow)
	var unknown *coderd.UnknownScriptError
	if errors.As(err, &unknown) {
		return nil, apierrors.NewBadRequest(unknown.Error())
	}
	return lines, fault(name, err)
}

func openBuildLog(
	ctx context.Context, client *coderd.Client, name string, id uuid.UUID, asked *aggregationv1alpha1.CoderWorkspaceLogOptions,
) (*coderd.LogStream, error) {
	build, err := findBuild(ctx, client, id, asked.Build)
	if err != nil {
		return nil, fault(name, err)
	}
	lines, err := client.BuildLogs(ctx, build, asked.After, asked.Follow)
	return lines, fault(name, err)
}

// findBuild returns the ID of a build by its number, or of the newest build if the number is 0. It
// reads the newest build from Coder, because the object may be out of date.
func findBuild(ctx context.Context, client *coderd.Client, workspace uuid.UUID, number int32) (uuid.UUID, error) {
	w, err := client.Workspace(ctx, workspace)
	if err != nil {
		return uuid.Nil, err
	}
	if number == 0 || number == w.LatestBuild.Number {
		return w.LatestBuild.ID, nil
	}
	missing := apierrors.NewBadRequest(fmt.Sprintf("build=%d: the workspace has builds 1 to %d", number, w.LatestBuild.Number))
	if number < 0 || number > w.LatestBuild.Number {
		return uuid.Nil, missing
	}
	build, err := client.WorkspaceBuildByNumber(ctx, w, number)
	if coderd.IsNotFound(err) {
		return uuid.Nil, missing
	}
	return build.ID, err
}
