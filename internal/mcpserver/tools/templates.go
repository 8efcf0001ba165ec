package tools

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const (
	templatePlural             = "codertemplates"
	templateVersionsResource   = templatePlural + "/versions"
	templateParametersResource = templatePlural + "/parameters"
)

func addTemplates(s *toolset.Set) {
	addListTemplates(s)
	addGetTemplate(s)
	addSetTemplateRunning(s)
	addPushTemplate(s)
	addPromoteTemplateVersion(s)
}

// templateResult is the output of tools that change a template.
type templateResult struct {
	Template template `json:"template"`
	Updated  bool     `json:"updated"`
	Message  string   `json:"message,omitempty"`
}

// readTemplate reads a template with the caller's permissions, including up to 2 MiB of
// files, which the API does not serve separately. Its errors can be returned by tools as
// they are.
func readTemplate(ctx context.Context, kube *callers.Kube, namespace, name string) (*aggregationv1alpha1.CoderTemplate, error) {
	if err := toolset.RequireObject(namespace, name); err != nil {
		return nil, err
	}
	tmpl := &aggregationv1alpha1.CoderTemplate{}
	if err := kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, tmpl); err != nil {
		return nil, templateError("get", namespace, name, err)
	}
	return tmpl, nil
}

// templateError adds the verb and the template to an error of the API.
func templateError(verb, namespace, name string, err error) error {
	return &toolset.CallError{Verb: verb, Resource: templatePlural + "." + aggregationGroup, Namespace: namespace, Name: name, Err: err}
}
