package toolset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

// Set is a list of tools, in the order in which clients see them.
type Set struct {
	// Describe returns the description of an argument that has no jsonschema tag. It may be
	// nil, and must be set before the first tool is added.
	Describe func(tool, argument string) string

	tools []tool
}

type tool struct {
	Definition
	arguments *jsonschema.Schema
	answer    reflect.Type
	register  func(server *mcp.Server, env Env)
}

// Env contains the dependencies of calls.
type Env struct {
	// Kube impersonates the caller of each call's context.
	Kube *callers.Kube
	// Confirmer signs questions to users. If it is nil, no client is asked, and destructive
	// tools require the argument confirm.
	Confirmer *Confirmations
	// RequireElicitation rejects destructive calls from clients that cannot ask their user,
	// instead of accepting the argument confirm.
	RequireElicitation bool
	// InsideUnconfirmed reports that the tools of toolset Inside need no confirmation.
	InsideUnconfirmed bool
	// Clock defaults to the real clock.
	Clock clock.WithTicker
}

// Definitions returns the definitions of all tools, in their order.
func (s *Set) Definitions() []Definition {
	definitions := make([]Definition, len(s.tools))
	for i, t := range s.tools {
		definitions[i] = t.Definition
	}
	return definitions
}

// Arguments returns the schema that a tool's arguments are validated against. Clients get
// only a part of it. It returns nil if there is no such tool.
func (s *Set) Arguments(name string) *jsonschema.Schema { return s.find(name).arguments }

// Answer returns the type of a tool's answers, whose fields are not in the tool's output
// schema. It returns nil if there is no such tool.
func (s *Set) Answer(name string) reflect.Type { return s.find(name).answer }

func (s *Set) find(name string) tool {
	for _, t := range s.tools {
		if t.Name == name {
			return t
		}
	}
	return tool{}
}

// Register registers the tools with an MCP server.
func (s *Set) Register(server *mcp.Server, env Env) {
	for _, t := range s.tools {
		t.register(server, env)
	}
}

// Add adds a tool to the set. Its schemas are derived from In and Out, which must be
// structs. Add panics if they or the definition are invalid, which is a bug that shows at
// startup.
func Add[In, Out any](s *Set, d Definition, run func(ctx context.Context, call *Call, in In) (Out, error)) {
	if slices.ContainsFunc(s.tools, func(t tool) bool { return t.Name == d.Name }) {
		panic(fmt.Sprintf("bug: there are two tools named %q", d.Name))
	}
	input := inputSchema[In](d.Name)
	for name, property := range input.Schema().Properties {
		if property.Description == "" && s.Describe != nil {
			property.Description = s.Describe(d.Name, name)
		}
	}
	annotations := &mcp.ToolAnnotations{
		ReadOnlyHint: d.Effect == Reads, IdempotentHint: d.Idempotent,
		// Nearly all tools act only inside this cluster and its Coder deployments.
		OpenWorldHint: ptr.To(d.OpenWorld),
	}
	if d.Effect != Reads {
		// The hint has no meaning for a tool that only reads.
		annotations.DestructiveHint = ptr.To(d.Effect == Destroys)
	}
	offered := &mcp.Tool{
		Name: d.Name, Title: d.Title, Description: d.Description,
		InputSchema: advertised(input.Schema()), OutputSchema: answerSchema[Out](d.Name), Annotations: annotations,
	}
	register := func(server *mcp.Server, env Env) {
		unconfirmed := env.InsideUnconfirmed && d.Toolset == Inside
		server.AddTool(offered, handler(func(ctx context.Context, req *mcp.CallToolRequest) (json.RawMessage, error) {
			if d.Effect == Reads {
				ctx = callers.ReadOnly(ctx)
			}
			var in In
			arguments, err := decode(req.Params.Arguments, input, &in)
			if err != nil {
				return nil, err
			}
			call := &Call{
				Kube: env.Kube, time: env.Clock, dialog: newDialog(ctx, env.Confirmer, req, arguments),
				requireElicitation: env.RequireElicitation, unconfirmed: unconfirmed,
			}
			if token := req.Params.GetProgressToken(); token != nil && req.Session != nil {
				call.progress = &progress{token: token, clock: call.clock(), notify: req.Session.NotifyProgress}
			}
			out, err := run(ctx, call, in)
			if err != nil && !isFailure(err) {
				return nil, err
			}
			answer, encodeErr := encode(&out)
			if encodeErr != nil {
				return nil, encodeErr
			}
			return answer, err
		}))
	}
	s.tools = append(s.tools, tool{Definition: d, arguments: input.Schema(), answer: reflect.TypeFor[Out](), register: register})
}

// handler makes the answer of a tool, or its error, the result of the call. The result of a
// failure contains both. It replaces the SDK's generic handler, which decodes every answer
// again to validate it, and reports invalid arguments in terms of Go types.
func handler(answer func(context.Context, *mcp.CallToolRequest) (json.RawMessage, error)) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, err := answer(ctx, req)
		var ask *asking
		var refused *jsonrpc.Error
		switch {
		case err == nil:
			setOutcome(ctx, OutcomeOK)
			return answerResult(answer), nil
		case isFailure(err):
			setOutcome(ctx, OutcomeFailed)
			result := answerResult(answer)
			result.IsError = true
			result.Content = append([]mcp.Content{&mcp.TextContent{Text: bounded(err).Error()}}, result.Content...)
			return result, nil
		case errors.As(err, &ask):
			setOutcome(ctx, OutcomeNeedsInput)
			return ask.result(), nil
		case errors.As(err, &refused):
			setOutcome(ctx, OutcomeInvalid)
			return nil, refused
		}
		outcome, reported := explain(ctx, err)
		setOutcome(ctx, outcome)
		result := &mcp.CallToolResult{}
		result.SetError(bounded(reported))
		return result, nil
	}
}

func answerResult(answer json.RawMessage) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		StructuredContent: answer,
		// Clients of revisions before 2025-06-18 read only this field.
		Content: []mcp.Content{&mcp.TextContent{Text: string(answer)}},
	}
}

// Call is one call of a tool. Only Kube is required: without the other fields the client
// cannot be asked for confirmation and gets no progress notifications.
type Call struct {
	// Kube impersonates the caller. In the context of a tool that only reads, it rejects writes.
	Kube *callers.Kube

	// dialog asks the client's user for confirmation. It is nil if the client does not
	// support that.
	dialog *dialog
	// requireElicitation rejects the argument confirm as a replacement for a dialog.
	requireElicitation bool
	// unconfirmed skips the confirmation.
	unconfirmed bool
	// progress sends progress notifications. It is nil if the client did not request any.
	progress *progress
	// time is the clock; nil means the real one.
	time clock.WithTicker
}

func (c *Call) clock() clock.WithTicker {
	if c.time == nil {
		return clock.RealClock{}
	}
	return c.time
}

// Now returns the current time.
func (c *Call) Now() time.Time { return c.clock().Now() }

// Outcome records how a call ended. The tool's goroutine writes it before it returns the
// answer, so reading it after the answer needs no lock.
type Outcome struct{ value string }

// String returns one of the outcomes, or "" if no tool ran.
func (o *Outcome) String() string { return o.value }

type outcomeKey struct{}

// WithOutcome returns a context in which a tool call records its outcome. If the call runs
// twice, because the user was asked in between, the outcome is that of the second run.
func WithOutcome(ctx context.Context) (context.Context, *Outcome) {
	o := &Outcome{}
	return context.WithValue(ctx, outcomeKey{}, o), o
}

func setOutcome(ctx context.Context, value string) {
	if o, ok := ctx.Value(outcomeKey{}).(*Outcome); ok {
		o.value = value
	}
}

// progressInterval is the minimum time between two notifications of a call.
const progressInterval = 500 * time.Millisecond

// Progress sends a progress notification if the client requested any. It sends at most one
// per progressInterval and drops the others.
func (c *Call) Progress(ctx context.Context, message string) {
	if c.progress != nil {
		c.progress.tell(ctx, message)
	}
}

type progress struct {
	token  any
	clock  clock.PassiveClock
	notify func(context.Context, *mcp.ProgressNotificationParams) error

	mu   sync.Mutex
	sent int
	last time.Time
}

// tell sends a notification. It returns false if it dropped the message because of
// progressInterval.
func (p *progress) tell(ctx context.Context, message string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	if p.sent > 0 && now.Sub(p.last) < progressInterval {
		return false
	}
	p.sent++
	p.last = now
	err := p.notify(ctx, &mcp.ProgressNotificationParams{ProgressToken: p.token, Progress: float64(p.sent), Message: message})
	if err != nil {
		// The client is gone, or will see the result in the answer.
		log.FromContext(ctx).V(1).Info("Could not report the progress of a call", "error", err.Error())
	}
	return true
}

// Effect classifies what a tool changes.
type Effect string

// The effects of tools.
const (
	// Reads means that the tool changes nothing.
	Reads Effect = "read"
	// Writes means that the tool adds or changes something, but removes nothing.
	Writes Effect = "write"
	// Destroys means that the tool stops, replaces or deletes something; it requires
	// confirmation.
	Destroys Effect = "destroy"
)

// The toolsets, which can be enabled and disabled as a whole.
const (
	ControlPlanes = "controlplane"
	Workspaces    = "workspace"
	Templates     = "template"
	Observation   = "observe"
	// Inside contains the tools that work inside workspaces. It is enabled only if it is
	// named.
	Inside = "inside"
)

// Toolsets returns the names of all toolsets.
func Toolsets() []string {
	return []string{ControlPlanes, Workspaces, Templates, Observation, Inside}
}

// Definition is the metadata of a tool: what clients see besides its schemas, and the
// permissions of the caller that it uses.
type Definition struct {
	Name, Title, Description string
	// Toolset is the toolset that contains the tool.
	Toolset string
	Effect  Effect
	// Idempotent reports that a repeated call with the same arguments has no further
	// effect.
	Idempotent bool
	// OpenWorld reports that a call can access systems outside this cluster.
	OpenWorld bool
	// Waits reports that timeoutSeconds applies to every call, even without the argument
	// wait.
	Waits bool
	// Rights are the permissions that every call needs.
	Rights []callers.Right
	// OneOf are permissions of which every call needs at least one, depending on its
	// arguments.
	OneOf []callers.Right
	// Uses are further permissions, which some calls need or which make the answer more
	// complete.
	Uses []callers.Right
}

// AllRights returns all permissions that any call may use.
func (d Definition) AllRights() []callers.Right {
	return slices.Concat(d.Rights, d.OneOf, d.Uses)
}

// Options select the tools that are offered. A tool must satisfy all of them.
type Options struct {
	// ReadOnly selects only tools that change nothing.
	ReadOnly bool
	// Toolsets selects the tools of these toolsets. If it is empty, the tools of all
	// toolsets except Inside are selected.
	Toolsets []string
	// Enabled selects only these tools, if it is not empty. It is an error if another
	// option excludes one of them.
	Enabled []string
	// Disabled excludes these tools.
	Disabled []string
}

// Filter returns the selected tools, in the same order. It returns an error if an option
// contains an unknown name, if an enabled tool is excluded by another option, or if no tool
// is left.
func (s *Set) Filter(o Options) (*Set, error) {
	toolsets, names := s.names()
	for _, check := range []struct {
		kind         string
		given, known []string
	}{{"toolset", o.Toolsets, toolsets}, {"tool", o.Enabled, names}, {"tool", o.Disabled, names}} {
		for _, name := range check.given {
			if !slices.Contains(check.known, name) {
				return nil, fmt.Errorf("there is no %s %q; there are: %s", check.kind, name, strings.Join(check.known, ", "))
			}
		}
	}
	left := &Set{}
	for _, t := range s.tools {
		reason := ""
		switch {
		case o.ReadOnly && t.Effect != Reads:
			reason = "it changes something and the server is read-only"
		case len(o.Toolsets) == 0 && t.Toolset == Inside:
			reason = fmt.Sprintf("its toolset %q is offered only if it is selected explicitly", t.Toolset)
		case len(o.Toolsets) > 0 && !slices.Contains(o.Toolsets, t.Toolset):
			reason = fmt.Sprintf("its toolset %q is not selected", t.Toolset)
		case slices.Contains(o.Disabled, t.Name):
			reason = "it is disabled too"
		case len(o.Enabled) > 0 && !slices.Contains(o.Enabled, t.Name):
			reason = "other tools are enabled"
		}
		if reason == "" {
			left.tools = append(left.tools, t)
		} else if slices.Contains(o.Enabled, t.Name) {
			return nil, fmt.Errorf("tool %q is enabled but cannot be offered, because %s", t.Name, reason)
		}
	}
	if len(left.tools) == 0 {
		return nil, fmt.Errorf("no tool is left to offer: read-only %t, toolsets %q, disabled tools %q", o.ReadOnly, o.Toolsets, o.Disabled)
	}
	return left, nil
}

func (s *Set) names() (toolsets, tools []string) {
	for _, t := range s.tools {
		tools = append(tools, t.Name)
		if !slices.Contains(toolsets, t.Toolset) {
			toolsets = append(toolsets, t.Toolset)
		}
	}
	return toolsets, tools
}
