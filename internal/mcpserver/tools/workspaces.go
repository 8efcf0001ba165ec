package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
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

// aggregationGroup is the API group of workspaces and templates.
const aggregationGroup = "aggregation.coder.com"

const workspacePlural = "coderworkspaces"

func addWorkspaces(s *toolset.Set) {
	addListWorkspaces(s)
	addGetWorkspace(s)
	addSetWorkspaceRunning(s)
	addCreateWorkspace(s)
	addUpdateWorkspace(s)
	addDeleteWorkspace(s)
	addGetBuildLogs(s)
}

// workspaceResult is the output of tools that change a workspace.
type workspaceResult struct {
	Workspace workspace `json:"workspace"`
	Updated   bool      `json:"updated"`
	Message   string    `json:"message,omitempty"`
}

// readWorkspace reads a workspace with the caller's permissions. Its errors can be returned
// by tools as they are.
func readWorkspace(ctx context.Context, kube *callers.Kube, namespace, name string) (*aggregationv1alpha1.CoderWorkspace, error) {
	return readObject(ctx, kube, workspacePlural+"."+aggregationGroup, namespace, name, &aggregationv1alpha1.CoderWorkspace{})
}

// workspaceError adds the verb and the workspace to an error of the API.
func workspaceError(verb, namespace, name string, err error) error {
	return &toolset.CallError{Verb: verb, Resource: workspacePlural + "." + aggregationGroup, Namespace: namespace, Name: name, Err: err}
}

func addListWorkspaces(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "list_workspaces", Title: "Workspaces",
		Description: "Lists workspaces, named organization.user.workspace.",
		Toolset:     toolset.Workspaces, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("list", workspacePlural)},
	}, listWorkspaces)
}

type listWorkspacesInput struct {
	Namespace string `json:"namespace,omitempty"`
	Owner     string `json:"owner,omitempty"`
	Template  string `json:"template,omitempty"`
	Phase     string `json:"phase,omitempty"`
	Running   *bool  `json:"running,omitempty"`
	Limit     int    `json:"limit,omitempty"`
	Cursor    string `json:"cursor,omitempty"`
}

func listWorkspaces(ctx context.Context, call *toolset.Call, in listWorkspacesInput) (listOutput[workspace], error) {
	page, err := toolset.NewPage(in.Limit, in.Cursor)
	if err != nil {
		return listOutput[workspace]{}, err
	}
	options := page.Options(in.Namespace)
	if err := in.filter(options); err != nil {
		return listOutput[workspace]{}, err
	}
	var list aggregationv1alpha1.CoderWorkspaceList
	if err := call.Kube.List(ctx, &list, options); err != nil {
		return listOutput[workspace]{}, workspaceError("list", in.Namespace, "", err)
	}
	return onePage(page, list.Items, list.Continue, describeWorkspace), nil
}

// filter sets the selectors, so that the API server filters and pages are full.
func (in listWorkspacesInput) filter(options *client.ListOptions) error {
	controlPlane, organization, template := splitTemplateName(in.Template)
	phase, err := phaseNamed(in.Phase)
	if err != nil {
		return err
	}
	running := ""
	if in.Running != nil {
		running = strconv.FormatBool(*in.Running)
	}
	var selectors []fields.Selector
	for _, wanted := range []struct{ field, value string }{
		{"spec.organization", organization},
		{"spec.templateName", template},
		{"spec.running", running},
		{"status.ownerName", in.Owner},
		{"status.phase", phase},
	} {
		if wanted.value != "" {
			selectors = append(selectors, fields.OneTermEqualSelector(wanted.field, wanted.value))
		}
	}
	if len(selectors) > 0 {
		options.FieldSelector = fields.AndSelectors(selectors...)
	}
	if controlPlane != "" {
		options.LabelSelector = labels.SelectorFromSet(labels.Set{aggregationv1alpha1.LabelControlPlaneName: controlPlane})
	}
	return nil
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

// phaseNamed returns the phase with this name, ignoring case.
func phaseNamed(name string) (string, error) {
	phases := []string{"Pending", "Starting", "Running", "Stopping", "Stopped", "Failed", "Canceling", "Canceled", "Deleting", "Deleted"}
	i := slices.IndexFunc(phases, func(phase string) bool { return strings.EqualFold(phase, name) })
	switch {
	case name == "":
		return "", nil
	case i < 0:
		return "", toolset.UsageError(fmt.Sprintf("phase %q is not one of %s", name, strings.Join(phases, ", ")))
	default:
		return phases[i], nil
	}
}

// maxSubresourceBytes limits the size of a JSON document that is read from a subresource.
const maxSubresourceBytes = 4 << 20

// subresource is a subresource of a workspace or a template: a log, or a list of related
// items.
type subresource struct {
	plural, namespace, object, name string
}

// open requests the subresource with the caller's permissions. The caller must close the
// reader.
func (s subresource) open(ctx context.Context, call *toolset.Call, query url.Values) (io.ReadCloser, error) {
	if err := toolset.RequireObject(s.namespace, s.object); err != nil {
		return nil, err
	}
	path := callers.SubresourcePath(aggregationv1alpha1.GroupVersion, s.namespace, s.plural, s.object, s.name)
	body, err := call.Kube.Raw.Get(ctx, path, query)
	if err != nil {
		return nil, s.failed(err)
	}
	return body, nil
}

// decode decodes the subresource's JSON document into a value.
func (s subresource) decode(ctx context.Context, call *toolset.Call, query url.Values, into any) error {
	body, err := s.open(ctx, call, query)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, maxSubresourceBytes)).Decode(into); err != nil {
		return s.failed(fmt.Errorf("reading the answer: %w", err))
	}
	return nil
}

func (s subresource) failed(err error) error {
	return &toolset.CallError{
		Verb: "get", Resource: s.plural + "/" + s.name + "." + aggregationGroup, Namespace: s.namespace, Name: s.object, Err: err,
	}
}

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
