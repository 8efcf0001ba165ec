package protocol

import (
	"context"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// definitions returns the definitions of the tools by name, and all permissions that decide
// which callers see them.
func definitions(set *toolset.Set) (map[string]toolset.Definition, []callers.Right) {
	byName := map[string]toolset.Definition{}
	var rights []callers.Right
	for _, definition := range set.Definitions() {
		byName[definition.Name] = definition
		for _, right := range slices.Concat(definition.Rights, definition.OneOf) {
			if !slices.Contains(rights, right) {
				rights = append(rights, right)
			}
		}
	}
	return byName, rights
}

// showTools removes the tools from a list that the caller has no permission to use. It
// filters the SDK's pages; their cursors stay valid. A hidden tool can still be called: the
// API server decides.
func (s *Server) showTools(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		list, ok := result.(*mcp.ListToolsResult)
		if err != nil || !ok || s.config.Access == nil || len(s.rights) == 0 {
			return result, err
		}
		lacks := s.config.Access.Lacks(ctx, s.rights)
		// The slice belongs to this response alone.
		list.Tools = slices.DeleteFunc(list.Tools, func(tool *mcp.Tool) bool {
			return s.tools[tool.Name].Useless(lacks)
		})
		return list, nil
	}
}
