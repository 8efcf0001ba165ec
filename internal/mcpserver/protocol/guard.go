package protocol

import (
	"context"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

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
