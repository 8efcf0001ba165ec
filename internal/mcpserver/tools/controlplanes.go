package tools

import (
	"cmp"
	"context"

	discoveryv1 "k8s.io/api/discovery/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const (
	// coderGroup is the API group of the operator's custom resources.
	coderGroup = "coder.com"

	controlPlanePlural   = "codercontrolplanes"
	controlPlaneResource = controlPlanePlural + "." + coderGroup
	provisionerPlural    = "coderprovisioners"
	workspaceProxyPlural = "coderworkspaceproxies"
)

func addControlPlanes(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "list_control_planes", Title: "Control planes",
		Description: "Lists Coder deployments and why one is not ready.",
		Toolset:     toolset.ControlPlanes, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{callers.CoderRight("list", controlPlanePlural)},
	}, listControlPlanes)
	toolset.Add(s, toolset.Definition{
		Name: "get_control_plane_status", Title: "Control plane status",
		Description: "Shows conditions, image, version, addresses and license.",
		Toolset:     toolset.ControlPlanes, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{callers.CoderRight("get", controlPlanePlural)},
	}, getControlPlaneStatus)
	toolset.Add(s, toolset.Definition{
		Name: "list_control_plane_pods", Title: "Control plane pods",
		Description: "Lists pods: why containers wait and how they ended.",
		Toolset:     toolset.ControlPlanes, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{{Verb: "list", Resource: "pods"}},
		Uses:   []callers.Right{callers.CoderRight("get", controlPlanePlural)},
	}, listControlPlanePods)
	toolset.Add(s, toolset.Definition{
		Name: "get_control_plane_deployment_status", Title: "Control plane rollout",
		Description: "Shows how far its Deployment is rolled out.",
		Toolset:     toolset.ControlPlanes, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{deploymentRight("get")},
	}, getDeploymentStatus)
	toolset.Add(s, toolset.Definition{
		Name: "get_service_status", Title: "Service status",
		Description: "Shows a Service and its ready endpoints.",
		Toolset:     toolset.ControlPlanes, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{{Verb: "get", Resource: "services"}},
		Uses:   []callers.Right{{Verb: "list", Group: discoveryv1.GroupName, Resource: "endpointslices"}},
	}, getServiceStatus)
	toolset.Add(s, toolset.Definition{
		Name: "change_control_plane", Title: "Change a control plane",
		Description: "Restarts or scales it, or sets its image.",
		Toolset:     toolset.ControlPlanes, Effect: toolset.Destroys,
		Rights: []callers.Right{callers.CoderRight("get", controlPlanePlural)},
		OneOf:  []callers.Right{callers.CoderRight("patch", controlPlanePlural), callers.CoderRight("patch", scaleResource), deploymentRight("patch")},
		Uses:   []callers.Right{callers.CoderRight("watch", controlPlanePlural), deploymentRight("get"), deploymentRight("watch")},
	}, changeControlPlane)
	toolset.Add(s, toolset.Definition{
		Name: "list_provisioners", Title: "Provisioners",
		Description: "Lists external provisioners and why one is not ready.",
		Toolset:     toolset.ControlPlanes, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{callers.CoderRight("list", provisionerPlural)},
	}, listProvisioners)
	toolset.Add(s, toolset.Definition{
		Name: "list_workspace_proxies", Title: "Workspace proxies",
		Description: "Lists workspace proxies and why one is not ready.",
		Toolset:     toolset.ControlPlanes, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{callers.CoderRight("list", workspaceProxyPlural)},
	}, listWorkspaceProxies)
}

func readControlPlane(ctx context.Context, kube *callers.Kube, namespace, name string) (*coderv1alpha1.CoderControlPlane, error) {
	return readObject(ctx, kube, controlPlaneResource, namespace, name, &coderv1alpha1.CoderControlPlane{})
}

// controlPlane is the list entry of a control plane. Reason and Message are those of
// condition Ready.
type controlPlane struct {
	Name          string `json:"name"`
	Namespace     string `json:"namespace"`
	Phase         string `json:"phase"`
	Replicas      int32  `json:"replicas"`
	ReadyReplicas int32  `json:"readyReplicas"`
	URL           string `json:"url"`
	Version       string `json:"version,omitempty"`
	Reason        string `json:"reason,omitempty"`
	Message       string `json:"message,omitempty"`
}

func listControlPlanes(ctx context.Context, call *toolset.Call, in listInput) (listOutput[controlPlane], error) {
	list := &coderv1alpha1.CoderControlPlaneList{}
	return readPage(ctx, call, in, controlPlaneResource, list, func() []coderv1alpha1.CoderControlPlane { return list.Items }, describeControlPlane)
}

func describeControlPlane(cp *coderv1alpha1.CoderControlPlane) controlPlane {
	reason, message := readiness(cp.Status.Conditions)
	return controlPlane{
		Name: cp.Name, Namespace: cp.Namespace,
		Phase: string(cp.Status.Phase), Replicas: cp.Status.Replicas, ReadyReplicas: cp.Status.ReadyReplicas,
		URL: cp.Status.URL, Version: excerpt(cp.Status.Version), Reason: reason, Message: message,
	}
}

// controlPlaneStatus describes generation ObservedGeneration. If Details.Generation is
// larger, the operator has not reconciled the newest spec yet.
type controlPlaneStatus struct {
	ObservedGeneration int64               `json:"observedGeneration"`
	ReadyReplicas      int32               `json:"readyReplicas"`
	URL                string              `json:"url"`
	Phase              string              `json:"phase"`
	Conditions         []condition         `json:"conditions"`
	Details            controlPlaneDetails `json:"details"`
}

type controlPlaneDetails struct {
	Generation       int64  `json:"generation"`
	Image            string `json:"image"`
	WantedReplicas   int32  `json:"wantedReplicas"`
	Replicas         int32  `json:"replicas"`
	Version          string `json:"version,omitempty"`
	AccessURL        string `json:"accessURL,omitempty"`
	LicenseTier      string `json:"licenseTier,omitempty"`
	LicenseExpiresAt string `json:"licenseExpiresAt,omitempty"`
	DeletingSince    string `json:"deletingSince,omitempty"`
}

func getControlPlaneStatus(ctx context.Context, call *toolset.Call, in objectInput) (controlPlaneStatus, error) {
	cp, err := readControlPlane(ctx, call.Kube, in.Namespace, in.Name)
	if err != nil {
		return controlPlaneStatus{}, err
	}
	return controlPlaneStatus{
		ObservedGeneration: cp.Status.ObservedGeneration, ReadyReplicas: cp.Status.ReadyReplicas,
		URL: cp.Status.URL, Phase: string(cp.Status.Phase), Conditions: describeConditions(cp.Status.Conditions),
		Details: controlPlaneDetails{
			Generation: cp.Generation, Image: cp.Spec.Image, WantedReplicas: wantedReplicas(cp), Replicas: cp.Status.Replicas,
			Version: excerpt(cp.Status.Version), AccessURL: cp.Status.AccessURL,
			LicenseTier: cp.Status.LicenseTier, LicenseExpiresAt: timestampOf(cp.Status.LicenseExpiresAt),
			DeletingSince: timestampOf(cp.DeletionTimestamp),
		},
	}, nil
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
	return readPage(ctx, call, in, provisionerPlural+"."+coderGroup, list, func() []coderv1alpha1.CoderProvisioner { return list.Items }, describeProvisioner)
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
	return readPage(ctx, call, in, workspaceProxyPlural+"."+coderGroup, list, func() []coderv1alpha1.CoderWorkspaceProxy { return list.Items }, describeWorkspaceProxy)
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
