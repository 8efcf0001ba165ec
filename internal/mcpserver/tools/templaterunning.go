package tools

import (
	"context"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func addSetTemplateRunning(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "set_template_running", Title: "Start or stop a template",
		Description: "Changes nothing: templates have no run state.",
		Toolset:     toolset.Templates, Effect: toolset.Writes, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("get", templatePlural)},
	}, setTemplateRunning)
}

type setTemplateRunningInput struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Running   bool   `json:"running"`
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
