package workspace

import (
	"context"
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

// logREST is the log of a build of a workspace.
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
	connection, id, err := k.locate(ctx, ws)
	if err != nil {
		return nil, err
	}
	build, err := findBuild(ctx, connection.Client, id, asked.Build)
	if err != nil {
		return nil, fault(ws.Name, err)
	}
	lines, err := connection.Client.BuildLogs(ctx, build, asked.After, asked.Follow)
	if err != nil {
		return nil, fault(ws.Name, err)
	}
	return buildlog.New(lines, asked.Follow), nil
}

// findBuild finds a build of the workspace by its number. The newest one is asked
// of Coder, because the object may be older.
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
