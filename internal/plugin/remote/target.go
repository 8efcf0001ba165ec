package remote

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// target contains the flags that all commands of this package share: the agent and the start of the
// workspace.
type target struct {
	*session.Session
	agent   string
	start   bool
	timeout time.Duration
}

// addFlags adds the flags for the agent and for --start. agent is the help text of the agent flag.
func (t *target) addFlags(cmd *cobra.Command, shorthand, agent string) {
	flags := cmd.Flags()
	flags.StringVarP(&t.agent, "agent", shorthand, "", agent+"; needed if the workspace has several")
	t.CompleteAgents(cmd, "agent")
	flags.BoolVar(&t.start, "start", false, "start the workspace if it does not run, and wait until its agent is connected")
	flags.DurationVar(&t.timeout, "start-timeout", startTimeout, "how long --start waits")
}

// find reads the workspace, and starts it if --start is set.
func (t *target) find(ctx context.Context, name string) (*session.Cluster, *aggregationv1alpha1.CoderWorkspace, error) {
	named, err := session.ParseTarget(name, "CoderWorkspace")
	if err != nil {
		return nil, nil, err
	}
	cluster, err := t.Cluster()
	if err != nil {
		return nil, nil, err
	}
	var ws *aggregationv1alpha1.CoderWorkspace
	err = remoteexec.Retry(ctx, session.IsTemporary, func() error {
		ws, err = cluster.Workspace(ctx, named.Name)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if t.start {
		err = t.started(ctx, cluster, ws)
	}
	return cluster, ws, err
}

// parseHost parses a host name of config-ssh: WORKSPACE[--AGENT].SUFFIX. Names in Coder contain no
// two consecutive dashes.
func parseHost(host, suffix string) (workspace, agent string) {
	host = strings.TrimSuffix(host, "."+suffix)
	if before, after, found := strings.Cut(host, "--"); found {
		return before, after
	}
	return host, ""
}
