package protocol

import (
	"context"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
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

// identify adds the caller, and a logger with the request ID, to the context. It takes both
// from the SDK's data about this request. Without that data the context has no caller, and
// handlers cannot act for anyone.
func (s *Server) identify(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		logger := s.config.Logger
		var info *auth.TokenInfo
		if extra := req.GetExtra(); extra != nil {
			info = extra.TokenInfo
			// The HTTP middleware sets this header on each request.
			if id := extra.Header.Get(tracing.RequestIDHeader); id != "" {
				logger = logger.WithValues(tracing.RequestIDLogKey, id)
				ctx = tracing.WithRequestID(ctx, id)
			}
		}
		return next(log.IntoContext(callers.WithCaller(ctx, info), logger), method, req)
	}
}

// trace creates a span for each request. Requests that do no work have none.
func (s *Server) trace(next mcp.MethodHandler) mcp.MethodHandler {
	if s.config.Tracing == nil {
		return next
	}
	return func(ctx context.Context, method string, req mcp.Request) (_ mcp.Result, err error) {
		if isNotification(method) || method == methodPing {
			return next(ctx, method, req)
		}
		ctx, span := s.config.Tracing.Begin(tracing.Extract(ctx, traceOf(req)), s.spanName(method, req),
			oteltrace.WithSpanKind(oteltrace.SpanKindServer), oteltrace.WithAttributes(
				attribute.String("mcp.method.name", method),
				attribute.String("request.id", tracing.RequestID(ctx)),
			))
		defer func() { tracing.End(span, err) }()
		return next(ctx, method, req)
	}
}

// spanName contains the name of the tool, unless there is no such tool.
func (s *Server) spanName(method string, req mcp.Request) string {
	if params, ok := req.GetParams().(*mcp.CallToolParamsRaw); ok {
		if _, known := s.tools[params.Name]; known {
			return "MCP " + method + " " + params.Name
		}
	}
	return "MCP " + method
}

// traceParent is the HTTP header with the trace context.
const traceParent = "Traceparent"

// traceOf returns the client's trace context, from the HTTP headers or from the metadata of
// the message. Clients that also support other transports use the metadata.
func traceOf(req mcp.Request) http.Header {
	if extra := req.GetExtra(); extra != nil && extra.Header.Get(traceParent) != "" {
		return extra.Header
	}
	header := http.Header{}
	if parent, ok := metaOf(req)["traceparent"].(string); ok {
		header.Set(traceParent, parent)
	}
	return header
}

// metaOf returns the metadata of a request whose method always has parameters. For other
// methods, the SDK may return a nil pointer as the parameters.
func metaOf(req mcp.Request) mcp.Meta {
	switch params := req.GetParams().(type) {
	case *mcp.CallToolParamsRaw:
		return params.Meta
	case *mcp.GetPromptParams:
		return params.Meta
	default:
		return nil
	}
}

// bound sets the timeout of a request and cancels it when the client's connection closes. It
// refuses streams of notifications: there is nothing to notify about, and a stream could stay
// open for ever.
func (s *Server) bound(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == methodListen {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this server sends no notifications"}
		}
		ctx, cancel := followConnection(ctx)
		defer cancel()
		defer s.keepOpen(ctx, method)()
		ctx, stop := context.WithTimeout(ctx, s.timeout(req))
		defer stop()
		return next(ctx, method, req)
	}
}

// timeout returns the time limit of a request. A tool that waits also gets the time from its
// arguments wait and timeoutSeconds, which mean the same in all tools.
func (s *Server) timeout(req mcp.Request) time.Duration {
	params, ok := req.GetParams().(*mcp.CallToolParamsRaw)
	if !ok {
		return s.limits.call
	}
	// The tool reports invalid arguments.
	return s.limits.call + toolset.WaitOf(params.Arguments, s.tools[params.Name].Waits)
}

// isNotification reports whether a message is a notification, which has no response.
func isNotification(method string) bool { return strings.HasPrefix(method, "notifications/") }

// StreamKeeper is implemented by response writers that can send the header of an event
// stream while its handler is silent.
type StreamKeeper interface {
	// KeepOpen begins to keep the stream open. Until end is called, nothing may change the
	// header of the response.
	KeepOpen() (end func())
}

type connectionKey struct{}

// withConnection stores the request's context for followConnection.
func withConnection(ctx context.Context) context.Context {
	return context.WithValue(ctx, connectionKey{}, ctx)
}

// followConnection cancels the work when the client disconnects, because the response can be
// sent only on that connection. The SDK does that only for revision 2026-07-28.
func followConnection(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	connection, ok := ctx.Value(connectionKey{}).(context.Context)
	if !ok {
		return ctx, cancel
	}
	stop := context.AfterFunc(connection, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// keepOpen keeps the connection of a call of a tool open, until end is called. The SDK sends
// nothing before the first event, which may take minutes if the client does not ask for
// progress.
func (s *Server) keepOpen(ctx context.Context, method string) (end func()) {
	writer, _ := s.writers.Load(tracing.RequestID(ctx))
	if keeper, ok := writer.(StreamKeeper); ok && method == methodCallTool {
		return keeper.KeepOpen()
	}
	return func() {}
}
