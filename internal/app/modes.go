package app

import (
	"fmt"
	"strings"
)

// Mode selects the components that a process runs.
type Mode string

// The modes.
const (
	ModeAll                 Mode = "all"
	ModeController          Mode = "controller"
	ModeAggregatedAPIServer Mode = "aggregated-apiserver"
	ModeMCP                 Mode = "mcp-http"
)

// modeComponents is one row of the table of modes.
type modeComponents struct {
	mode       Mode
	components []component
}

// modes returns the table of modes, in the order in which the help lists them.
func modes() []modeComponents {
	controllers, aggregatedAPI, mcp := controllersComponent(), aggregatedAPIComponent(), mcpComponent()
	return []modeComponents{
		{ModeAll, []component{controllers, aggregatedAPI, mcp}},
		{ModeController, []component{controllers}},
		{ModeAggregatedAPIServer, []component{aggregatedAPI}},
		{ModeMCP, []component{mcp}},
	}
}

// modeNames returns the modes as a list for messages.
func modeNames() string {
	var names []string
	for _, line := range modes() {
		names = append(names, string(line.mode))
	}
	return strings.Join(names, ", ")
}

// components returns the components of a mode.
func (m Mode) components() ([]component, error) {
	for _, line := range modes() {
		if line.mode == m {
			return line.components, nil
		}
	}
	return nil, fmt.Errorf("--app=%s is not known; it is one of: %s", m, modeNames())
}
