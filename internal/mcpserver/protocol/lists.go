package protocol

import (
	"context"
	"slices"
	"time"

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

// maxCompletions is the maximum number of values that the protocol allows in one answer.
const maxCompletions = 100

type completionHandler = func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error)

// completion limits the values of handler to maxCompletions. It returns nil if handler is
// nil, so that the capability is not advertised.
func completion(handler completionHandler) completionHandler {
	if handler == nil {
		return nil
	}
	return func(ctx context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
		result, err := handler(ctx, req)
		if err != nil {
			return nil, err
		}
		if result == nil {
			result = &mcp.CompleteResult{}
		}
		details := &result.Completion
		switch {
		case details.Values == nil:
			details.Values = []string{}
		case len(details.Values) > maxCompletions:
			details.Total = max(details.Total, len(details.Values))
			details.Values, details.HasMore = details.Values[:maxCompletions], true
		}
		return result, nil
	}
}

// listTTL is how long a client may cache a list. It is short because lists depend on the
// caller's permissions, which may change.
const listTTL = 30 * time.Second

// setCacheable sets how long a client may cache an answer. All answers depend on the
// caller. The content of a resource can change at any time, so it must not be cached.
func setCacheable(_ context.Context, req mcp.Request, c *mcp.Cacheable) {
	c.CacheScope, c.TTLMs = "private", int(listTTL.Milliseconds())
	if _, ok := req.(*mcp.ReadResourceRequest); ok {
		c.TTLMs = 0
	}
}
