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
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/confirm"
)

// Set is tools in the order in which clients see them.
type Set struct {
	// Describe returns the description of an argument that has no tag jsonschema. It may
	// be nil, and must be set before the first tool is added.
	Describe func(tool, argument string) string

	tools []tool
}

// tool is a definition with the way to offer it.
type tool struct {
	Definition
	arguments *jsonschema.Schema
	answer    reflect.Type
	register  func(server *mcp.Server, env Env)
}

// Env is what calls need.
type Env struct {
	// Kube acts as the caller of each call's context.
	Kube *callers.Kube
	// Confirmer seals questions to users. Where there is none, no client is asked,
	// and what destroys needs the argument confirm.
	Confirmer *confirm.States
	// RequireElicitation refuses to destroy anything for a client that cannot ask its
	// user, in place of the argument confirm.
	RequireElicitation bool
	// Unconfirmed are toolsets whose tools destroy without asking.
	Unconfirmed []string
	// Clock is the real one where none is given.
	Clock clock.WithTicker
}

// Definitions are those of all tools, in their order.
func (s *Set) Definitions() []Definition {
	definitions := make([]Definition, len(s.tools))
	for i, t := range s.tools {
		definitions[i] = t.Definition
	}
	return definitions
}

// Arguments is the schema that a tool's arguments are checked against, of which
// clients are told a part. It is nil where there is no such tool.
func (s *Set) Arguments(name string) *jsonschema.Schema {
	for _, t := range s.tools {
		if t.Name == name {
			return t.arguments
		}
	}
	return nil
}

// Answer is the type of a tool's answers, of which the schema shows no field. It is
// nil where there is no such tool.
func (s *Set) Answer(name string) reflect.Type {
	for _, t := range s.tools {
		if t.Name == name {
			return t.answer
		}
	}
	return nil
}

// Register offers the tools on a server.
func (s *Set) Register(server *mcp.Server, env Env) {
	for _, t := range s.tools {
		t.register(server, env)
	}
}

// Add puts a tool into the set. Its schemas come from the types In and Out, which
// are structs. What is wrong with them or with the definition is a bug that shows
// when the process starts: Add panics.
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
		// Nearly everything happens inside this cluster and its Coder deployments.
		OpenWorldHint: ptr.To(d.OpenWorld),
	}
	if d.Effect != Reads {
		// It means nothing where a tool only reads.
		a.DestructiveHint = ptr.To(d.Effect == Destroys)
	}
	return a
}
