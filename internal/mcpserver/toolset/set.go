package toolset

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

// Set is a list of tools, in the order in which clients see them.
type Set struct {
	// Describe returns the description of an argument that has no jsonschema tag. It may be
	// nil, and must be set before the first tool is added.
	Describe func(tool, argument string) string

	tools []tool
}

// tool is a definition and the function that registers it.
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
	// Unconfirmed are toolsets whose destructive tools need no confirmation.
	Unconfirmed []string
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
func (s *Set) Arguments(name string) *jsonschema.Schema {
	for _, t := range s.tools {
		if t.Name == name {
			return t.arguments
		}
	}
	return nil
}

// Answer returns the type of a tool's answers, whose fields are not in the tool's output
// schema. It returns nil if there is no such tool.
func (s *Set) Answer(name string) reflect.Type {
	for _, t := range s.tools {
		if t.Name == name {
			return t.answer
		}
	}
	return nil
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
	offered := &mcp.Tool{
		Name: d.Name, Title: d.Title, Description: d.Description,
		InputSchema: advertised(input.Schema()), OutputSchema: answerSchema[Out](d.Name), Annotations: annotations(d),
	}
	register := func(server *mcp.Server, env Env) {
		if d.Effect == Reads {
			env.Kube = readsOnly(env.Kube)
		}
		server.AddTool(offered, handler(env, input, slices.Contains(env.Unconfirmed, d.Toolset), run))
	}
	s.tools = append(s.tools, tool{Definition: d, arguments: input.Schema(), answer: reflect.TypeFor[Out](), register: register})
}

func annotations(d Definition) *mcp.ToolAnnotations {
	a := &mcp.ToolAnnotations{
		ReadOnlyHint: d.Effect == Reads, IdempotentHint: d.Idempotent,
		// Nearly all tools act only inside this cluster and its Coder deployments.
		OpenWorldHint: ptr.To(d.OpenWorld),
	}
	if d.Effect != Reads {
		// The hint has no meaning for a tool that only reads.
		a.DestructiveHint = ptr.To(d.Effect == Destroys)
	}
	return a
}
