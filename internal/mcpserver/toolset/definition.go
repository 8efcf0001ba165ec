package toolset

import (
	"slices"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/access"
)

// Effect is what a tool does to the world.
type Effect string

// The effects.
const (
	// Reads changes nothing.
	Reads Effect = "read"
	// Writes adds or changes, and takes nothing away.
	Writes Effect = "write"
	// Destroys ends or takes away something; it must be confirmed.
	Destroys Effect = "destroy"
)

// The toolsets that can be switched on and off as a whole.
const (
	ControlPlanes = "controlplane"
	Workspaces    = "workspace"
	Templates     = "template"
	Observation   = "observe"
	// Inside is the inside of workspaces. It is offered only if it is named.
	Inside = "inside"
)

// Toolsets returns the names of all toolsets.
func Toolsets() []string {
	return []string{ControlPlanes, Workspaces, Templates, Observation, Inside}
}

// Definition is what a client is told about a tool besides its schemas, and what
// decides who is offered it.
type Definition struct {
	Name, Title, Description string
	// Toolset is one of the toolsets.
	Toolset string
	Effect  Effect
	// Idempotent says that a second call with the same arguments changes nothing
	// more.
	Idempotent bool
	// OpenWorld says that a call can reach what is outside of this cluster.
	OpenWorld bool
	// Waits says that a call ends after timeoutSeconds, without the argument wait.
	Waits bool
	// Rights are those without each of which no call can succeed.
	Rights []access.Right
	// OneOf are rights of which every call needs one at least: its arguments decide
	// which.
	OneOf []access.Right
	// Uses are further rights that some calls need or that make the answer fuller.
	Uses []access.Right
}

// AllRights are all that any call may use.
func (d Definition) AllRights() []access.Right {
	return slices.Concat(d.Rights, d.OneOf, d.Uses)
}

// Useless says of a caller who lacks some rights that every call would be refused.
func (d Definition) Useless(lacks map[access.Right]bool) bool {
	lacking := func(right access.Right) bool { return lacks[right] }
	return slices.ContainsFunc(d.Rights, lacking) ||
		len(d.OneOf) > 0 && !slices.ContainsFunc(d.OneOf, func(right access.Right) bool { return !lacking(right) })
}
