package protocol

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/coder-k8s/coder-k8s/internal/requestid"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// trace creates a span for each request. Requests that do no work, and streams, whose
// duration depends on the client, have none.
func (s *Server) trace(next mcp.MethodHandler) mcp.MethodHandler {
	if s.config.Tracing == nil {
		return next
	}
	return func(ctx context.Context, method string, req mcp.Request) (_ mcp.Result, err error) {
		if isNotification(method) || method == methodPing || method == methodListen {
			return next(ctx, method, req)
		}
		ctx, span := s.config.Tracing.Begin(tracing.Extract(ctx, traceOf(req)), s.spanName(method, req),
			oteltrace.WithSpanKind(oteltrace.SpanKindServer), oteltrace.WithAttributes(
				attribute.String("mcp.method.name", method),
				attribute.String("request.id", requestid.From(ctx)),
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
	case *mcp.ReadResourceParams:
		return params.Meta
	default:
		return nil
	}
}
