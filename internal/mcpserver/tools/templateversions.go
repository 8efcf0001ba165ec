package tools

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// templateVersion is one version of a template, with the values that the API uses.
type templateVersion struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Message   string `json:"message,omitempty"`
	Status    string `json:"status"`
	Error     string `json:"error,omitempty"`
	Active    bool   `json:"active"`
	Archived  bool   `json:"archived,omitempty"`
	CreatedAt string `json:"createdAt,omitempty"`
	CreatedBy string `json:"createdBy,omitempty"`
}

// templateParameter is a parameter of the template, whose value is set for each workspace.
type templateParameter struct {
	Name         string   `json:"name"`
	Description  string   `json:"description,omitempty"`
	Type         string   `json:"type"`
	Required     bool     `json:"required"`
	DefaultValue string   `json:"defaultValue,omitempty"`
	Mutable      bool     `json:"mutable"`
	Ephemeral    bool     `json:"ephemeral,omitempty"`
	Options      []string `json:"options,omitempty"`
	Validation   string   `json:"validation,omitempty"`
}

// readTemplateVersions returns the newest versions, including archived ones.
func readTemplateVersions(ctx context.Context, call *toolset.Call, namespace, name string, limit int) ([]aggregationv1alpha1.CoderTemplateVersion, error) {
	var list aggregationv1alpha1.CoderTemplateVersionList
	query := url.Values{"limit": {strconv.Itoa(limit)}, "archived": {"true"}}
	err := subresource{templatePlural, namespace, name, "versions"}.decode(ctx, call, query, &list)
	return list.Items, err
}

// findTemplateVersion returns the version with this ID, or the newest one if id is empty.
// If the version is not among the newest ones, only its ID is set.
func findTemplateVersion(ctx context.Context, call *toolset.Call, namespace, name, id string) (aggregationv1alpha1.CoderTemplateVersion, error) {
	const mostRead = 200
	versions, err := readTemplateVersions(ctx, call, namespace, name, mostRead)
	i := slices.IndexFunc(versions, func(v aggregationv1alpha1.CoderTemplateVersion) bool { return id == "" || v.ID == id })
	switch {
	case err != nil:
		return aggregationv1alpha1.CoderTemplateVersion{}, err
	case i >= 0:
		return versions[i], nil
	case id == "":
		return aggregationv1alpha1.CoderTemplateVersion{}, toolset.UsageError(fmt.Sprintf("template %s in namespace %s has no version yet", name, namespace))
	default:
		return aggregationv1alpha1.CoderTemplateVersion{ID: id}, nil
	}
}

// addVersions adds the newest versions.
func (d *templateDetails) addVersions(ctx context.Context, call *toolset.Call, tmpl *aggregationv1alpha1.CoderTemplate) error {
	versions, err := readTemplateVersions(ctx, call, tmpl.Namespace, tmpl.Name, shownVersions)
	if err != nil {
		return d.without(ctx, err)
	}
	for _, v := range versions[:min(len(versions), shownVersions)] {
		d.Versions = append(d.Versions, templateVersion{
			ID: v.ID, Name: toolset.CleanText(v.Name), Message: excerpt(v.Message), Status: v.Status, Error: excerpt(v.Error),
			Active: v.Active, Archived: v.Archived, CreatedAt: timestampOf(&v.CreatedAt), CreatedBy: toolset.CleanText(v.CreatedBy),
		})
	}
	return nil
}

// addParameters adds the parameters of the active version.
func (d *templateDetails) addParameters(ctx context.Context, call *toolset.Call, tmpl *aggregationv1alpha1.CoderTemplate) error {
	var list aggregationv1alpha1.CoderTemplateParameterList
	err := subresource{templatePlural, tmpl.Namespace, tmpl.Name, "parameters"}.decode(ctx, call, nil, &list)
	if err != nil {
		return d.without(ctx, err)
	}
	for i, p := range list.Items {
		if i == shownParameters {
			d.Notes = append(d.Notes, fmt.Sprintf("parameters: %d of %d are shown", shownParameters, len(list.Items)))
			break
		}
		d.Parameters = append(d.Parameters, describeTemplateParameter(p))
	}
	for _, p := range list.Presets {
		d.Presets = append(d.Presets, toolset.CleanText(p.Name))
	}
	return nil
}

func describeTemplateParameter(p aggregationv1alpha1.CoderTemplateParameter) templateParameter {
	out := templateParameter{
		Name: toolset.CleanText(p.Name), Description: excerpt(p.Description), Type: p.Type, Required: p.Required,
		DefaultValue: excerpt(p.DefaultValue), Mutable: p.Mutable, Ephemeral: p.Ephemeral, Validation: describeValidation(p.Validation),
	}
	for _, option := range p.Options[:min(len(p.Options), shownOptions)] {
		out.Options = append(out.Options, toolset.CleanText(option.Value))
	}
	return out
}

// describeValidation formats the validation rules in one line, for example "min 1, max 8,
// increasing".
func describeValidation(v *aggregationv1alpha1.CoderTemplateParameterValidation) string {
	if v == nil {
		return ""
	}
	var rules []string
	if v.Min != nil {
		rules = append(rules, fmt.Sprintf("min %d", *v.Min))
	}
	if v.Max != nil {
		rules = append(rules, fmt.Sprintf("max %d", *v.Max))
	}
	if v.Regex != "" {
		rules = append(rules, "matches "+v.Regex)
	}
	if v.Monotonic != "" {
		rules = append(rules, v.Monotonic)
	}
	return excerpt(strings.Join(rules, ", "))
}

// without records a note about a part that could not be read; the other parts are still
// returned. It returns the error if the call was cancelled or timed out.
func (d *templateDetails) without(ctx context.Context, err error) error {
	var call *toolset.CallError
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &call) {
		return err
	}
	d.Notes = append(d.Notes, toolset.Gap(ctx, call))
	return nil
}

func addPromoteTemplateVersion(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "promote_template_version", Title: "Promote a version",
		Description: "Makes a built version active, also to roll back.",
		Toolset:     toolset.Templates, Effect: toolset.Destroys, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("get", templatePlural), callers.AggregatedRight("update", templatePlural)},
	}, promoteTemplateVersion)
}

type promoteTemplateVersionInput struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	VersionID string `json:"versionID"`
	DryRun    bool   `json:"dryRun,omitempty"`
	Confirm   string `json:"confirm,omitempty"`
}

// promoteTemplateVersion does not wait: the version is active when the API responds.
func promoteTemplateVersion(ctx context.Context, call *toolset.Call, in promoteTemplateVersionInput) (templateResult, error) {
	tmpl, err := readTemplate(ctx, call.Kube, in.Namespace, in.Name)
	version := strings.ToLower(in.VersionID)
	switch {
	case err != nil:
		return templateResult{}, err
	case version == "":
		return templateResult{}, toolset.UsageError("versionID is required: get_template shows the versions with their ids")
	case tmpl.Status.ActiveVersionID == version:
		return templateResult{Template: describeTemplate(tmpl), Message: "this version is active already; nothing was changed"}, nil
	}
	promote := func(spec *aggregationv1alpha1.CoderTemplateSpec) bool {
		spec.VersionID = version
		return true
	}
	if !in.DryRun {
		// The dry run comes first: the user is not asked to confirm a change that the API
		// would reject.
		if err := writeTemplate(ctx, call, tmpl.DeepCopy(), true, promote); err != nil {
			return templateResult{}, err
		}
		err := call.Confirm(ctx, in.Confirm, toolset.Question{Name: tmpl.Name, UID: tmpl.UID, Text: fmt.Sprintf(
			"Make version %s the active one of template %s, in place of %s? Workspaces are built from it from now on.",
			version, tmpl.Name, tmpl.Status.ActiveVersionName)})
		if err != nil {
			return templateResult{}, err
		}
	}
	if err := writeTemplate(ctx, call, tmpl, in.DryRun, promote); err != nil {
		return templateResult{}, err
	}
	out := templateResult{Template: describeTemplate(tmpl), Updated: !in.DryRun}
	if in.DryRun {
		out.Message = wouldBeAccepted
	}
	return out, nil
}
