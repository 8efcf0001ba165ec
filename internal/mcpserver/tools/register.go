package tools

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Register adds all tools to the server. The client must act as the caller of
// the context that it is called with.
func Register(server *mcp.Server, callers client.Client) {
	cps := controlPlanes{client: callers}
	add(server, listControlPlanesTool, cps.list)

	ws := workspaces{client: callers}
	add(server, listWorkspacesTool, ws.list)
	add(server, setWorkspaceRunningTool, ws.setRunning)
}

// definition is what a client is told about a tool besides its schemas. All
// hints are always sent, because their defaults are those of a dangerous tool.
type definition struct {
	name, title, description          string
	readOnly, destructive, idempotent bool
}

// add registers one tool. Schemas come from the types In and Out.
func add[In, Out any](server *mcp.Server, d definition, run func(context.Context, In) (Out, error)) {
	tool := &mcp.Tool{
		Name:         d.name,
		Title:        d.title,
		Description:  d.description,
		InputSchema:  schemaOf[In](),
		OutputSchema: schemaOf[Out](),
		Annotations: &mcp.ToolAnnotations{
			Title:           d.title,
			ReadOnlyHint:    d.readOnly,
			DestructiveHint: ptr.To(d.destructive),
			IdempotentHint:  d.idempotent,
			// Everything happens inside this cluster and its Coder deployments.
			OpenWorldHint: ptr.To(false),
		},
	}
	mcp.AddTool(server, tool, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		out, err := run(ctx, in)
		if err != nil {
			var none Out
			return nil, none, sentence(ctx, err)
		}
		return nil, out, nil
	})
}
