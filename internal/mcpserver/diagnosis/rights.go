package diagnosis

import "github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"

// The resources that are read.
const (
	controlPlanes = "codercontrolplanes"
	provisioners  = "coderprovisioners"
	workspaces    = "coderworkspaces"
	templates     = "codertemplates"
	deployments   = "deployments"
	replicaSets   = "replicasets"
	pods          = "pods"
	podLogs       = "pods/log"
	events        = "events"
	workspaceLogs = "coderworkspaces/log"
	templateLogs  = "codertemplates/log"
)

// ControlPlaneRights returns the permissions that ControlPlane needs, and those that make
// its report more complete.
func ControlPlaneRights() (needs, uses []callers.Right) {
	return []callers.Right{callers.CoderRight("get", controlPlanes)}, append(podRights(),
		callers.Right{Verb: "get", Group: "apps", Resource: deployments},
		callers.CoderRight("list", provisioners), callers.AggregatedRight("list", templates), callers.AggregatedRight("get", templateLogs))
}

// WorkspaceRights returns the permissions that Workspace needs, and those that make its
// report more complete.
func WorkspaceRights() (needs, uses []callers.Right) {
	return []callers.Right{callers.AggregatedRight("get", workspaces)}, append(podRights(),
		callers.CoderRight("get", controlPlanes), callers.CoderRight("list", controlPlanes), callers.CoderRight("list", provisioners),
		callers.AggregatedRight("get", templates), callers.AggregatedRight("get", workspaceLogs), callers.AggregatedRight("get", templateLogs))
}

// podRights returns the permissions to find out why pods do not run.
func podRights() []callers.Right {
	return []callers.Right{
		{Verb: "list", Resource: pods}, {Verb: "get", Resource: podLogs}, {Verb: "list", Resource: events},
		{Verb: "list", Group: "apps", Resource: replicaSets},
	}
}
