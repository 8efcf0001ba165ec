package workspace

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// agentsOf returns the agents of a workspace, sorted by name.
func agentsOf(w coderd.Workspace, connection connections.Connection) []aggregationv1alpha1.WorkspaceAgent {
	var out []aggregationv1alpha1.WorkspaceAgent
	for _, a := range w.Agents {
		agent := aggregationv1alpha1.WorkspaceAgent{
			Name: a.Name, Status: a.Status, LifecycleState: a.LifecycleState,
			Version: a.Version, OperatingSystem: a.OperatingSystem, Architecture: a.Architecture,
			Directory: a.Directory, Apps: appsOf(w, a, connection),
		}
		if a.Status != agentConnecting {
			agent.Unhealthy = a.Unhealthy
		}
		if a.ReadyAt != nil {
			agent.ReadyAt = ptr.To(registry.Seconds(*a.ReadyAt))
		}
		if a.DisconnectedAt != nil {
			agent.DisconnectedAt = ptr.To(registry.Seconds(*a.DisconnectedAt))
		}
		out = append(out, agent)
	}
	slices.SortStableFunc(out, func(a, b aggregationv1alpha1.WorkspaceAgent) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// appsOf returns the apps that are not hidden in Coder, sorted by slug.
func appsOf(w coderd.Workspace, agent coderd.Agent, connection connections.Connection) []aggregationv1alpha1.WorkspaceApp {
	var out []aggregationv1alpha1.WorkspaceApp
	for _, a := range agent.Apps {
		if a.Hidden {
			continue
		}
		app := aggregationv1alpha1.WorkspaceApp{Slug: a.Slug, DisplayName: a.DisplayName, URL: appURL(w, agent, a, connection)}
		if a.Health != appWithoutCheck {
			app.Health = a.Health
		}
		out = append(out, app)
	}
	slices.SortStableFunc(out, func(a, b aggregationv1alpha1.WorkspaceApp) int { return strings.Compare(a.Slug, b.Slug) })
	return out
}

// appWithoutCheck is the health of an app that has no health check.
const appWithoutCheck = "disabled"

// appURL returns the URL at which Coder's own interface opens an app.
func appURL(w coderd.Workspace, agent coderd.Agent, app coderd.App, connection connections.Connection) string {
	if app.ExternalURL != "" {
		return app.ExternalURL
	}
	access, err := url.Parse(strings.TrimRight(connection.AccessURL, "/") + "/")
	if err != nil {
		access = &url.URL{Path: "/"}
	}
	if app.SubdomainName != "" && connection.WildcardHost != "" && app.Command == "" && access.Scheme != "" {
		return (&url.URL{Scheme: access.Scheme, Host: strings.Replace(connection.WildcardHost, "*", app.SubdomainName, 1), Path: "/"}).String()
	}
	at := access.JoinPath("@"+w.OwnerName, w.Name+"."+agent.Name)
	if app.Command != "" {
		at = at.JoinPath("terminal")
		at.RawQuery = url.Values{"command": {app.Command}}.Encode()
		return at.String()
	}
	return at.JoinPath("apps", app.Slug).String() + "/"
}

// healthOf reports whether a running workspace can be used. It returns nil if the workspace is not
// running, or while its agents connect for the first time.
func healthOf(status aggregationv1alpha1.CoderWorkspaceStatus) *bool {
	if status.LatestBuildStatus != statusRunning {
		return nil
	}
	// The order is that of the reasons of condition Ready.
	agents := meta.FindStatusCondition(status.Conditions, aggregationv1alpha1.ConditionAgentsConnected)
	switch {
	case meta.FindStatusCondition(status.Conditions, aggregationv1alpha1.ConditionPodsHealthy) != nil:
		return ptr.To(false)
	case agents != nil && agents.Reason == aggregationv1alpha1.ReasonAgentsConnecting:
		return nil
	}
	return ptr.To(agents != nil && agents.Status == metav1.ConditionTrue && unhealthyAgents(status) == "")
}

// chooseAgent returns the requested agent. It returns a conflict if the agent is not connected.
func chooseAgent(name string, w coderd.Workspace, wanted string) (coderd.Agent, error) {
	agent, err := findAgent(name, w, wanted)
	if err == nil && agent.Status != agentConnected {
		return coderd.Agent{}, apierrors.NewConflict(resource, name, fmt.Errorf(
			"agent %q is not connected (%s): look at the workspace's conditions and at the log of its pod", agent.Name, agent.Status))
	}
	return agent, err
}

// findAgent returns the agent with the name wanted, or the only agent if wanted is empty. The workspace
// must be running. Case is ignored, because OpenSSH changes the names of hosts to lower case. An exact
// match takes precedence: names that differ only in case are possible with agents of dev containers.
func findAgent(name string, w coderd.Workspace, wanted string) (coderd.Agent, error) {
	if w.LatestBuild.Transition != coderd.TransitionStart || w.LatestBuild.Status != statusRunning {
		return coderd.Agent{}, apierrors.NewConflict(resource, name, fmt.Errorf(
			"the workspace is %s, and must be running: set spec.running, or call kubectl coder start", w.LatestBuild.Status))
	}
	var names []string
	var found []coderd.Agent
	for _, agent := range w.Agents {
		if wanted == agent.Name {
			return agent, nil
		}
		names = append(names, agent.Name)
		if wanted == "" || strings.EqualFold(wanted, agent.Name) {
			found = append(found, agent)
		}
	}
	switch {
	case len(w.Agents) == 0:
		return coderd.Agent{}, apierrors.NewConflict(resource, name, errors.New(
			"the workspace has no agent: its template must have a coder_agent, and start it"))
	case len(found) == 0:
		return coderd.Agent{}, apierrors.NewBadRequest(fmt.Sprintf("agent is %q, and must be one of %s", wanted, strings.Join(names, ", ")))
	case len(found) > 1:
		return coderd.Agent{}, apierrors.NewBadRequest(fmt.Sprintf("agent must be given, because there are several: %s", strings.Join(names, ", ")))
	}
	return found[0], nil
}
