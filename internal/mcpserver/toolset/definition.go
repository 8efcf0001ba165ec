package toolset

import (
	"fmt"
	"slices"
	"strings"

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
		reason := o.refuses(t.Definition)
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

// names returns the names of the toolsets and of the tools.
func (s *Set) names() (toolsets, tools []string) {
	for _, t := range s.tools {
		tools = append(tools, t.Name)
		if !slices.Contains(toolsets, t.Toolset) {
			toolsets = append(toolsets, t.Toolset)
		}
	}
	return toolsets, tools
}

// refuses returns why the options exclude a tool, or "" if they do not.
func (o Options) refuses(d Definition) string {
	switch {
	case o.ReadOnly && d.Effect != Reads:
		return "it changes something and the server is read-only"
	case len(o.Toolsets) == 0 && d.Toolset == Inside:
		return fmt.Sprintf("its toolset %q is offered only if it is selected explicitly", d.Toolset)
	case len(o.Toolsets) > 0 && !slices.Contains(o.Toolsets, d.Toolset):
		return fmt.Sprintf("its toolset %q is not selected", d.Toolset)
	case slices.Contains(o.Disabled, d.Name):
		return "it is disabled too"
	case len(o.Enabled) > 0 && !slices.Contains(o.Enabled, d.Name):
		return "other tools are enabled"
	default:
		return ""
	}
}
