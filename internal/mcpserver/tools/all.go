package tools

import "github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"

// All returns all tools, in the order in which clients list them.
func All() *toolset.Set {
	s := &toolset.Set{Describe: describeArgument}
	addControlPlanes(s)
	addProvisioners(s)
	addWorkspaceProxies(s)
	addWorkspaces(s)
	addTemplates(s)
	addObservation(s)
	addDiagnosis(s)
	addInside(s)
	return s
}
