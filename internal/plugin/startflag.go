package plugin

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
)

// startTimeout is the default of --start-timeout.
const startTimeout = 10 * time.Minute

// agentCommand contains what the commands that act inside a workspace share: the flags --agent,
// --start and --start-timeout.
type agentCommand struct {
	*Session
	agent   string
	start   bool
	timeout time.Duration
}

// addFlags adds the flags for the agent and for --start. agent is the help text of the agent flag.
func (a *agentCommand) addFlags(cmd *cobra.Command, shorthand, agent string) {
	flags := cmd.Flags()
	flags.StringVarP(&a.agent, "agent", shorthand, "", agent+"; needed if the workspace has several")
	a.CompleteAgents(cmd, "agent", (*Cluster).OwnWorkspace)
	flags.BoolVar(&a.start, "start", false, "start the workspace if it does not run, and wait until its agent is connected")
	flags.DurationVar(&a.timeout, "start-timeout", startTimeout, "how long --start waits")
}

// find reads the workspace, and starts it if --start is set.
func (a *agentCommand) find(ctx context.Context, name string) (*Cluster, *aggregationv1alpha1.CoderWorkspace, error) {
	var cluster *Cluster
	var ws *aggregationv1alpha1.CoderWorkspace
	err := remoteexec.Retry(ctx, IsTemporary, func() (err error) {
		cluster, ws, err = a.OwnWorkspace(ctx, name)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if a.start {
		err = a.startAndWait(ctx, cluster, ws)
	}
	return cluster, ws, err
}

// starting is the state of one start.
type starting struct {
	*agentCommand
	cluster *Cluster
	ws      *aggregationv1alpha1.CoderWorkspace
	// ordered is the number of the build before the requested one, and followed the number of the
	// build whose log was printed. Both are initially 0.
	ordered, followed int32
	asked             bool
	progress          *cli.Progress
}

// startAndWait starts a workspace if it is not running, and waits until the selected agent is connected, or
// one of its agents if none is selected. It updates ws, and writes progress to standard error.
func (a *agentCommand) startAndWait(ctx context.Context, c *Cluster, ws *aggregationv1alpha1.CoderWorkspace) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	// Print progress as lines on a terminal too, because log lines are printed in between.
	s := &starting{agentCommand: a, cluster: c, ws: ws, progress: cli.NewProgress(a.ErrOut, false, 0, a.Now())}
	goesOn := fmt.Sprintf("workspace %s continues to start without this command", ws.Name)
	state := ""
	return a.poll(ctx, a.timeout, goesOn, func() (ready bool, err error) {
		if state != "" {
			err := c.Get(ctx, client.ObjectKeyFromObject(ws), ws)
			if err != nil && ctx.Err() == nil && !IsTemporary(err) {
				return false, fmt.Errorf("reading workspace %s: %w", ws.Name, err)
			}
		}
		if state, ready, err = s.step(ctx); err == nil && !ready {
			s.progress.Report(a.Now(), 0, 1, ws.Name, state)
		}
		return ready, err
	}, func() error {
		return fmt.Errorf("workspace %s is not ready for a session after %s: %s; it continues to start without this command, and --start-timeout waits longer", ws.Name, a.timeout, state)
	})
}

// step takes the next action. state describes what the start is waiting for.
func (s *starting) step(ctx context.Context) (state string, ready bool, err error) {
	build := s.ws.Status.LatestBuild
	if build == nil {
		return "it has no build yet", false, nil
	}
	failed := stalled(s.ws.Status.Conditions)
	switch build.Status {
	case "running":
		for _, agent := range s.ws.Status.Agents {
			if s.agent != "" && !strings.EqualFold(agent.Name, s.agent) {
				continue
			}
			if agent.Status == "connected" {
				return "", true, nil
			}
			state = fmt.Sprintf("the workspace is running, but agent %q is not connected yet (%s)", agent.Name, agent.Status)
		}
		// If there is no such agent, the request itself returns the error.
		return state, state == "", nil
	case "pending", "starting":
		if failed != nil && failed.Reason == aggregationv1alpha1.ReasonNoProvisioner {
			return "", false, fmt.Errorf("workspace %s does not start: %s", s.ws.Name, cli.Clean(failed.Message))
		}
		s.follow(ctx, build.Number)
		if ready := meta.FindStatusCondition(s.ws.Status.Conditions, aggregationv1alpha1.ConditionReady); ready != nil {
			return cli.Clean(ready.Message), false, nil
		}
		return "the start build is in progress", false, nil
	case "stopping", "canceling":
		return "it can start when its " + build.Transition + " build has ended", false, nil
	case "deleting", "deleted":
		return "", false, fmt.Errorf("workspace %s is being deleted", s.ws.Name)
	}
	switch {
	case !s.asked:
		err := s.cluster.SubResource("start").Create(ctx, s.ws.DeepCopy(), &aggregationv1alpha1.CoderWorkspaceAction{})
		if err != nil {
			return "", false, fmt.Errorf("starting workspace %s: %w", s.ws.Name, err)
		}
		s.asked, s.ordered = true, build.Number
		return "start requested", false, nil
	case failed != nil && (build.Number > s.ordered || failed.Reason == aggregationv1alpha1.ReasonChangeRefused):
		return "", false, fmt.Errorf("workspace %s did not start: %s; kubectl coder logs -n %s %[1]s shows the whole log",
			s.ws.Name, cli.Clean(failed.Message), s.ws.Namespace)
	}
	return "it waits for its start build", false, nil
}

// follow prints the log of a build until the build ends. If the log cannot be read, for example
// because the user lacks the permission, only progress is printed.
func (s *starting) follow(ctx context.Context, build int32) {
	if s.followed == build {
		return
	}
	s.followed = build
	parameters := map[string]string{"follow": "true", "build": strconv.Itoa(int(build))}
	stream, err := s.cluster.subresource(http.MethodGet, s.ws, "log", parameters).Stream(ctx)
	if err != nil {
		return
	}
	defer func() { _ = stream.Close() }()
	_ = eachLine(stream, func(line string) error {
		_, err := fmt.Fprintf(s.ErrOut, "  %s\n", cli.Clean(line))
		return err
	})
}
