package toolset

import (
	"fmt"
	"slices"
	"strings"
)

// Options say which tools are offered. All of them must agree to a tool.
type Options struct {
	// ReadOnly offers only tools that change nothing.
	ReadOnly bool
	// Toolsets, where there are some, offers only the tools of these. Where there are
	// none, the tools of all but Inside are offered.
	Toolsets []string
	// Enabled, where there are some, offers only these tools. Each must be offered
	// in the end.
	Enabled []string
	// Disabled are tools that are not offered.
	Disabled []string
}

// Filter returns the tools that the options leave, in the same order. A name that
// does not exist is an error, and so is a tool that one option names and another
// takes away, and a filter that leaves nothing.
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

// names are those of the toolsets and of the tools.
func (s *Set) names() (toolsets, tools []string) {
	for _, t := range s.tools {
		tools = append(tools, t.Name)
		if !slices.Contains(toolsets, t.Toolset) {
			toolsets = append(toolsets, t.Toolset)
		}
	}
	return toolsets, tools
}

// refuses says why a tool is not offered, or nothing.
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
