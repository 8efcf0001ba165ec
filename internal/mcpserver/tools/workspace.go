package tools

import (
	"context"
	"time"

	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func addGetWorkspace(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "get_workspace", Title: "Workspace",
		Description: "Shows conditions, newest build, agents, parameters and schedule.",
		Toolset:     toolset.Workspaces, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("get", workspacePlural)},
	}, getWorkspace)
}

type getWorkspaceOutput struct {
	Workspace workspaceDetails `json:"workspace"`
}

// workspace is the list entry of a workspace. Running is spec.running, the desired state.
// Reason is the reason of condition Ready if that is not True.
type workspace struct {
	Name         string `json:"name"`
	Namespace    string `json:"namespace"`
	Running      bool   `json:"running"`
	AutoShutdown string `json:"autoShutdown,omitempty"`
	Phase        string `json:"phase,omitempty"`
	Reason       string `json:"reason,omitempty"`
	Owner        string `json:"owner,omitempty"`
	Organization string `json:"organization,omitempty"`
	Template     string `json:"template,omitempty"`
	Outdated     bool   `json:"outdated,omitempty"`
	LastUsedAt   string `json:"lastUsedAt,omitempty"`
	BuildError   string `json:"buildError,omitempty"`
}

type workspaceDetails struct {
	workspace
	ControlPlane string            `json:"controlPlane,omitempty"`
	Conditions   []servedCondition `json:"conditions"`
	Build        *workspaceBuild   `json:"build,omitempty"`
	Agents       []workspaceAgent  `json:"agents"`
	Parameters   map[string]string `json:"parameters"`
	Preset       string            `json:"preset,omitempty"`
	Schedule     workspaceSchedule `json:"schedule"`
}

type workspaceBuild struct {
	Number     int32  `json:"number"`
	Transition string `json:"transition,omitempty"`
	Status     string `json:"status,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Error      string `json:"error,omitempty"`
	Version    string `json:"version,omitempty"`
	VersionID  string `json:"versionID,omitempty"`
	CreatedAt  string `json:"createdAt,omitempty"`
}

type workspaceAgent struct {
	Name           string `json:"name"`
	Status         string `json:"status,omitempty"`
	LifecycleState string `json:"lifecycleState,omitempty"`
	Unhealthy      string `json:"unhealthy,omitempty"`
	Version        string `json:"version,omitempty"`
	Directory      string `json:"directory,omitempty"`

	Apps []workspaceApp `json:"apps,omitempty"`
}

type workspaceApp struct {
	Slug   string `json:"slug"`
	URL    string `json:"url,omitempty"`
	Health string `json:"health,omitempty"`
}

func describeAgent(a aggregationv1alpha1.WorkspaceAgent) workspaceAgent {
	agent := workspaceAgent{
		Name: toolset.CleanText(a.Name), Status: a.Status, LifecycleState: a.LifecycleState, Unhealthy: excerpt(a.Unhealthy),
		Version: toolset.CleanText(a.Version), Directory: toolset.CleanText(a.Directory),
	}
	for _, app := range a.Apps {
		agent.Apps = append(agent.Apps, workspaceApp{Slug: toolset.CleanText(app.Slug), URL: excerpt(app.URL), Health: app.Health})
	}
	return agent
}

// workspaceSchedule uses the same formats as the arguments of update_workspace.
type workspaceSchedule struct {
	TTL              string `json:"ttl"`
	Autostart        string `json:"autostart"`
	AutomaticUpdates string `json:"automaticUpdates,omitempty"`
	Dormant          bool   `json:"dormant"`
}

func getWorkspace(ctx context.Context, call *toolset.Call, in objectInput) (getWorkspaceOutput, error) {
	ws, err := readWorkspace(ctx, call.Kube, in.Namespace, in.Name)
	if err != nil {
		return getWorkspaceOutput{}, err
	}
	details := workspaceDetails{
		workspace:    describeWorkspace(ws),
		ControlPlane: ws.Labels[aggregationv1alpha1.LabelControlPlaneName],
		Conditions:   describeServedConditions(ws.Status.Conditions),
		Build:        describeBuild(ws.Status.LatestBuild),
		Agents:       make([]workspaceAgent, 0, len(ws.Status.Agents)),
		Parameters:   make(map[string]string, len(ws.Spec.Parameters)),
		Preset:       toolset.CleanText(ws.Spec.TemplateVersionPreset),
		Schedule:     describeSchedule(ws.Spec),
	}
	for _, a := range ws.Status.Agents {
		details.Agents = append(details.Agents, describeAgent(a))
	}
	for _, p := range ws.Spec.Parameters {
		details.Parameters[p.Name] = excerpt(p.Value)
	}
	return getWorkspaceOutput{Workspace: details}, nil
}

func describeWorkspace(ws *aggregationv1alpha1.CoderWorkspace) workspace {
	return workspace{
		Name:         ws.Name,
		Namespace:    ws.Namespace,
		Running:      ptr.Deref(ws.Spec.Running, false),
		AutoShutdown: timestampOf(ws.Status.AutoShutdown),
		Phase:        ws.Status.Phase,
		Reason:       unreadyReason(ws.Status.Conditions),
		Owner:        ws.Status.OwnerName,
		Organization: ws.Status.OrganizationName,
		Template:     ws.Status.TemplateName,
		Outdated:     ws.Status.Outdated,
		LastUsedAt:   timestampOf(ws.Status.LastUsedAt),
		BuildError:   excerpt(ws.Status.LatestBuildError),
	}
}

func describeBuild(b *aggregationv1alpha1.WorkspaceBuild) *workspaceBuild {
	if b == nil {
		return nil
	}
	return &workspaceBuild{
		Number: b.Number, Transition: b.Transition, Status: b.Status, Reason: b.Reason, Error: excerpt(b.Error),
		Version: b.TemplateVersionName, VersionID: b.TemplateVersionID, CreatedAt: timestampOf(b.CreatedAt),
	}
}

func describeSchedule(spec aggregationv1alpha1.CoderWorkspaceSpec) workspaceSchedule {
	schedule := workspaceSchedule{
		TTL: never, Autostart: never, AutomaticUpdates: spec.AutomaticUpdates, Dormant: ptr.Deref(spec.Dormant, false),
	}
	if spec.TTLMillis != nil && *spec.TTLMillis > 0 {
		schedule.TTL = (time.Duration(*spec.TTLMillis) * time.Millisecond).String()
	}
	if spec.AutostartSchedule != nil && *spec.AutostartSchedule != "" {
		schedule.Autostart = *spec.AutostartSchedule
	}
	return schedule
}
