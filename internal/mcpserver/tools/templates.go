package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const (
	templatePlural             = "codertemplates"
	templateResource           = templatePlural + "." + aggregationGroup
	templateVersionsResource   = "codertemplateversions"
	templateParametersResource = templatePlural + "/parameters"
)

func addTemplates(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "list_templates", Title: "Templates",
		Description: "Lists templates, named organization.template.",
		Toolset:     toolset.Templates, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("list", templatePlural)},
	}, listTemplates)
	toolset.Add(s, toolset.Definition{
		Name: "get_template", Title: "Template",
		Description: "Shows conditions, parameters, the newest versions, and files.",
		Toolset:     toolset.Templates, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("get", templatePlural)},
		Uses:   []callers.Right{callers.AggregatedRight("list", templateVersionsResource), callers.AggregatedRight("get", templateParametersResource)},
	}, getTemplate)
	toolset.Add(s, toolset.Definition{
		Name: "set_template_running", Title: "Start or stop a template",
		Description: "Changes nothing: templates have no run state.",
		Toolset:     toolset.Templates, Effect: toolset.Writes, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("get", templatePlural)},
	}, setTemplateRunning)
	toolset.Add(s, toolset.Definition{
		Name: "push_template", Title: "Push a template",
		Description: "Makes a new version, which becomes active once it is built.",
		Toolset:     toolset.Templates, Effect: toolset.Destroys, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("get", templatePlural)},
		OneOf:  []callers.Right{callers.AggregatedRight("create", templatePlural), callers.AggregatedRight("update", templatePlural)},
		Uses:   []callers.Right{callers.AggregatedRight("watch", templatePlural), callers.AggregatedRight("get", templateLogResource)},
	}, pushTemplate)
	toolset.Add(s, toolset.Definition{
		Name: "promote_template_version", Title: "Promote a version",
		Description: "Makes a built version active, also to roll back.",
		Toolset:     toolset.Templates, Effect: toolset.Destroys, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("get", templatePlural), callers.AggregatedRight("update", templatePlural)},
		Uses:   []callers.Right{callers.AggregatedRight("list", templateVersionsResource)},
	}, promoteTemplateVersion)
}

type templateResult struct {
	Template template `json:"template"`
	Updated  bool     `json:"updated"`
	Message  string   `json:"message,omitempty"`
}

// readTemplate is readObject for a template. It includes up to 2 MiB of files, which the API
// does not serve separately.
func readTemplate(ctx context.Context, kube *callers.Kube, namespace, name string) (*aggregationv1alpha1.CoderTemplate, error) {
	return readObject(ctx, kube, templateResource, namespace, name, &aggregationv1alpha1.CoderTemplate{})
}

// templateInCoder returns the current names in Coder of a template and its organization. Name
// is that of its object, which stays if the template is renamed, and is in lower case. If the
// template does not exist or the caller may not read it, the names are parts of its name.
func templateInCoder(ctx context.Context, kube *callers.Kube, namespace, name string) (organization, template string, err error) {
	tmpl, err := readTemplate(ctx, kube, namespace, strings.ToLower(name))
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		_, organization, template = splitTemplateName(name)
		return organization, template, nil
	case err != nil:
		return "", "", err
	default:
		return tmpl.Status.OrganizationName, tmpl.Status.TemplateName, nil
	}
}

func listTemplates(ctx context.Context, call *toolset.Call, in listInput) (listOutput[template], error) {
	page, err := toolset.NewPage(in.Limit, in.Cursor)
	if err != nil {
		return listOutput[template]{}, err
	}
	path := "/apis/" + aggregationv1alpha1.GroupVersion.String()
	if in.Namespace != "" {
		if err := toolset.RequireNamespace(in.Namespace); err != nil {
			return listOutput[template]{}, err
		}
		path += "/namespaces/" + in.Namespace
	}
	options := page.Options(in.Namespace)
	query := url.Values{"limit": {strconv.FormatInt(options.Limit, 10)}}
	if options.Continue != "" {
		query.Set("continue", options.Continue)
	}
	body, err := call.Kube.Raw(ctx, path+"/"+templatePlural, query)
	if err != nil {
		return listOutput[template]{}, callError("list", templateResource, in.Namespace, "", err)
	}
	defer body.Close()
	items, next, err := decodeTemplates(body)
	if err != nil {
		return listOutput[template]{}, callError("list", templateResource, in.Namespace, "", fmt.Errorf("reading the answer: %w", err))
	}
	return onePage(page, items, next, func(tmpl *template) template { return *tmpl }), nil
}

// decodeTemplates decodes a list object by object, so that the files of only one template
// are in memory at a time. A template has up to 2 MiB of files, so a page that was decoded as a
// whole could exhaust the memory of this process.
func decodeTemplates(r io.Reader) (items []template, next string, err error) {
	d := json.NewDecoder(r)
	if err := wantDelimiter(d, '{'); err != nil {
		return nil, "", err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, "", err
		}
		switch key {
		case "metadata":
			var meta metav1.ListMeta
			err = d.Decode(&meta)
			next = meta.Continue
		case "items":
			items, err = decodeItems(d)
		default:
			err = d.Decode(&json.RawMessage{})
		}
		if err != nil {
			return nil, "", err
		}
	}
	return items, next, wantDelimiter(d, '}')
}

// decodeItems decodes the items of a list, which are null if the list is empty.
func decodeItems(d *json.Decoder) (items []template, err error) {
	if begin, err := d.Token(); err != nil || begin == nil {
		return nil, err
	} else if begin != json.Delim('[') {
		return nil, fmt.Errorf("the items are %v and no list", begin)
	}
	for d.More() {
		var tmpl aggregationv1alpha1.CoderTemplate
		if err := d.Decode(&tmpl); err != nil {
			return nil, err
		}
		items = append(items, describeTemplate(&tmpl))
	}
	return items, wantDelimiter(d, ']')
}

func wantDelimiter(d *json.Decoder, want json.Delim) error {
	token, err := d.Token()
	if err == nil && token != want {
		return fmt.Errorf("the list has %v where %v must be", token, want)
	}
	return err
}

type setTemplateRunningInput struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Running   bool   `json:"running" jsonschema:"ignored: a template does not run"`
}

// setTemplateRunning exists because the previous implementation of this server had the
// tool.
func setTemplateRunning(ctx context.Context, call *toolset.Call, in setTemplateRunningInput) (templateResult, error) {
	tmpl, err := readTemplate(ctx, call.Kube, in.Namespace, in.Name)
	if err != nil {
		return templateResult{}, err
	}
	return templateResult{
		Template: describeTemplate(tmpl),
		Message:  "nothing was changed: templates have no run state; set_workspace_running starts and stops the workspaces that are made of them",
	}, nil
}
