package plugin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
)

// startTimeout is the default of --start-timeout.
const startTimeout = 10 * time.Minute

// starting is the state of one start.
type starting struct {
	*target
	cluster *Cluster
	ws      *aggregationv1alpha1.CoderWorkspace
	// ordered is the number of the build before the requested one, and followed the number of the
	// build whose log was printed. Both are initially 0.
	ordered, followed int32
	asked             bool
	progress          *cli.Progress
}

// startWorkspace starts a workspace if it is not running, and waits until one of its agents is connected. It
// updates ws.
func startWorkspace(ctx context.Context, s *Session, c *Cluster, ws *aggregationv1alpha1.CoderWorkspace) error {
	return (&target{Session: s, timeout: startTimeout}).started(ctx, c, ws)
}

// started is like startWorkspace, for the selected agent. It writes progress to standard error.
func (t *target) started(ctx context.Context, c *Cluster, ws *aggregationv1alpha1.CoderWorkspace) error {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	began := t.Clock.Now()
	// Print progress as lines on a terminal too, because log lines are printed in between.
	s := &starting{target: t, cluster: c, ws: ws, progress: cli.NewProgress(t.ErrOut, false, 0, began)}
	for {
		state, ready, err := s.step(ctx)
		if err != nil || ready {
			return err
		}
		s.progress.Report(t.Clock.Now(), 0, 1, ws.Name, state)
		if t.Clock.Now().Sub(began) < t.timeout {
			err = t.Clock.Wait(ctx, PollInterval)
		} else {
			err = context.DeadlineExceeded
		}
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			return &cli.InterruptedError{GoesOn: fmt.Sprintf("workspace %s continues to start without this command", ws.Name)}
		case err != nil:
			return fmt.Errorf("workspace %s is not ready for a session after %s: %s; it continues to start without this command, and --start-timeout waits longer", ws.Name, t.timeout, state)
		}
		if err := s.refresh(ctx); err != nil {
			return err
		}
	}
}

// step takes the next action. state describes what the start is waiting for.
func (s *starting) step(ctx context.Context) (state string, ready bool, err error) {
	build := s.ws.Status.LatestBuild
	if build == nil {
		return "it has no build yet", false, nil
	}
	stalled := meta.FindStatusCondition(s.ws.Status.Conditions, aggregationv1alpha1.ConditionStalled)
	failed := stalled != nil && stalled.Status == metav1.ConditionTrue
	switch build.Status {
	case "running":
		return s.agentState()
	case "pending", "starting":
		s.follow(ctx, build.Number)
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
	case failed && (build.Number > s.ordered || stalled.Reason == aggregationv1alpha1.ReasonChangeRefused):
		return "", false, fmt.Errorf("workspace %s did not start: %s; kubectl coder logs -n %s %[1]s shows the whole log",
			s.ws.Name, cli.Clean(stalled.Message), s.ws.Namespace)
	}
	return "it waits for its start build", false, nil
}

// agentState reports whether the selected agent is connected.
func (s *starting) agentState() (state string, ready bool, err error) {
	for _, agent := range s.ws.Status.Agents {
		if s.agent != "" && agent.Name != s.agent {
			continue
		}
		if agent.Status == "connected" {
			return "", true, nil
		}
		state = fmt.Sprintf("the workspace is running, but agent %q is not connected yet (%s)", agent.Name, agent.Status)
	}
	// If there is no such agent, the request itself returns the error.
	return state, state == "", nil
}

// follow prints the log of a build until the build ends. If the log cannot be read, for example
// because the user lacks the permission, only progress is printed.
func (s *starting) follow(ctx context.Context, build int32) {
	if s.followed == build {
		return
	}
	s.followed = build
	stream, err := s.cluster.Stream(ctx, s.ws.Namespace, "coderworkspaces", s.ws.Name, "log",
		map[string]string{"follow": "true", "build": strconv.Itoa(int(build))})
	if err != nil {
		return
	}
	defer func() { _ = stream.Close() }()
	_ = eachLine(stream, func(line string) error {
		_, err := fmt.Fprintf(s.ErrOut, "  %s\n", cli.Clean(line))
		return err
	})
}

// refresh reads the workspace again.
func (s *starting) refresh(ctx context.Context) error {
	err := s.cluster.Get(ctx, client.ObjectKeyFromObject(s.ws), s.ws)
	if ctx.Err() != nil || IsTemporary(err) {
		err = nil
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("reading workspace %s: %w", s.ws.Name, err)
}

// target contains the flags that all commands of this package share: the agent and the start of the
// workspace.
type target struct {
	*Session
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
func (t *target) find(ctx context.Context, name string) (*Cluster, *aggregationv1alpha1.CoderWorkspace, error) {
	named, err := ParseTarget(name, "CoderWorkspace")
	if err != nil {
		return nil, nil, err
	}
	cluster, err := t.Cluster()
	if err != nil {
		return nil, nil, err
	}
	var ws *aggregationv1alpha1.CoderWorkspace
	err = remoteexec.Retry(ctx, IsTemporary, func() error {
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
