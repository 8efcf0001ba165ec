package protocol

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

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
			sentence = fmt.Sprintf("there is no tool %q; tools/list shows those that there are", cut(params.Name))
		}
	case *mcp.GetPromptParams:
		if rpc.Message == fmt.Sprintf("unknown prompt %q", params.Name) {
			sentence = fmt.Sprintf("there is no prompt %q; prompts/list shows those that there are", cut(params.Name))
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
		Message: fmt.Sprintf("there is no resource %q; resources/list and resources/templates/list show those that there are", cut(uri)),
		Data:    rpc.Data,
	}
}

// hidden logs an error that is not meant for clients, and returns the error for the client.
func hidden(ctx context.Context, method string, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "it took too long and was ended; ask for less, or try again later"}
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
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error; the log of the server has the details"}
}
