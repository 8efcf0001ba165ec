package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/utils/exec"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
)

// startTimeout is the default of --start-timeout.
const startTimeout = 10 * time.Minute

// target contains the flags of the commands that act inside a workspace: the agent and the start of
// the workspace.
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
	var cluster *Cluster
	var ws *aggregationv1alpha1.CoderWorkspace
	err := remoteexec.Retry(ctx, IsTemporary, func() (err error) {
		cluster, ws, err = t.Workspace(ctx, name)
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

// started starts a workspace if it is not running, and waits until the selected agent is connected, or
// one of its agents if none is selected. It updates ws, and writes progress to standard error.
func (t *target) started(ctx context.Context, c *Cluster, ws *aggregationv1alpha1.CoderWorkspace) error {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	// Print progress as lines on a terminal too, because log lines are printed in between.
	s := &starting{target: t, cluster: c, ws: ws, progress: cli.NewProgress(t.ErrOut, false, 0, t.Now())}
	goesOn := fmt.Sprintf("workspace %s continues to start without this command", ws.Name)
	state := ""
	return t.poll(ctx, t.timeout, goesOn, func() (ready bool, err error) {
		if state != "" {
			err = s.refresh(ctx)
		}
		if err == nil {
			state, ready, err = s.step(ctx)
		}
		if err == nil && !ready {
			s.progress.Report(t.Now(), 0, 1, ws.Name, state)
		}
		return ready, err
	}, func() error {
		return fmt.Errorf("workspace %s is not ready for a session after %s: %s; it continues to start without this command, and --start-timeout waits longer", ws.Name, t.timeout, state)
	})
}

// step takes the next action. state describes what the start is waiting for.
func (s *starting) step(ctx context.Context) (state string, ready bool, err error) {
	build := s.ws.Status.LatestBuild
	if build == nil {
		return "it has no build yet", false, nil
	}
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
	failed := stalled(s.ws.Status.Conditions)
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

// agentState reports whether the selected agent is connected.
func (s *starting) agentState() (state string, ready bool, err error) {
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

// refresh reads the workspace again.
func (s *starting) refresh(ctx context.Context) error {
	err := s.cluster.Get(ctx, client.ObjectKeyFromObject(s.ws), s.ws)
	if err != nil && ctx.Err() == nil && !IsTemporary(err) {
		return fmt.Errorf("reading workspace %s: %w", s.ws.Name, err)
	}
	return nil
}

// resizeInterval is the interval at which the size of the terminal is polled, because not every
// operating system has a signal for changes.
const resizeInterval = 250 * time.Millisecond

// run runs a command in a workspace. parameters are those of the subresource beside the command. It
// returns a *cli.ExitError with the command's exit code if that is not 0.
func run(ctx context.Context, c *Cluster, ws *aggregationv1alpha1.CoderWorkspace, parameters map[string]string, command remoteexec.Command) error {
	if command.TTY {
		// In raw mode every key reaches the workspace.
		terminal := int(command.Stdin.(*os.File).Fd())
		before, err := term.MakeRaw(terminal)
		if err != nil {
			return fmt.Errorf("changing the mode of the terminal: %w", err)
		}
		defer func() { _ = term.Restore(terminal, before) }()
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		command.Sizes = newSizes(ctx, command.Stdout)
	}
	return exitOf(ws, remoteexec.Run(ctx, c.Config, c.subresource(http.MethodPost, ws, "exec", parameters).URL(), command))
}

func exitOf(ws *aggregationv1alpha1.CoderWorkspace, err error) error {
	var exit utilexec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.Exited():
		return &cli.ExitError{Code: exit.ExitStatus()}
	case errors.As(err, new(*websocket.CloseError)):
		return fmt.Errorf("the connection to workspace %s is lost, for example because a replica of the operator was replaced; "+
			"it is not known whether the command has finished: %w", ws.Name, err)
	}
	return fmt.Errorf("workspace %s: %w", ws.Name, err)
}

// sizes receives the size of the terminal when it changes.
type sizes chan remotecommand.TerminalSize

// Next implements remotecommand.TerminalSizeQueue.
func (s sizes) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}

// newSizes polls the size of the terminal until the context is done. It returns nil if the stream
// is not a terminal.
func newSizes(ctx context.Context, stdout io.Writer) remotecommand.TerminalSizeQueue {
	if !cli.IsTerminal(stdout) {
		return nil
	}
	terminal := int(stdout.(*os.File).Fd())
	s := make(sizes)
	go func() {
		defer close(s)
		ticker := time.NewTicker(resizeInterval)
		defer ticker.Stop()
		var last remotecommand.TerminalSize
		for {
			width, height, err := term.GetSize(terminal)
			now := remotecommand.TerminalSize{Width: uint16(width), Height: uint16(height)}
			if err == nil && now != last {
				last = now
				select {
				case s <- now:
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return s
}
