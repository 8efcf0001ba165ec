package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
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
		if strings.HasPrefix(method, "notifications/") || method == methodPing {
			return next(ctx, method, req)
		}
		name := "MCP " + method
		if params, ok := req.GetParams().(*mcp.CallToolParamsRaw); ok {
			// A client can choose any name, so only those of tools are in the name of the span.
			if _, known := s.tools[params.Name]; known {
				name += " " + params.Name
			}
		}
		ctx, span := s.config.Tracing.Begin(tracing.Extract(ctx, traceOf(req)), name,
			oteltrace.WithSpanKind(oteltrace.SpanKindServer), oteltrace.WithAttributes(
				attribute.String("mcp.method.name", method),
				attribute.String("request.id", tracing.RequestID(ctx)),
			))
		defer func() { tracing.End(span, err) }()
		return next(ctx, method, req)
	}
}

const traceParent = "Traceparent"

// traceOf returns the client's trace context, from the HTTP headers or from the metadata of
// the message. Clients that also support other transports use the metadata.
func traceOf(req mcp.Request) http.Header {
	if extra := req.GetExtra(); extra != nil && extra.Header.Get(traceParent) != "" {
		return extra.Header
	}
	// Only of methods that always have parameters: for others, the SDK may return a nil pointer as
	// the parameters.
	var meta mcp.Meta
	switch params := req.GetParams().(type) {
	case *mcp.CallToolParamsRaw:
		meta = params.Meta
	case *mcp.GetPromptParams:
		meta = params.Meta
	}
	header := http.Header{}
	if parent, ok := meta["traceparent"].(string); ok {
		header.Set(traceParent, parent)
	}
	return header
}

// bound sets the timeout of a request and cancels it when the client's connection closes. It
// refuses streams of notifications: there is nothing to notify about, and a stream could stay
// open for ever.
func (s *Server) bound(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == methodListen {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this server sends no notifications"}
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		// The response can be sent only on the connection of the request. The SDK cancels the work of a client
		// that disconnected only for revision 2026-07-28.
		if connection, ok := ctx.Value(connectionKey{}).(context.Context); ok {
			defer context.AfterFunc(connection, cancel)()
		}
		// The SDK sends nothing before the first event, which may take minutes if the client does not ask
		// for progress.
		writer, _ := s.writers.Load(tracing.RequestID(ctx))
		if keeper, ok := writer.(StreamKeeper); ok && method == methodCallTool {
			defer keeper.KeepOpen()()
		}
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

// StreamKeeper is implemented by response writers that can send the header of an event
// stream while its handler is silent.
type StreamKeeper interface {
	// KeepOpen begins to keep the stream open. Until end is called, nothing may change the
	// header of the response.
	KeepOpen() (end func())
}

// connectionKey is the key of the context of the HTTP request, which ends with the connection.
type connectionKey struct{}

// The methods that this package refers to.
const (
	methodCallTool  = "tools/call"
	methodGetPrompt = "prompts/get"
	methodListen    = "subscriptions/listen"
	methodPing      = "ping"
)

const maxLogged = 256 + len(redaction.Ellipsis)

// audit logs each tool call and prompt, including refused ones: the caller, the object and the
// outcome. It logs only a few of the arguments, because others may contain secrets.
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
			if did.kind == "tool" {
				s.config.Metrics.calledTool(did.target, outcome, took)
			}
			log.FromContext(ctx).Info("Handled a call", "method", method, "user", callers.NameOf(ctx), did.kind, Cut(did.target),
				"namespace", Cut(did.namespace), "name", Cut(did.name), "dryRun", did.dryRun,
				"outcome", outcome, "durationMs", took.Milliseconds())
		}()
		return next(ctx, method, req)
	}
}

// deed is a request that is recorded in the log, where kind, "tool" or "prompt", is the key of target.
type deed struct {
	kind, target    string
	namespace, name string
	dryRun          bool
}

func deedOf(req mcp.Request) (deed, bool) {
	switch params := req.GetParams().(type) {
	case *mcp.CallToolParamsRaw:
		var known struct {
			Namespace, Name any
			DryRun          any
		}
		// Arguments that are not a JSON object have none of these fields.
		_ = json.Unmarshal(params.Arguments, &known)
		did := deed{kind: "tool", target: params.Name}
		did.namespace, _ = known.Namespace.(string)
		did.name, _ = known.Name.(string)
		did.dryRun, _ = known.DryRun.(bool)
		return did, true
	case *mcp.GetPromptParams:
		return deed{kind: "prompt", target: params.Name, namespace: params.Arguments["namespace"], name: params.Arguments["name"]}, true
	default:
		return deed{}, false
	}
}

// Cut limits the size of a client's text in one value of a log line.
func Cut(s string) string { return redaction.Truncate(s, maxLogged) }

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
	case errors.As(err, &usage), apierrors.IsInvalid(err), apierrors.IsBadRequest(err),
		errors.As(err, &rpc) && rpc.Code == jsonrpc.CodeInvalidParams:
		return toolset.OutcomeInvalid
	case apierrors.IsForbidden(err):
		return toolset.OutcomeDenied
	case apierrors.IsNotFound(err):
		return toolset.OutcomeNotFound
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return toolset.OutcomeConflict
	case apierrors.IsServiceUnavailable(err), apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err):
		return toolset.OutcomeUnavailable
	default:
		return toolset.OutcomeError
	}
}

// explain hides the errors of handlers that are not JSON-RPC errors: they are not meant for
// clients, and are only logged.
func (s *Server) explain(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		var rpc *jsonrpc.Error
		switch {
		case err == nil:
			return result, nil
		case errors.As(err, &rpc), method != methodCallTool && method != methodGetPrompt:
			return nil, err
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "it took too long and was stopped; request less data, or try again later"}
		case ctx.Err() != nil:
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the request was cancelled"}
		}
		log.FromContext(ctx).Error(err, "An MCP method failed", "method", method)
		return nil, internalError()
	}
}

func internalError() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error; see the log of the server for details"}
}

// sdkLog logs all messages of the SDK at the detail level. The SDK logs every request, and
// logs mistakes of clients as errors, with which anyone could flood the log.
type sdkLog struct{ slog.Handler }

func (h sdkLog) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.Handler.Enabled(ctx, slog.LevelInfo)
}

func (h sdkLog) Handle(ctx context.Context, record slog.Record) error {
	record.Level = slog.LevelInfo
	return h.Handler.Handle(ctx, record)
}

func (h sdkLog) WithAttrs(attrs []slog.Attr) slog.Handler { return sdkLog{h.Handler.WithAttrs(attrs)} }

func (h sdkLog) WithGroup(name string) slog.Handler { return sdkLog{h.Handler.WithGroup(name)} }
