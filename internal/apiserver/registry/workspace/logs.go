package workspace

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/google/uuid"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/buildlog"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// logREST implements the subresource log: the log of a build of a workspace, or of one of its
// agents.
type logREST struct {
	store Store
	kind  *Kind
}

var (
	_ rest.GetterWithOptions = (*logREST)(nil)
	_ rest.StorageMetadata   = (*logREST)(nil)
)

// New implements rest.Storage.
func (*logREST) New() runtime.Object { return &aggregationv1alpha1.CoderWorkspace{} }

// Destroy implements rest.Storage.
func (*logREST) Destroy() {}

// NewGetOptions implements rest.GetterWithOptions.
func (*logREST) NewGetOptions() (runtime.Object, bool, string) {
	return &aggregationv1alpha1.CoderWorkspaceLogOptions{}, false, ""
}

// ProducesMIMETypes implements rest.StorageMetadata.
func (*logREST) ProducesMIMETypes(string) []string { return []string{buildlog.MediaType} }

// ProducesObject implements rest.StorageMetadata.
func (*logREST) ProducesObject(string) any { return "" }

// Get implements rest.GetterWithOptions.
func (r *logREST) Get(ctx context.Context, name string, options runtime.Object) (_ runtime.Object, err error) {
	defer coderfault.Name(ctx, &err)
	asked, ok := options.(*aggregationv1alpha1.CoderWorkspaceLogOptions)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the options are a %T, want CoderWorkspaceLogOptions", options))
	}
	obj, err := r.store.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	ws, ok := obj.(*aggregationv1alpha1.CoderWorkspace)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("%T is no CoderWorkspace", obj))
	}
	return r.kind.openLog(ctx, ws, asked)
}

func (k *Kind) openLog(
	ctx context.Context, ws *aggregationv1alpha1.CoderWorkspace, asked *aggregationv1alpha1.CoderWorkspaceLogOptions,
) (*buildlog.Stream, error) {
	if err := checkLogOptions(asked); err != nil {
		return nil, err
	}
	connection, id, err := k.locate(ctx, ws)
	if err != nil {
		return nil, err
	}
	open := openBuildLog
	if asked.Source == sourceAgent {
		open = openAgentLog
	}
	client, err := k.client(ctx, connection, ws)
	if err != nil {
		return nil, err
	}
	lines, err := open(ctx, client, ws.Name, id, asked)
	if err != nil {
		return nil, err
	}
	if asked.TailLines > 0 {
		lines.Tail(asked.TailLines)
	}
	return buildlog.New(lines, asked.Follow), nil
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
