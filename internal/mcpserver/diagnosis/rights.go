package diagnosis

import "github.com/coder-k8s/coder-k8s/internal/mcpserver/access"

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
func ControlPlaneRights() (needs, uses []access.Right) {
	return []access.Right{access.Coder("get", controlPlanes)}, append(podRights(),
		access.Right{Verb: "get", Group: "apps", Resource: deployments},
		access.Coder("list", provisioners), access.Aggregated("list", templates), access.Aggregated("get", templateLogs))
}

// WorkspaceRights returns the permissions that Workspace needs, and those that make its
// report more complete.
func WorkspaceRights() (needs, uses []access.Right) {
	return []access.Right{access.Aggregated("get", workspaces)}, append(podRights(),
		access.Coder("get", controlPlanes), access.Coder("list", controlPlanes), access.Coder("list", provisioners),
		access.Aggregated("get", templates), access.Aggregated("get", workspaceLogs), access.Aggregated("get", templateLogs))
}

// podRights returns the permissions to find out why pods do not run.
func podRights() []access.Right {
	return []access.Right{
		{Verb: "list", Resource: pods}, {Verb: "get", Resource: podLogs}, {Verb: "list", Resource: events},
		{Verb: "list", Group: "apps", Resource: replicaSets},
	}
}
