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

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
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
		return "", toolset.UsageError(fmt.Sprintf("phase %q is none of %s", name, strings.Join(phases, ", ")))
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
