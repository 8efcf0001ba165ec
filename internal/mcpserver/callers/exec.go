package callers

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
)

// maxExecs is the maximum number of commands that a caller may run at a time, on each
// replica.
const maxExecs = 8

// Executor runs commands in workspaces.
type Executor interface {
	// Exec runs a command in a workspace with the caller's permissions, through the
	// subresource exec. agent may be empty if the workspace has only one agent. Errors are
	// those of remoteexec.Run.
	Exec(ctx context.Context, namespace, workspace, agent string, c remoteexec.Command) error
}

type executor struct {
	cfg   *rest.Config
	base  *url.URL
	under *Quota
}

func newExecutor(cfg *rest.Config) (Executor, error) {
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, err
	}
	return &executor{cfg: cfg, base: base, under: NewQuota(maxExecs)}, nil
}

// Exec implements Executor.
func (e *executor) Exec(ctx context.Context, namespace, workspace, agent string, c remoteexec.Command) error {
	apiPath := SubresourcePath(aggregationv1alpha1.GroupVersion, namespace, "coderworkspaces", workspace, "exec")
	if err := checkPath(apiPath); err != nil {
		return err
	}
	if strings.Contains(namespace+workspace, "/") {
		return apierrors.NewBadRequest(fmt.Sprintf("%q in namespace %q is not a valid name of a workspace", workspace, namespace))
	}
	end, ok := e.under.Begin(NameOf(ctx))
	if !ok {
		return apierrors.NewTooManyRequests(fmt.Sprintf("%d commands of this user are running, which is the limit: wait for one of them, or run a command in the background", maxExecs), 0)
	}
	defer end()
	to := e.base.JoinPath(apiPath)
	if agent != "" {
		to.RawQuery = url.Values{"agent": {agent}}.Encode()
	}
	return remoteexec.Run(ctx, e.cfg, to, c)
}
