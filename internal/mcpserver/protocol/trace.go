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

// trace makes each request a span. Those that do no work, or last as long as their
// client likes, have none.
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

// spanName has the tool, unless the client calls one that is not there.
func (s *Server) spanName(method string, req mcp.Request) string {
	if params, ok := req.GetParams().(*mcp.CallToolParamsRaw); ok {
		if _, known := s.tools[params.Name]; known {
			return "MCP " + method + " " + params.Name
		}
	}
	return "MCP " + method
}

// traceParent is the name of a trace, in HTTP and in the metadata of a message.
const traceParent = "Traceparent"

// traceOf is where the client says to which trace a request belongs: in the headers,
// or as clients do that speak the protocol over other ways too, in its metadata.
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

// metaOf is the metadata of a request that always has parameters. Those of others may
// be missing, which the SDK tells as a nil that is none.
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
