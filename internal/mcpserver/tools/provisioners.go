package tools

import (
	"cmp"
	"context"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const provisionerPlural = "coderprovisioners"

func addProvisioners(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "list_provisioners", Title: "Provisioners",
		Description: "Lists external provisioners and why one is not ready.",
		Toolset:     toolset.ControlPlanes, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{callers.CoderRight("list", provisionerPlural)},
	}, listProvisioners)
}

// provisioner is the list entry of a CoderProvisioner. Its daemons connect to a control
// plane in their namespace, or to the Coder deployment at URL.
type provisioner struct {
	Name          string            `json:"name"`
	Namespace     string            `json:"namespace"`
	ControlPlane  string            `json:"controlPlane,omitempty"`
	URL           string            `json:"url,omitempty"`
	Organization  string            `json:"organization,omitempty"`
	Tags          map[string]string `json:"tags,omitempty"`
	Phase         string            `json:"phase"`
	Replicas      int32             `json:"replicas"`
	ReadyReplicas int32             `json:"readyReplicas"`
	Reason        string            `json:"reason,omitempty"`
	Message       string            `json:"message,omitempty"`
}

func listProvisioners(ctx context.Context, call *toolset.Call, in listInput) (listOutput[provisioner], error) {
	list := &coderv1alpha1.CoderProvisionerList{}
	return readPage(ctx, call, in, provisionerPlural, list, func() []coderv1alpha1.CoderProvisioner { return list.Items }, describeProvisioner)
}

func describeProvisioner(p *coderv1alpha1.CoderProvisioner) provisioner {
	reason, message := readiness(p.Status.Conditions)
	d := provisioner{
		Name: p.Name, Namespace: p.Namespace, URL: excerpt(p.Spec.URL), Organization: p.Status.OrganizationName, Tags: p.Spec.Tags,
		Phase: string(p.Status.Phase), Replicas: p.Status.Replicas, ReadyReplicas: p.Status.ReadyReplicas, Reason: reason, Message: message,
	}
	if ref := p.Spec.ControlPlaneRef; ref != nil {
		d.ControlPlane = ref.Name
	}
	return d
}

const workspaceProxyPlural = "coderworkspaceproxies"

func addWorkspaceProxies(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "list_workspace_proxies", Title: "Workspace proxies",
		Description: "Lists workspace proxies and why one is not ready.",
		Toolset:     toolset.ControlPlanes, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{callers.CoderRight("list", workspaceProxyPlural)},
	}, listWorkspaceProxies)
}

// workspaceProxy is the list entry of a workspace proxy. Primary is the address of the
// Coder deployment if the proxy does not reference a control plane in its namespace.
type workspaceProxy struct {
	Name          string `json:"name"`
	Namespace     string `json:"namespace"`
	ControlPlane  string `json:"controlPlane,omitempty"`
	Primary       string `json:"primary,omitempty"`
	ProxyName     string `json:"proxyName,omitempty"`
	Registered    bool   `json:"registered"`
	URL           string `json:"url,omitempty"`
	Phase         string `json:"phase"`
	Replicas      int32  `json:"replicas"`
	ReadyReplicas int32  `json:"readyReplicas"`
	Reason        string `json:"reason,omitempty"`
	Message       string `json:"message,omitempty"`
}

func listWorkspaceProxies(ctx context.Context, call *toolset.Call, in listInput) (listOutput[workspaceProxy], error) {
	list := &coderv1alpha1.CoderWorkspaceProxyList{}
	return readPage(ctx, call, in, workspaceProxyPlural, list, func() []coderv1alpha1.CoderWorkspaceProxy { return list.Items }, describeWorkspaceProxy)
}

func describeWorkspaceProxy(p *coderv1alpha1.CoderWorkspaceProxy) workspaceProxy {
	reason, message := readiness(p.Status.Conditions)
	d := workspaceProxy{
		Name: p.Name, Namespace: p.Namespace, ProxyName: p.Status.ProxyName, Registered: p.Status.Registered, URL: p.Status.URL,
		Phase: string(p.Status.Phase), Replicas: p.Status.Replicas, ReadyReplicas: p.Status.ReadyReplicas, Reason: reason, Message: message,
	}
	if ref := p.Spec.ControlPlaneRef; ref != nil {
		d.ControlPlane = ref.Name
		return d
	}
	d.Primary = excerpt(cmp.Or(p.Spec.PrimaryAccessURL, p.Spec.Bootstrap.CoderURL))
	return d
}
