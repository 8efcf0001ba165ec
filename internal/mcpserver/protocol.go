package mcpserver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/tools"
)

const (
	mcpPath = "/mcp"
	// callTimeout bounds one call of a tool.
	callTimeout = 30 * time.Second

	instructions = "Tools for people who run Coder (coder.com) on Kubernetes. A control plane is one Coder deployment; " +
		"its workspaces live in the same namespace. Every tool acts with the rights of the token that you use: where one is " +
		"forbidden, say so rather than trying another way. Lists come in pages: if truncated is true, call again with nextCursor."

	methodCallTool = "tools/call"
)

// newProtocol makes the one MCP server that answers all requests.
func newProtocol(version string, callers client.Client, clk clock.PassiveClock, logger logr.Logger) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{
		Name:       "coder-k8s",
		Title:      "Coder on Kubernetes",
		Version:    version,
		WebsiteURL: "https://github.com/coder-k8s/coder-k8s",
	}, &mcp.ServerOptions{
		Instructions: instructions,
		Logger:       slog.New(logr.ToSlogHandler(logger.V(1))),
		// Tools never change while the process runs, so nobody need wait for that.
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
			c.TTLMs, c.CacheScope = int((30 * time.Second).Milliseconds()), "private"
		},
	})
	tools.Register(server, callers)
	// The first one listed is the outermost.
	server.AddReceivingMiddleware(cancelWithRequest, guardCalls(clk))
	return server
}

// newProtocolHandler serves the protocol over HTTP without sessions.
func newProtocolHandler(server *mcp.Server, logger logr.Logger) http.Handler {
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless:                    true,
		PropagateRequestCancellation: true,
		MaxRequestBodyBytes:          maxBodyBytes,
		// Our own check knows more names and holds on every address.
		DisableLocalhostProtection: true,
		Logger:                     slog.New(logr.ToSlogHandler(logger.V(1))),
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), httpContextKey{}, r.Context())))
	})
}

type httpContextKey struct{}

// cancelWithRequest ends the work for a client that went away. The SDK does so
// only for the protocol of 2026; without sessions it is right for both, because
// an answer can be delivered on the request's own connection only.
func cancelWithRequest(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if httpCtx, ok := ctx.Value(httpContextKey{}).(context.Context); ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(httpCtx, cancel)()
		}
		return next(ctx, method, req)
	}
}

// guardCalls bounds calls of tools in time, keeps a panic in one of them from
// ending the process, and writes one line about each, which says who did what.
func guardCalls(clk clock.PassiveClock) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
			logger := log.FromContext(ctx)
			defer func() {
				if p := recover(); p != nil {
					logger.Error(nil, "Recovered from a panic in an MCP method", "method", method, "panic", p, "stack", string(debug.Stack()))
					result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
				}
			}()
			if method != methodCallTool {
				return next(ctx, method, req)
			}
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			start := clk.Now()
			defer func() {
				logger.Info("Called a tool", "tool", toolName(req), "user", callerName(ctx),
					"outcome", outcome(result, err), "duration", clk.Since(start).String())
			}()
			return next(ctx, method, req)
		}
	}
}

func toolName(req mcp.Request) string {
	if params, ok := req.GetParams().(*mcp.CallToolParamsRaw); ok && params != nil {
		return params.Name
	}
	return ""
}

func callerName(ctx context.Context) string {
	if u, ok := request.UserFrom(ctx); ok {
		return u.GetName()
	}
	return ""
}

func outcome(result mcp.Result, err error) string {
	var rpcErr *jsonrpc.Error
	call, _ := result.(*mcp.CallToolResult)
	switch {
	case errors.As(err, &rpcErr):
		return "refused"
	case err != nil:
		return "failed"
	case call != nil && call.IsError:
		return "error"
	case call == nil:
		return "panic"
	default:
		return "ok"
	}
}
