package protocol

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// identify adds the caller, and a logger with the request ID, to the context. It takes both
// from the SDK's data about this request, because in a session the values of the context
// are those of its first request. Without that data the context has no caller, and handlers
// cannot act for anyone.
func (s *Server) identify(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		logger := s.config.Logger
		var caller user.Info
		if extra := req.GetExtra(); extra != nil {
			caller = callers.FromTokenInfo(extra.TokenInfo)
			// The HTTP middleware sets this header on each request.
			if id := extra.Header.Get(tracing.RequestIDHeader); id != "" {
				logger = logger.WithValues(tracing.RequestIDLogKey, id)
				ctx = tracing.WithRequestID(ctx, id)
			}
		}
		return next(log.IntoContext(request.WithUser(ctx, caller), logger), method, req)
	}
}

// expiryOf returns when the token expires, or the zero time if that is unknown.
func expiryOf(info *auth.TokenInfo) time.Time {
	if info == nil {
		return time.Time{}
	}
	return info.Expiration
}

// explain replaces the SDK's errors about unknown names by messages that say what to do
// differently. A handler's error that is not a JSON-RPC error is not meant for clients; it
// is only logged.
func (s *Server) explain(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		if err == nil {
			return result, nil
		}
		var rpc *jsonrpc.Error
		if errors.As(err, &rpc) {
			return nil, explained(err, rpc, req)
		}
		switch method {
		case methodCallTool, methodGetPrompt, methodReadResource, methodComplete:
			return nil, hidden(ctx, method, err)
		default:
			return nil, err
		}
	}
}

// explained recognizes the SDK's errors by their text, because all invalid parameters have
// the same code.
func explained(err error, rpc *jsonrpc.Error, req mcp.Request) error {
	sentence := ""
	switch params := req.GetParams().(type) {
	case *mcp.CallToolParamsRaw:
		if rpc.Message == fmt.Sprintf("unknown tool %q", params.Name) {
			sentence = fmt.Sprintf("there is no tool %q; tools/list shows all tools", cut(params.Name))
		}
	case *mcp.GetPromptParams:
		if rpc.Message == fmt.Sprintf("unknown prompt %q", params.Name) {
			sentence = fmt.Sprintf("there is no prompt %q; prompts/list shows all prompts", cut(params.Name))
		}
	case *mcp.ReadResourceParams:
		if isNoResource(rpc) {
			return noResource(rpc, params.URI)
		}
	}
	if sentence == "" {
		return err
	}
	return &jsonrpc.Error{Code: rpc.Code, Message: sentence}
}

// isNoResource recognizes mcp.ResourceNotFoundError.
func isNoResource(rpc *jsonrpc.Error) bool { return rpc.Message == "Resource not found" }

func noResource(rpc *jsonrpc.Error, uri string) error {
	return &jsonrpc.Error{
		Code:    rpc.Code,
		Message: fmt.Sprintf("there is no resource %q; resources/list and resources/templates/list show all resources", cut(uri)),
		Data:    rpc.Data,
	}
}

// hidden logs an error that is not meant for clients, and returns the error for the client.
func hidden(ctx context.Context, method string, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "it took too long and was stopped; request less data, or try again later"}
	case ctx.Err() != nil:
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the request was cancelled"}
	}
	log.FromContext(ctx).Error(err, "An MCP method failed", "method", method)
	return internalError()
}

// guard recovers from a panic in a request, so that it does not end the process. The SDK
// runs each request in its own goroutine, outside of net/http's recover.
func (s *Server) guard(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.config.Logger.Error(nil, "Recovered from a panic in an MCP method", "method", method, "panic", p, "stack", string(debug.Stack()))
				result, err = nil, internalError()
			}
		}()
		return next(ctx, method, req)
	}
}

func internalError() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error; see the log of the server for details"}
}

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
