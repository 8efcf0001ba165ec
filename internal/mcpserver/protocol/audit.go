package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// The methods that this package refers to.
const (
	methodCallTool     = "tools/call"
	methodGetPrompt    = "prompts/get"
	methodReadResource = "resources/read"
	methodComplete     = "completion/complete"
	methodSubscribe    = "resources/subscribe"
	methodListen       = "subscriptions/listen"
	methodPing         = "ping"
)

// maxLogged limits the size of a client's text in one value of a log line, in bytes.
const maxLogged = 256 + len(redaction.Ellipsis)

// Metrics counts calls, sessions and streams.
type Metrics interface {
	// CalledTool counts a call of a tool and its duration. The name of the tool is chosen
	// by the client and may not exist.
	CalledTool(tool, outcome string, took time.Duration)
	// AddSessions and AddStreams add n to the number of open sessions or streams.
	AddSessions(n int)
	AddStreams(n int)
}

type noMetrics struct{}

func (noMetrics) CalledTool(string, string, time.Duration) {}
func (noMetrics) AddSessions(int)                          {}
func (noMetrics) AddStreams(int)                           {}

// audit logs each tool call, prompt and read of a resource, including refused ones: the
// caller, the object and the outcome. It logs only a few of the arguments, because others
// may contain secrets. Subscriptions are logged when they begin, by subscriptions.begin.
func (s *Server) audit(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		did, ok := deedOf(req)
		if !ok {
			return next(ctx, method, req)
		}
		ctx, recorded := toolset.WithOutcome(ctx)
		start := s.config.Clock.Now()
		// Deferred, so that a panic is logged too.
		defer func() {
			outcome, took := outcomeOf(recorded.String(), result, err), s.config.Clock.Since(start)
			if did.kind == toolDeed {
				s.config.Metrics.CalledTool(did.target, outcome, took)
			}
			did.log(ctx, method, outcome, took)
		}()
		return next(ctx, method, req)
	}
}

// The kinds of deeds, which are keys in the log.
const (
	toolDeed     = "tool"
	promptDeed   = "prompt"
	resourceDeed = "uri"
)

// deed is a request that is recorded in the log.
type deed struct {
	kind, target    string
	namespace, name string
	dryRun          bool
}

// deedOf returns the deed of a request, if the request is one that is recorded.
func deedOf(req mcp.Request) (deed, bool) {
	switch params := req.GetParams().(type) {
	case *mcp.CallToolParamsRaw:
		var known struct {
			Namespace, Name any
			DryRun          any
		}
		// Arguments that are not a JSON object have none of these fields.
		_ = json.Unmarshal(params.Arguments, &known)
		did := deed{kind: toolDeed, target: params.Name}
		did.namespace, _ = known.Namespace.(string)
		did.name, _ = known.Name.(string)
		did.dryRun, _ = known.DryRun.(bool)
		return did, true
	case *mcp.GetPromptParams:
		return deed{kind: promptDeed, target: params.Name, namespace: params.Arguments["namespace"], name: params.Arguments["name"]}, true
	case *mcp.ReadResourceParams:
		return deed{kind: resourceDeed, target: params.URI}, true
	default:
		return deed{}, false
	}
}

func (d deed) log(ctx context.Context, method, outcome string, took time.Duration) {
	log.FromContext(ctx).Info("Handled a call", "method", method, "user", callers.NameOf(ctx), d.kind, cut(d.target),
		"namespace", cut(d.namespace), "name", cut(d.name), "dryRun", d.dryRun,
		"outcome", outcome, "durationMs", took.Milliseconds())
}

func cut(s string) string { return redaction.Truncate(s, maxLogged) }

// outcomeOf returns the outcome of a call: the one that the handler recorded, unless the
// call ended with an error outside of the handler.
func outcomeOf(recorded string, result mcp.Result, err error) string {
	call, isTool := result.(*mcp.CallToolResult)
	var rpc *jsonrpc.Error
	switch {
	case err != nil && (recorded == "" || !errors.As(err, &rpc)):
		return outcomeOfError(err)
	case recorded != "":
		return recorded
	case result == nil:
		// The handler panicked.
		return toolset.OutcomeError
	case isTool && call.InputRequests != nil:
		return toolset.OutcomeNeedsInput
	case isTool && call.IsError:
		return outcomeOfError(call.GetError())
	default:
		return toolset.OutcomeOK
	}
}

func outcomeOfError(err error) string {
	var usage toolset.UsageError
	var rpc *jsonrpc.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return toolset.OutcomeTimeout
	case errors.Is(err, context.Canceled):
		return toolset.OutcomeCancelled
	case errors.As(err, &rpc) && isNoResource(rpc):
		return toolset.OutcomeNotFound
	case errors.As(err, &usage), apierrors.IsInvalid(err), apierrors.IsBadRequest(err),
		errors.As(err, &rpc) && rpc.Code == jsonrpc.CodeInvalidParams:
		return toolset.OutcomeInvalid
	case apierrors.IsForbidden(err):
		return toolset.OutcomeDenied
	case apierrors.IsNotFound(err):
		return toolset.OutcomeNotFound
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return toolset.OutcomeConflict
	case errors.As(err, &rpc) && rpc.Code == codeBusy,
		apierrors.IsServiceUnavailable(err), apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err):
		return toolset.OutcomeUnavailable
	default:
		return toolset.OutcomeError
	}
}

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
	case *mcp.ReadResourceParams:
		return params.Meta
	default:
		return nil
	}
}

// sdkLog logs all messages of the SDK at the detail level. The SDK logs every request, and
// logs mistakes of clients as errors, with which anyone could flood the log.
type sdkLog struct{ slog.Handler }

func newSDKLog(logger logr.Logger) *slog.Logger {
	return slog.New(sdkLog{logr.ToSlogHandler(logger.V(1))})
}

// Enabled implements slog.Handler.
func (h sdkLog) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.Handler.Enabled(ctx, slog.LevelInfo)
}

// Handle implements slog.Handler.
func (h sdkLog) Handle(ctx context.Context, record slog.Record) error {
	record.Level = slog.LevelInfo
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h sdkLog) WithAttrs(attrs []slog.Attr) slog.Handler { return sdkLog{h.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (h sdkLog) WithGroup(name string) slog.Handler { return sdkLog{h.Handler.WithGroup(name)} }
