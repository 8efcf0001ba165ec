package tools

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/utils/ptr"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/inside"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const (
	defaultOutputBytes = 32 << 10
	maxOutputBytes     = 256 << 10
	// commandReminder is the interval of the progress notifications for a running command.
	commandReminder = 10 * time.Second
)

func addRunInWorkspace(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "run_in_workspace", Title: "Run a command in a workspace",
		Description: "Runs a command with bash (sh if there is none). What it leaves running is killed; use background for a server or a long build.",
		Toolset:     toolset.Inside, Effect: toolset.Destroys, OpenWorld: true, Waits: true,
		Rights: changeRights(),
	}, runInWorkspace)
}

type runInWorkspaceInput struct {
	Namespace      string `json:"namespace"`
	Name           string `json:"name"`
	Agent          string `json:"agent,omitempty"`
	Command        string `json:"command"`
	Directory      string `json:"directory,omitempty"`
	Stdin          string `json:"stdin,omitempty"`
	Background     bool   `json:"background,omitempty"`
	TimeoutSeconds int    `json:"timeoutSeconds,omitempty"`
	LimitBytes     int    `json:"limitBytes,omitempty" default:"32768" maximum:"262144"`
	Confirm        string `json:"confirm,omitempty"`
}

// commandOutput is the state and the output of a command. ExitCode is set once the command
// has ended.
type commandOutput struct {
	State     inside.State `json:"state"`
	ID        string       `json:"id,omitempty"`
	ExitCode  *int         `json:"exitCode,omitempty"`
	Untrusted string       `json:"untrusted"`
	Stdout    string       `json:"stdout"`
	Stderr    string       `json:"stderr"`
	Truncated bool         `json:"truncated"`
	Note      string       `json:"note,omitempty"`
}

func runInWorkspace(ctx context.Context, call *toolset.Call, in runInWorkspaceInput) (commandOutput, error) {
	w, err := enter(call, in.Namespace, in.Name, in.Agent)
	if err != nil {
		return commandOutput{}, err
	}
	how := ""
	if in.Background {
		how = " in the background"
	}
	if in.Stdin != "" {
		how += fmt.Sprintf(" with %d bytes of input", len(in.Stdin))
	}
	if err := confirmInside(ctx, call, w, in.Confirm, fmt.Sprintf("In WORKSPACE, run%s this command? %q", how, in.Command)); err != nil {
		return commandOutput{}, err
	}
	c := inside.Command{
		Line: in.Command, Directory: orCurrent(in.Directory), Stdin: in.Stdin, OutputBytes: bounded(in.LimitBytes, defaultOutputBytes, maxOutputBytes),
		Timeout: time.Duration(bounded(in.TimeoutSeconds, int(toolset.DefaultTimeout.Seconds()), int(toolset.MaxTimeout.Seconds()))) * time.Second,
	}
	if in.Background {
		id, err := w.Start(ctx, c)
		if err != nil {
			return commandOutput{}, err
		}
		return commandOutput{
			State: inside.Running, ID: id, Untrusted: untrusted,
			Note: fmt.Sprintf("get_workspace_command with this id shows its output, stop_workspace_command stops it; it is stopped after %s", inside.BackgroundTime),
		}, nil
	}
	var wrote atomic.Int64
	c.Wrote = wrote.Store
	defer remind(ctx, call, &wrote)()
	result, err := w.Run(ctx, c)
	if err != nil {
		return commandOutput{}, err
	}
	return describeResult("", result), nil
}

// remind sends progress notifications to the client every commandReminder, until stop is
// called.
func remind(ctx context.Context, call *toolset.Call, wrote *atomic.Int64) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	started := call.Now()
	go func() {
		ticker := time.NewTicker(commandReminder)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				call.Progress(ctx, fmt.Sprintf("running for %s, %d bytes of output", call.Now().Sub(started).Round(time.Second), wrote.Load()))
			}
		}
	}()
	return cancel
}

// orCurrent returns path, or the agent's default directory if path is empty.
func orCurrent(path string) string {
	if path == "" {
		return "."
	}
	return path
}

func describeResult(id string, r inside.Result) commandOutput {
	out := commandOutput{
		State: r.State, ID: id, Untrusted: untrusted, Stdout: r.Stdout.Text(), Stderr: r.Stderr.Text(),
		Truncated: r.Stdout.Omitted() > 0 || r.Stderr.Omitted() > 0,
	}
	if r.State == inside.Ended {
		out.ExitCode = ptr.To(r.ExitCode)
	}
	var notes []string
	if r.Why != "" {
		notes = append(notes, r.Why)
	}
	if r.State == inside.Lost {
		notes = append(notes, "the command ended without an exit code, for example because the workspace was stopped; start it again")
	}
	if out.Truncated {
		notes = append(notes, fmt.Sprintf("the middle of the output is left out; give limitBytes up to %d for more, or filter the output in the workspace", maxOutputBytes))
	}
	if r.Stdout.IsBinary() || r.Stderr.IsBinary() {
		notes = append(notes, "the output is not all UTF-8 text, and what is not was replaced; use base64 or xxd to see bytes")
	}
	out.Note = strings.Join(notes, "; ")
	return out
}

func addGetWorkspaceCommand(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "get_workspace_command", Title: "Background command",
		Description: "Shows whether a background command runs, its output so far and its exit code.",
		Toolset:     toolset.Inside, Effect: toolset.Reads, Idempotent: true,
		Rights: execRights(),
	}, getWorkspaceCommand)
}

type getWorkspaceCommandInput struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	Agent      string `json:"agent,omitempty"`
	ID         string `json:"id"`
	LimitBytes int    `json:"limitBytes,omitempty" default:"32768" maximum:"262144"`
}

func getWorkspaceCommand(ctx context.Context, call *toolset.Call, in getWorkspaceCommandInput) (commandOutput, error) {
	w, err := enter(call, in.Namespace, in.Name, in.Agent)
	if err != nil {
		return commandOutput{}, err
	}
	result, err := w.Poll(ctx, in.ID, bounded(in.LimitBytes, defaultOutputBytes, maxOutputBytes))
	if err != nil {
		return commandOutput{}, err
	}
	return describeResult(in.ID, result), nil
}

func addStopWorkspaceCommand(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "stop_workspace_command", Title: "Stop a background command",
		Description: "Stops a background command with all that it started.",
		Toolset:     toolset.Inside, Effect: toolset.Destroys, Idempotent: true,
		Rights: changeRights(),
	}, stopWorkspaceCommand)
}

type stopWorkspaceCommandInput struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	Agent      string `json:"agent,omitempty"`
	ID         string `json:"id"`
	LimitBytes int    `json:"limitBytes,omitempty" default:"32768" maximum:"262144"`
	Confirm    string `json:"confirm,omitempty"`
}

func stopWorkspaceCommand(ctx context.Context, call *toolset.Call, in stopWorkspaceCommandInput) (commandOutput, error) {
	w, err := enter(call, in.Namespace, in.Name, in.Agent)
	if err != nil {
		return commandOutput{}, err
	}
	bytes := bounded(in.LimitBytes, defaultOutputBytes, maxOutputBytes)
	result, err := w.Poll(ctx, in.ID, bytes)
	if err == nil && result.State == inside.Running {
		if err := confirmInside(ctx, call, w, in.Confirm, fmt.Sprintf("In WORKSPACE, stop background command %s?", in.ID)); err != nil {
			return commandOutput{}, err
		}
		result, err = w.Stop(ctx, in.ID, bytes)
	}
	if err != nil {
		return commandOutput{}, err
	}
	return describeResult(in.ID, result), nil
}
