package toolset

import (
	"slices"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

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
// permissions that decide which callers see the tool.
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

// Useless reports whether every call would be forbidden for a caller that lacks these
// permissions.
func (d Definition) Useless(lacks map[callers.Right]bool) bool {
	lacking := func(right callers.Right) bool { return lacks[right] }
	return slices.ContainsFunc(d.Rights, lacking) ||
		len(d.OneOf) > 0 && !slices.ContainsFunc(d.OneOf, func(right callers.Right) bool { return !lacking(right) })
}
