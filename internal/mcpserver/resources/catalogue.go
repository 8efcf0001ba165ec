package resources

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

func fixedResources() []mcp.Resource {
	return []mcp.Resource{{
		URI: "coder://controlplanes", Name: "controlplanes", Title: "Control planes", MIMEType: jsonType,
		Description: "All control planes that the caller may list: names, readiness, and the URI of each.",
	}}
}

func resourceTemplates() []mcp.ResourceTemplate {
	return []mcp.ResourceTemplate{
		{
			URITemplate: "coder://controlplanes/{namespace}", Name: "controlplanes-of-namespace", Title: "Control planes of a namespace", MIMEType: jsonType,
			Description: "For callers who may not list those of all namespaces.",
		},
		{
			URITemplate: "coder://controlplanes/{namespace}/{name}", Name: "controlplane", Title: "Control plane", MIMEType: jsonType,
			Description: "A CoderControlPlane with spec and status; secret values are left out.",
		},
		{
			URITemplate: "coder://controlplanes/{namespace}/{name}/events", Name: "controlplane-events", Title: "Events of a control plane", MIMEType: jsonType,
			Description: "The newest Events about it, its Deployment and its pods.",
		},
		{
			URITemplate: "coder://controlplanes/{namespace}/{name}/pods", Name: "controlplane-pods", Title: "Pods of a control plane", MIMEType: jsonType,
			Description: "Its pods: phase, readiness, restarts, and why containers wait.",
		},
		{
			URITemplate: "coder://workspaces/{namespace}/{name}", Name: "workspace", Title: "Workspace", MIMEType: jsonType,
			Description: "A CoderWorkspace with spec and status.",
		},
		{
			URITemplate: "coder://workspaces/{namespace}/{name}/log", Name: "workspace-log", Title: "Build log of a workspace", MIMEType: textType,
			Description: "The end of the log of its newest build.",
		},
		{
			URITemplate: "coder://templates/{namespace}/{name}", Name: "template", Title: "Template", MIMEType: jsonType,
			Description: "A CoderTemplate; spec.files has the size of each file instead of its text.",
		},
		{
			URITemplate: "coder://templates/{namespace}/{name}/files/{+path}", Name: "template-file", Title: "File of a template", MIMEType: textType,
			Description: "One file of the template's source. Literal secrets are replaced by [redacted].",
		},
	}
}

// Rights returns all permissions that resources, completion and subscriptions use.
func Rights() []callers.Right {
	rights := []callers.Right{
		{Verb: "list", Resource: "events"},
		{Verb: "list", Resource: "pods"},
		callers.AggregatedRight("get", "coderworkspaces/log"),
		callers.AggregatedRight("get", "codertemplates/files"),
	}
	for _, verb := range []string{"get", "list", "watch"} {
		rights = append(rights,
			callers.CoderRight(verb, "codercontrolplanes"), callers.AggregatedRight(verb, "coderworkspaces"), callers.AggregatedRight(verb, "codertemplates"))
	}
	return rights
}
