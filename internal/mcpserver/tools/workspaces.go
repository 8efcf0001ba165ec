package tools

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const (
	// aggregationGroup is the API group of workspaces and templates.
	aggregationGroup = "aggregation.coder.com"

	workspacePlural   = "coderworkspaces"
	workspaceResource = workspacePlural + "." + aggregationGroup
	startResource     = workspacePlural + "/start"
	stopResource      = workspacePlural + "/stop"
	orphanResource    = workspacePlural + "/orphan"
)

func addWorkspaces(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "list_workspaces", Title: "Workspaces",
		Description: "Lists workspaces, named organization.user.workspace.",
		Toolset:     toolset.Workspaces, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("list", workspacePlural)},
		Uses:   []callers.Right{callers.AggregatedRight("get", templatePlural)},
	}, listWorkspaces)
	toolset.Add(s, toolset.Definition{
		Name: "get_workspace", Title: "Workspace",
		Description: "Shows conditions, newest build, agents, parameters and schedule.",
		Toolset:     toolset.Workspaces, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("get", workspacePlural)},
	}, getWorkspace)
	toolset.Add(s, toolset.Definition{
		Name: "set_workspace_running", Title: "Start or stop a workspace",
		Description: "Starts or stops a workspace; builds again what failed.",
		Toolset:     toolset.Workspaces, Effect: toolset.Destroys, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("get", workspacePlural)},
		OneOf:  []callers.Right{callers.AggregatedRight("create", startResource), callers.AggregatedRight("create", stopResource)},
		Uses:   []callers.Right{callers.AggregatedRight("watch", workspacePlural)},
	}, setWorkspaceRunning)
	toolset.Add(s, toolset.Definition{
		Name: "create_workspace", Title: "Create a workspace",
		Description: "Creates a workspace. get_template shows its parameters.",
		Toolset:     toolset.Workspaces, Effect: toolset.Writes,
		Rights: []callers.Right{callers.AggregatedRight("create", workspacePlural)},
		Uses: []callers.Right{
			callers.AggregatedRight("get", workspacePlural), callers.AggregatedRight("watch", workspacePlural),
			callers.AggregatedRight("get", templatePlural),
		},
	}, createWorkspace)
	toolset.Add(s, toolset.Definition{
		Name: "update_workspace", Title: "Update a workspace",
		Description: "Changes version or parameters, which builds again, or schedule.",
		Toolset:     toolset.Workspaces, Effect: toolset.Destroys, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("get", workspacePlural), callers.AggregatedRight("update", workspacePlural)},
		Uses: []callers.Right{
			callers.AggregatedRight("watch", workspacePlural), callers.AggregatedRight("get", templatePlural), callers.AggregatedRight("list", templatePlural),
		},
	}, updateWorkspace)
	toolset.Add(s, toolset.Definition{
		Name: "delete_workspace", Title: "Delete a workspace",
		Description: "Deletes a workspace with all its data.",
		Toolset:     toolset.Workspaces, Effect: toolset.Destroys, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("get", workspacePlural)},
		OneOf:  []callers.Right{callers.AggregatedRight("delete", workspacePlural), callers.AggregatedRight("create", orphanResource)},
		Uses: []callers.Right{
			callers.AggregatedRight("watch", workspacePlural), {Verb: "list", Resource: "pods"}, {Verb: "list", Resource: "persistentvolumeclaims"},
		},
	}, deleteWorkspace)
	toolset.Add(s, toolset.Definition{
		Name: "get_build_logs", Title: "Build log",
		Description: "Shows the end of a workspace's or template's build log, or what an agent's scripts wrote.",
		Toolset:     toolset.Workspaces, Effect: toolset.Reads, Idempotent: true,
		OneOf: []callers.Right{callers.AggregatedRight("get", workspaceLogResource), callers.AggregatedRight("get", templateLogResource)},
		Uses:  []callers.Right{callers.AggregatedRight("get", workspacePlural), callers.AggregatedRight("list", templateVersionsResource)},
	}, getBuildLogs)
}

type workspaceResult struct {
	Workspace workspace `json:"workspace"`
	Updated   bool      `json:"updated"`
	Message   string    `json:"message,omitempty"`
}

func readWorkspace(ctx context.Context, kube *callers.Kube, namespace, name string) (*aggregationv1alpha1.CoderWorkspace, error) {
	return readObject(ctx, kube, workspaceResource, namespace, name, &aggregationv1alpha1.CoderWorkspace{})
}

type listWorkspacesInput struct {
	Namespace string `json:"namespace,omitempty"`
	Owner     string `json:"owner,omitempty" jsonschema:"user name in Coder"`
	Template  string `json:"template,omitempty" jsonschema:"template or organization.template, by the current names in Coder; with namespace also by the object's name"`
	Phase     string `json:"phase,omitempty" jsonschema:"Pending, Starting, Running, Stopping, Stopped, Failed, Canceling, Canceled, Deleting or Deleted"`
	Running   *bool  `json:"running,omitempty" jsonschema:"only those that shall run, or shall not"`
	Limit     int    `json:"limit,omitempty"`
	Cursor    string `json:"cursor,omitempty"`
}

func listWorkspaces(ctx context.Context, call *toolset.Call, in listWorkspacesInput) (listOutput[workspace], error) {
	phases := []string{"Pending", "Starting", "Running", "Stopping", "Stopped", "Failed", "Canceling", "Canceled", "Deleting", "Deleted"}
	at := slices.IndexFunc(phases, func(phase string) bool { return strings.EqualFold(phase, in.Phase) })
	if in.Phase != "" && at < 0 {
		return listOutput[workspace]{}, toolset.UsageError(fmt.Sprintf("phase %q is not one of %s", in.Phase, strings.Join(phases, ", ")))
	}
	controlPlane, organization, template := splitTemplateName(in.Template)
	if organization != "" && in.Namespace != "" {
		// Without a namespace, the object of the template is not known, and the argument must have the
		// current names in Coder.
		var err error
		if organization, template, err = templateInCoder(ctx, call.Kube, in.Namespace, in.Template); err != nil {
			return listOutput[workspace]{}, err
		}
	}
	selected := fields.Set{"status.organizationName": organization, "status.templateName": template, "status.ownerName": in.Owner}
	if at >= 0 {
		selected["status.phase"] = phases[at]
	}
	if in.Running != nil {
		selected["spec.running"] = strconv.FormatBool(*in.Running)
	}
	// The API server filters, so pages are full.
	filter := &client.ListOptions{FieldSelector: selectorOf(selected)}
	if controlPlane != "" {
		filter.LabelSelector = labels.SelectorFromSet(labels.Set{aggregationv1alpha1.LabelControlPlaneName: controlPlane})
	}
	list, page := &aggregationv1alpha1.CoderWorkspaceList{}, listInput{in.Namespace, in.Limit, in.Cursor}
	return readPage(ctx, call, page, workspaceResource, list, &list.Items, describeWorkspace, filter)
}

// selectorOf returns the selector for the fields that have a value, or nil.
func selectorOf(selected fields.Set) fields.Selector {
	var terms []fields.Selector
	for _, field := range slices.Sorted(maps.Keys(selected)) {
		if selected[field] != "" {
			terms = append(terms, fields.OneTermEqualSelector(field, selected[field]))
		}
	}
	if len(terms) == 0 {
		return nil
	}
	return fields.AndSelectors(terms...)
}

// splitTemplateName splits the name of a template, which is either the name of its object,
// [control-plane.]organization.template, or the template's own name.
func splitTemplateName(name string) (controlPlane, organization, template string) {
	parts := strings.Split(name, ".")
	template = parts[len(parts)-1]
	if len(parts) > 1 {
		organization = parts[len(parts)-2]
	}
	return strings.Join(parts[:max(0, len(parts)-2)], "."), organization, template
}

type getWorkspaceOutput struct {
	Workspace workspaceDetails `json:"workspace"`
}

// workspace is the list entry of a workspace. Running is spec.running, the desired state.
// Reason is the reason of condition Ready if that is not True. WorkspaceName is the name in
// Coder if that is not the last part of Name.
type workspace struct {
	Name          string `json:"name"`
	Namespace     string `json:"namespace"`
	Running       bool   `json:"running"`
	AutoShutdown  string `json:"autoShutdown,omitempty"`
	Phase         string `json:"phase,omitempty"`
	Reason        string `json:"reason,omitempty"`
	WorkspaceName string `json:"workspaceName,omitempty"`
	Owner         string `json:"owner,omitempty"`
	Organization  string `json:"organization,omitempty"`
	Template      string `json:"template,omitempty"`
	Outdated      bool   `json:"outdated,omitempty"`
	LastUsedAt    string `json:"lastUsedAt,omitempty"`
	BuildError    string `json:"buildError,omitempty"`
}

type workspaceDetails struct {
	workspace
	ControlPlane string            `json:"controlPlane,omitempty"`
	Conditions   []condition       `json:"conditions"`
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

// workspaceSchedule uses the same formats as the arguments of update_workspace.
type workspaceSchedule struct {
	TTL              string `json:"ttl"`
	Autostart        string `json:"autostart"`
	AutomaticUpdates string `json:"automaticUpdates,omitempty"`
	Dormant          bool   `json:"dormant"`
}

type workspaceApp struct {
	Slug   string `json:"slug"`
	URL    string `json:"url,omitempty"`
	Health string `json:"health,omitempty"`
}

func getWorkspace(ctx context.Context, call *toolset.Call, in objectInput) (getWorkspaceOutput, error) {
	ws, err := readWorkspace(ctx, call.Kube, in.Namespace, in.Name)
	if err != nil {
		return getWorkspaceOutput{}, err
	}
	details := workspaceDetails{
		workspace:    describeWorkspace(ws),
		ControlPlane: ws.Labels[aggregationv1alpha1.LabelControlPlaneName],
		Conditions:   describeConditions(ws.Status.Conditions),
		Agents:       make([]workspaceAgent, 0, len(ws.Status.Agents)),
		Parameters:   make(map[string]string, len(ws.Spec.Parameters)),
		Preset:       toolset.CleanText(ws.Spec.TemplateVersionPreset),
		Schedule: workspaceSchedule{
			TTL: never, Autostart: never, AutomaticUpdates: ws.Spec.AutomaticUpdates, Dormant: ptr.Deref(ws.Spec.Dormant, false),
		},
	}
	if b := ws.Status.LatestBuild; b != nil {
		details.Build = &workspaceBuild{
			Number: b.Number, Transition: b.Transition, Status: b.Status, Reason: b.Reason, Error: excerpt(b.Error),
			Version: b.TemplateVersionName, VersionID: b.TemplateVersionID, CreatedAt: timestampOf(b.CreatedAt),
		}
	}
	for _, a := range ws.Status.Agents {
		agent := workspaceAgent{
			Name: toolset.CleanText(a.Name), Status: a.Status, LifecycleState: a.LifecycleState, Unhealthy: excerpt(a.Unhealthy),
			Version: toolset.CleanText(a.Version), Directory: toolset.CleanText(a.Directory),
		}
		for _, app := range a.Apps {
			agent.Apps = append(agent.Apps, workspaceApp{Slug: toolset.CleanText(app.Slug), URL: excerpt(app.URL), Health: app.Health})
		}
		details.Agents = append(details.Agents, agent)
	}
	for _, p := range ws.Spec.Parameters {
		details.Parameters[p.Name] = excerpt(toolset.CleanParameter(p.Name, p.Value))
	}
	if ttl := ptr.Deref(ws.Spec.TTLMillis, 0); ttl > 0 {
		details.Schedule.TTL = (time.Duration(ttl) * time.Millisecond).String()
	}
	if autostart := ptr.Deref(ws.Spec.AutostartSchedule, ""); autostart != "" {
		details.Schedule.Autostart = autostart
	}
	return getWorkspaceOutput{Workspace: details}, nil
}

func describeWorkspace(ws *aggregationv1alpha1.CoderWorkspace) workspace {
	return workspace{
		Name:          ws.Name,
		Namespace:     ws.Namespace,
		Running:       ptr.Deref(ws.Spec.Running, false),
		AutoShutdown:  timestampOf(ws.Status.AutoShutdown),
		Phase:         ws.Status.Phase,
		Reason:        unreadyReason(ws.Status.Conditions),
		WorkspaceName: otherName(ws.Name, ws.Status.WorkspaceName),
		Owner:         ws.Status.OwnerName,
		Organization:  ws.Status.OrganizationName,
		Template:      ws.Status.TemplateName,
		Outdated:      ws.Status.Outdated,
		LastUsedAt:    timestampOf(ws.Status.LastUsedAt),
		BuildError:    excerpt(ws.Status.LatestBuildError),
	}
}
