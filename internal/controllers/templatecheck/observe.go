package templatecheck

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
)

// The checks, as in status.failedCheck.
const (
	checkBuild       = "Build"
	checkAgents      = "Agents"
	checkReadyWithin = "ReadyWithin"
	checkApps        = "Apps"
	checkCommand     = "Command/"
)

// workspaceResource is the resource of workspaces in Coder's permissions.
const workspaceResource = "workspace"

// logLines is how many lines of an agent's log are quoted, and logTimeout how long they may take to read.
const (
	logLines   = 5
	logTimeout = 5 * time.Second
)

// observe runs the checks on the workspace as it is now.
func (p *pass) observe(ctx context.Context) error {
	id, err := uuid.Parse(p.test.Status.WorkspaceID)
	if err != nil {
		return err
	}
	w, err := p.client.Workspace(ctx, id)
	if coderd.IsNotFound(err) {
		if err = p.client.Absent(ctx, workspaceResource, err); err == nil {
			return ensure.Fails(coderv1alpha1.ReasonWorkspaceChangedExternally, 0, "somebody deleted the workspace during the test")
		}
	}
	if err != nil {
		return waits(err)
	}
	first := coderd.Build{Number: 1}
	if w.LatestBuild.Number != first.Number {
		if first, err = p.firstBuild(ctx, w); err != nil {
			return err
		}
	}
	if b := w.LatestBuild; b.Number != first.Number {
		return ensure.Fails(coderv1alpha1.ReasonWorkspaceChangedExternally, 0,
			"somebody started build %d of the workspace (%s) during the test", b.Number, b.Transition)
	}
	if err := p.built(ctx, w.LatestBuild); err != nil {
		return err
	}
	if err := p.ready(ctx, &w); err != nil {
		return err
	}
	if p.test.Spec.Checks.Apps {
		p.check = checkApps
		for _, a := range w.Agents {
			for _, app := range a.Apps {
				if app.Health == "initializing" || app.Health == "unhealthy" {
					return ensure.Waits(coderv1alpha1.ReasonChecking, pollInterval, "app %q of agent %q is %s", app.Slug, a.Name, app.Health)
				}
			}
		}
	}
	return p.runCommands(ctx, w.Agents)
}

// built checks the build of the workspace.
func (p *pass) built(ctx context.Context, b coderd.Build) error {
	p.check = checkBuild
	switch b.Status {
	case "running":
		return nil
	case "pending", "starting", "canceling":
		message := "Coder builds the workspace (" + b.Status + ")"
		if b.UnmatchedTags != "" {
			message += ": no provisioner with the tags " + b.UnmatchedTags + " is connected"
		}
		return p.tooSlow(ensure.Waits(coderv1alpha1.ReasonBuilding, pollInterval, "%s", message))
	}
	cause, err := p.client.BuildCause(ctx, b.ID)
	if coderd.IsUnreachable(err) {
		return waits(err)
	}
	return ensure.Fails(coderv1alpha1.ReasonBuildFailed, 0, "the build of the workspace ended as %s: %s", b.Status,
		cmp.Or(cause, b.Error, "Coder gave no reason"))
}

// ready checks that all agents are connected and ready, and how long that took.
func (p *pass) ready(ctx context.Context, w *coderd.Workspace) error {
	p.check = checkAgents
	if len(w.Agents) == 0 {
		return ensure.Fails(coderv1alpha1.ReasonNoAgents, 0, "the workspace has no agent; a template needs a coder_agent for each machine that users enter")
	}
	var open *ensure.Stop
	// A workspace that Coder had built in advance is older than its latest build.
	last := w.LatestBuild.CreatedAt
	for _, a := range w.Agents {
		switch {
		case a.LifecycleState == "start_error":
			return ensure.Fails(coderv1alpha1.ReasonAgentStartError, 0, "a startup script of agent %q failed: %s", a.Name, p.agentLog(ctx, w.ID, a.ID))
		case a.Status != "connected":
			open = ensure.Waits(coderv1alpha1.ReasonChecking, pollInterval, "agent %q is not connected (%s)", a.Name, a.Status)
		case a.LifecycleState != "ready":
			open = ensure.Waits(coderv1alpha1.ReasonChecking, pollInterval, "the startup scripts of agent %q have not finished (%s)", a.Name, a.LifecycleState)
		default:
			if at := ptr.Deref(a.ReadyAt, p.now); at.After(last) {
				last = at
			}
		}
	}
	if open != nil {
		return p.tooSlow(open)
	}
	if p.test.Status.ReadyAfterSeconds == nil {
		// Both times are Coder's, unless Coder does not report when an agent was ready.
		p.test.Status.ReadyAfterSeconds = ptr.To(int32(last.Sub(w.LatestBuild.CreatedAt).Round(time.Second) / time.Second))
	}
	if limit, took := p.test.Spec.Checks.ReadyWithinSeconds, *p.test.Status.ReadyAfterSeconds; limit != nil && took > *limit {
		p.check = checkReadyWithin
		return ensure.Fails(coderv1alpha1.ReasonTooSlow, 0, "the agents were ready after %d seconds, and may take %d", took, *limit)
	}
	return nil
}

// tooSlow returns the failure of a workspace that is not ready within the limit of the spec, and otherwise the Stop unchanged.
func (p *pass) tooSlow(stop *ensure.Stop) error {
	limit := p.test.Spec.Checks.ReadyWithinSeconds
	if limit == nil || !coderd.Elapsed(p.now, p.test.Status.StartTime.Time, time.Duration(*limit)*time.Second) {
		return stop
	}
	p.check = checkReadyWithin
	return ensure.Fails(coderv1alpha1.ReasonTooSlow, 0, "the agents were not ready within %d seconds: %s", *limit, stop.Message)
}

// agentLog returns the last lines of an agent's log, separated by semicolons.
func (p *pass) agentLog(ctx context.Context, workspace, agent uuid.UUID) string {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	stream, err := p.client.AgentLogs(ctx, workspace, agent, "", 0, false)
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	defer func() { _ = stream.Close() }()
	stream.Tail(logLines)
	var lines []string
	for {
		line, err := stream.Next(ctx)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				lines = append(lines, "the rest of its log cannot be read: "+err.Error())
			}
			return cmp.Or(strings.Join(lines, "; "), "its log is empty")
		}
		if text := strings.TrimSpace(line.Output); text != "" {
			lines = append(lines, text)
		}
	}
}
