package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// The methods that are known here by name.
const (
	methodCallTool     = "tools/call"
	methodGetPrompt    = "prompts/get"
	methodReadResource = "resources/read"
	methodComplete     = "completion/complete"
	methodSubscribe    = "resources/subscribe"
	methodListen       = "subscriptions/listen"
	methodPing         = "ping"
)

// maxLogged bounds what a client can put into one value of a log line, in bytes.
const maxLogged = 256

// Metrics counts what is done.
type Metrics interface {
	// CalledTool counts a call of a tool, which clients name as they like, and how
	// long it took.
	CalledTool(tool, outcome string, took time.Duration)
	// AddSessions and AddStreams add to the number of those that are open.
	AddSessions(n int)
	AddStreams(n int)
}

type noMetrics struct{}

func (noMetrics) CalledTool(string, string, time.Duration) {}
func (noMetrics) AddSessions(int)                          {}
func (noMetrics) AddStreams(int)                           {}

// audit writes one line about each thing that was done or refused: who did what
// to which object, and how it ended. Of the arguments only these few are written,
// because others may hold what nobody should read. Subscriptions write their own
// lines when they begin.
func (s *Server) audit(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		did, ok := deedOf(req)
		if !ok {
			return next(ctx, method, req)
		}
		ctx, told := toolset.WithOutcome(ctx)
		start := s.config.Clock.Now()
		// Deferred, so that a panic is written too.
		defer func() {
			outcome, took := outcomeOf(told.String(), result, err), s.config.Clock.Since(start)
			if did.kind == toolDeed {
				s.config.Metrics.CalledTool(did.target, outcome, took)
			}
			did.log(ctx, method, outcome, took)
		}()
		return next(ctx, method, req)
	}
}

// The kinds of deeds, as keys of the log.
const (
	toolDeed     = "tool"
	promptDeed   = "prompt"
	resourceDeed = "uri"
)

// deed is what a client asked for.
type deed struct {
	kind, target    string
	namespace, name string
	dryRun          bool
}

// deedOf says what a request asks for, if that is something to keep a record of.
func deedOf(req mcp.Request) (deed, bool) {
	switch params := req.GetParams().(type) {
	case *mcp.CallToolParamsRaw:
		var known struct {
			Namespace, Name any
			DryRun          any
		}
		// What is no object has none of them.
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
	log.FromContext(ctx).Info("Answered a call", "method", method, "user", callers.NameOf(ctx), d.kind, cut(d.target),
		"namespace", cut(d.namespace), "name", cut(d.name), "dryRun", d.dryRun,
		"outcome", outcome, "durationMs", took.Milliseconds())
}

func cut(s string) string {
	if len(s) <= maxLogged {
		return s
	}
	return strings.ToValidUTF8(s[:maxLogged], "") + "…"
}

// outcomeOf says how a call ended, in the words of package toolset: what the
// handler itself said, unless the call ended in another way.
func outcomeOf(told string, result mcp.Result, err error) string {
	call, isTool := result.(*mcp.CallToolResult)
	var rpc *jsonrpc.Error
	switch {
	case err != nil && (told == "" || !errors.As(err, &rpc)):
		return outcomeOfError(err)
	case told != "":
		return told
	case result == nil:
		// It panicked.
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
