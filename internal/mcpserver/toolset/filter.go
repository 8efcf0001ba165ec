package toolset

import (
	"fmt"
	"slices"
	"strings"
)

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
			return nil, fmt.Errorf("tool %q is enabled and cannot be offered, because %s", t.Name, reason)
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
		return fmt.Sprintf("its toolset %q is offered only if it is named", d.Toolset)
	case len(o.Toolsets) > 0 && !slices.Contains(o.Toolsets, d.Toolset):
		return fmt.Sprintf("its toolset %q is not one of those that are offered", d.Toolset)
	case slices.Contains(o.Disabled, d.Name):
		return "it is disabled too"
	case len(o.Enabled) > 0 && !slices.Contains(o.Enabled, d.Name):
		return "other tools are enabled"
	default:
		return ""
	}
}
