package tools

import (
	"context"
	"fmt"
	"strings"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

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
