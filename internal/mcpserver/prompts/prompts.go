package prompts

import (
	"context"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/diagnosis"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// subject is the object that a prompt refers to.
type subject struct{ namespace, name string }

// prompt is a prompt with the function that writes its message.
type prompt struct {
	name, title, description string
	// object is the kind of object that the arguments name, such as "control plane".
	object string
	write  func(ctx context.Context, kube *callers.Kube, of subject) (string, error)
}

func all() []prompt {
	return []prompt{
		{
			name: "diagnose_control_plane", title: "Why does a control plane not work?", object: "control plane",
			description: "Fetches conditions, pods, events and log lines of a control plane, and asks what is wrong and what to do.",
			write:       diagnoseControlPlane,
		},
		{
			name: "diagnose_workspace", title: "Why does a workspace not start?", object: "workspace",
			description: "Fetches the build, its log, the template, agents and pods of a workspace, and asks what is wrong and what to do.",
			write:       diagnoseWorkspace,
		},
		{
			name: "review_template", title: "Review a template", object: "template",
			description: "Fetches the files, parameters and versions of a template, and asks for a review.",
			write:       reviewTemplate,
		},
	}
}

// Register registers the prompts with an MCP server. They read through kube, which
// impersonates the caller.
func Register(server *mcp.Server, kube *callers.Kube) {
	for _, p := range all() {
		server.AddPrompt(&mcp.Prompt{
			Name: p.name, Title: p.title, Description: p.description,
			Arguments: []*mcp.PromptArgument{
				{Name: "namespace", Description: "Namespace of the " + p.object, Required: true},
				{Name: "name", Description: "Name of the " + p.object, Required: true},
			},
		}, handler(p, kube))
	}
}

// Rights returns the permissions that the prompts use, without duplicates.
func Rights() []callers.Right {
	var rights []callers.Right
	for _, of := range []func() (needs, uses []callers.Right){diagnosis.ControlPlaneRights, diagnosis.WorkspaceRights, templateRights} {
		needs, uses := of()
		for _, right := range slices.Concat(needs, uses) {
			if !slices.Contains(rights, right) {
				rights = append(rights, right)
			}
		}
	}
	return rights
}

func handler(p prompt, kube *callers.Kube) mcp.PromptHandler {
	return func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		of := subject{req.Params.Arguments["namespace"], req.Params.Arguments["name"]}
		err := toolset.RequireObject(of.namespace, of.name)
		var words string
		if err == nil {
			words, err = p.write(ctx, kube, of)
		}
		if err != nil {
			_, sentence := toolset.Sentence(ctx, err)
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: sentence}
		}
		return &mcp.GetPromptResult{
			Description: fmt.Sprintf("%s: %s %s/%s", p.title, p.object, of.namespace, of.name),
			Messages:    []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: words}}},
		}, nil
	}
}
