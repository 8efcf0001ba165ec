package tools

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	return readPage(ctx, call, in, controlPlaneResource, list, &list.Items, describeControlPlane)
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
	return readPage(ctx, call, in, provisionerPlural+"."+coderGroup, list, &list.Items, func(p *coderv1alpha1.CoderProvisioner) provisioner {
		reason, message := readiness(p.Status.Conditions)
		d := provisioner{
			Name: p.Name, Namespace: p.Namespace, URL: excerpt(p.Spec.URL), Organization: p.Status.OrganizationName, Tags: p.Spec.Tags,
			Phase: string(p.Status.Phase), Replicas: p.Status.Replicas, ReadyReplicas: p.Status.ReadyReplicas, Reason: reason, Message: message,
		}
		if ref := p.Spec.ControlPlaneRef; ref != nil {
			d.ControlPlane = ref.Name
		}
		return d
	})
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
	return readPage(ctx, call, in, workspaceProxyPlural+"."+coderGroup, list, &list.Items, func(p *coderv1alpha1.CoderWorkspaceProxy) workspaceProxy {
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
	})
}

const (
	defaultPods = 100
	maxPods     = 500
)

type listControlPlanePodsInput struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Limit     int    `json:"limit,omitempty" default:"100" maximum:"500"`
	Cursor    string `json:"cursor,omitempty"`
}

// Pod is the list entry of a pod. Reason and Message describe a problem of the whole pod,
// for example that it cannot be scheduled or was evicted.
type Pod struct {
	Name            string         `json:"name"`
	Namespace       string         `json:"namespace"`
	Phase           string         `json:"phase"`
	NodeName        string         `json:"nodeName,omitempty"`
	ReadyContainers int            `json:"readyContainers"`
	TotalContainers int            `json:"totalContainers"`
	StartTime       string         `json:"startTime,omitempty"`
	DeletingSince   string         `json:"deletingSince,omitempty"`
	Reason          string         `json:"reason,omitempty"`
	Message         string         `json:"message,omitempty"`
	Containers      []PodContainer `json:"containers"`
}

// PodContainer is a container of a pod. State is waiting, running or terminated.
type PodContainer struct {
	Name     string       `json:"name"`
	Image    string       `json:"image,omitempty"`
	Init     bool         `json:"init,omitempty"`
	Ready    bool         `json:"ready"`
	Restarts int32        `json:"restarts"`
	State    string       `json:"state"`
	Reason   string       `json:"reason,omitempty"`
	Message  string       `json:"message,omitempty"`
	Last     *Termination `json:"lastTermination,omitempty"`
}

// Termination describes how a container ended.
type Termination struct {
	ExitCode   int32  `json:"exitCode"`
	Reason     string `json:"reason,omitempty"`
	Message    string `json:"message,omitempty"`
	FinishedAt string `json:"finishedAt,omitempty"`
}

func listControlPlanePods(ctx context.Context, call *toolset.Call, in listControlPlanePodsInput) (listOutput[Pod], error) {
	if err := toolset.RequireObject(in.Namespace, in.Name); err != nil {
		return listOutput[Pod]{}, err
	}
	page, err := toolset.NewPageWithin(in.Limit, in.Cursor, defaultPods, maxPods)
	if err != nil {
		return listOutput[Pod]{}, err
	}
	// The pods of a Deployment that was adopted have other labels. A caller who may not read the
	// control plane gets the pods with the usual ones.
	podLabels := coderv1alpha1.ControlPlaneLabels(in.Name)
	cp, cpErr := readControlPlane(ctx, call.Kube, in.Namespace, in.Name)
	if cpErr == nil {
		podLabels = cp.PodLabels()
	}
	options := page.Options(in.Namespace)
	options.LabelSelector, err = labels.ValidatedSelectorFromSet(podLabels)
	if err != nil {
		return listOutput[Pod]{}, toolset.UsageError("name is not a valid name of a control plane; list_control_planes shows all names")
	}
	var list corev1.PodList
	if err := call.Kube.List(ctx, &list, options); err != nil {
		return listOutput[Pod]{}, callError("list", "pods", in.Namespace, "", err)
	}
	if len(list.Items) == 0 && apierrors.IsNotFound(cpErr) {
		return listOutput[Pod]{}, cpErr
	}
	return onePage(page, list.Items, list.Continue, DescribePod), nil
}

// DescribePod describes a pod for an answer.
func DescribePod(p *corev1.Pod) Pod {
	d := Pod{
		Name: p.Name, Namespace: p.Namespace, Phase: string(p.Status.Phase), NodeName: p.Spec.NodeName,
		TotalContainers: len(p.Spec.Containers), StartTime: timestampOf(p.Status.StartTime), DeletingSince: timestampOf(p.DeletionTimestamp),
		Containers: make([]PodContainer, 0, len(p.Status.InitContainerStatuses)+len(p.Status.ContainerStatuses)),
	}
	if p.Status.Reason != "" {
		d.Reason, d.Message = messageExcerpt(p.Status.Reason), messageExcerpt(p.Status.Message)
	}
	for _, c := range p.Status.Conditions {
		if p.Status.Reason == "" && c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			d.Reason, d.Message = messageExcerpt(c.Reason), messageExcerpt(c.Message)
			break
		}
	}
	for i := range p.Status.InitContainerStatuses {
		c := describeContainer(&p.Status.InitContainerStatuses[i])
		c.Init = true
		d.Containers = append(d.Containers, c)
	}
	for i := range p.Status.ContainerStatuses {
		c := describeContainer(&p.Status.ContainerStatuses[i])
		d.Containers = append(d.Containers, c)
		if c.Ready {
			d.ReadyContainers++
		}
	}
	return d
}

func describeContainer(s *corev1.ContainerStatus) PodContainer {
	c := PodContainer{Name: s.Name, Image: s.Image, Ready: s.Ready, Restarts: s.RestartCount}
	switch {
	case s.State.Running != nil:
		c.State = "running"
	case s.State.Terminated != nil:
		c.State = "terminated"
	default:
		c.State = "waiting"
		if waiting := s.State.Waiting; waiting != nil {
			c.Reason, c.Message = messageExcerpt(waiting.Reason), messageExcerpt(waiting.Message)
		}
	}
	if ended := cmp.Or(s.State.Terminated, s.LastTerminationState.Terminated); ended != nil {
		c.Last = &Termination{
			ExitCode: ended.ExitCode, Reason: messageExcerpt(ended.Reason), Message: messageExcerpt(ended.Message), FinishedAt: timestampOf(&ended.FinishedAt),
		}
	}
	return c
}

const deploymentResource = "deployments.apps"

func deploymentRight(verb string) callers.Right {
	return callers.Right{Verb: verb, Group: appsv1.GroupName, Resource: "deployments"}
}

// deploymentStatus is the status of the Deployment that has the same name as the control
// plane.
type deploymentStatus struct {
	Name                string            `json:"name"`
	Namespace           string            `json:"namespace"`
	Replicas            int32             `json:"replicas"`
	ReadyReplicas       int32             `json:"readyReplicas"`
	UpdatedReplicas     int32             `json:"updatedReplicas"`
	AvailableReplicas   int32             `json:"availableReplicas"`
	UnavailableReplicas int32             `json:"unavailableReplicas"`
	ObservedGeneration  int64             `json:"observedGeneration"`
	Conditions          []condition       `json:"conditions"`
	Details             deploymentDetails `json:"details"`
}

// deploymentDetails names the control plane that controls the Deployment, if any.
type deploymentDetails struct {
	ControlPlane string   `json:"controlPlane,omitempty"`
	Generation   int64    `json:"generation"`
	Images       []string `json:"images"`
	RestartedAt  string   `json:"restartedAt,omitempty"`
}

func getDeploymentStatus(ctx context.Context, call *toolset.Call, in objectInput) (deploymentStatus, error) {
	d, err := readDeployment(ctx, call.Kube, in.Namespace, in.Name)
	if err != nil {
		return deploymentStatus{}, err
	}
	status := deploymentStatus{
		Name: d.Name, Namespace: d.Namespace, Replicas: ptr.Deref(d.Spec.Replicas, 0),
		ReadyReplicas: d.Status.ReadyReplicas, UpdatedReplicas: d.Status.UpdatedReplicas,
		AvailableReplicas: d.Status.AvailableReplicas, UnavailableReplicas: d.Status.UnavailableReplicas,
		ObservedGeneration: d.Status.ObservedGeneration, Conditions: make([]condition, 0, len(d.Status.Conditions)),
		Details: deploymentDetails{
			Generation: d.Generation, Images: make([]string, 0, len(d.Spec.Template.Spec.Containers)),
			RestartedAt: excerpt(d.Spec.Template.Annotations[restartedAtAnnotation]),
		},
	}
	if owner := metav1.GetControllerOf(d); owner != nil && owner.Kind == "CoderControlPlane" {
		status.Details.ControlPlane = owner.Name
	}
	for i := range d.Spec.Template.Spec.Containers {
		status.Details.Images = append(status.Details.Images, d.Spec.Template.Spec.Containers[i].Image)
	}
	for i := range d.Status.Conditions {
		c := &d.Status.Conditions[i]
		status.Conditions = append(status.Conditions, condition{
			Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: excerpt(c.Message),
			LastUpdateTime: timestampOf(&c.LastUpdateTime), LastTransitionTime: timestampOf(&c.LastTransitionTime),
		})
	}
	slices.SortFunc(status.Conditions, func(a, b condition) int { return strings.Compare(a.Type, b.Type) })
	return status, nil
}

func readDeployment(ctx context.Context, kube *callers.Kube, namespace, name string) (*appsv1.Deployment, error) {
	return readObject(ctx, kube, deploymentResource, namespace, name, &appsv1.Deployment{})
}

const (
	// maxSlices is the maximum number of EndpointSlices that are read; each has up to 100
	// endpoints by default.
	maxSlices = 100
	// maxAnnotations limits the size of the annotations, in bytes. Some tools store a copy
	// of the whole object in an annotation.
	maxAnnotations = 8 << 10
)

// serviceStatus is the status of a Service. Truncated reports that some annotations were
// left out, or that not all endpoints were counted.
type serviceStatus struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Type        string            `json:"type"`
	ClusterIP   string            `json:"clusterIP,omitempty"`
	Ports       []servicePort     `json:"ports"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Truncated   bool              `json:"truncated"`
	Traffic     serviceTraffic    `json:"traffic"`
}

// serviceTraffic contains the addresses and the endpoints of the Service. Gap is set if the
// endpoints could not be counted, and says why.
type serviceTraffic struct {
	LoadBalancer      []string `json:"loadBalancer"`
	ExternalName      string   `json:"externalName,omitempty"`
	ReadyEndpoints    *int     `json:"readyEndpoints,omitempty"`
	NotReadyEndpoints *int     `json:"notReadyEndpoints,omitempty"`
	Gap               string   `json:"gap,omitempty"`
}

type servicePort struct {
	Name       string `json:"name,omitempty"`
	Port       int32  `json:"port"`
	TargetPort string `json:"targetPort,omitempty"`
	NodePort   int32  `json:"nodePort,omitempty"`
	Protocol   string `json:"protocol,omitempty"`
}

func getServiceStatus(ctx context.Context, call *toolset.Call, in objectInput) (serviceStatus, error) {
	svc, err := readObject(ctx, call.Kube, "services", in.Namespace, in.Name, &corev1.Service{})
	if err != nil {
		return serviceStatus{}, err
	}
	status := serviceStatus{
		Name: svc.Name, Namespace: svc.Namespace, Type: string(svc.Spec.Type), ClusterIP: svc.Spec.ClusterIP,
		Ports: make([]servicePort, 0, len(svc.Spec.Ports)), Annotations: map[string]string{},
		Traffic: serviceTraffic{LoadBalancer: make([]string, 0, len(svc.Status.LoadBalancer.Ingress)), ExternalName: svc.Spec.ExternalName},
	}
	for _, p := range svc.Spec.Ports {
		status.Ports = append(status.Ports, servicePort{
			Name: p.Name, Port: p.Port, TargetPort: p.TargetPort.String(), NodePort: p.NodePort, Protocol: string(p.Protocol),
		})
	}
	for _, ingress := range svc.Status.LoadBalancer.Ingress {
		status.Traffic.LoadBalancer = append(status.Traffic.LoadBalancer, cmp.Or(ingress.Hostname, ingress.IP))
	}
	size := 0
	for _, key := range slices.Sorted(maps.Keys(svc.Annotations)) {
		if key == corev1.LastAppliedConfigAnnotation {
			continue
		}
		value := excerpt(svc.Annotations[key])
		if size += len(key) + len(value); size > maxAnnotations {
			status.Truncated = true
			break
		}
		status.Annotations[key] = value
	}
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return status, nil
	}
	ready, notReady, more, failed := countEndpoints(ctx, call.Kube, svc)
	if failed != nil {
		status.Traffic.Gap = toolset.Gap(ctx, failed)
		return status, nil
	}
	status.Traffic.ReadyEndpoints, status.Traffic.NotReadyEndpoints = &ready, &notReady
	status.Truncated = status.Truncated || more
	return status, nil
}

// countEndpoints counts each target of the Service once, even if it has several addresses.
// more reports that the list was incomplete.
func countEndpoints(ctx context.Context, kube *callers.Kube, svc *corev1.Service) (ready, notReady int, more bool, failed *toolset.CallError) {
	var list discoveryv1.EndpointSliceList
	err := kube.List(ctx, &list, &client.ListOptions{
		Namespace: svc.Namespace, Limit: maxSlices,
		LabelSelector: labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: svc.Name}),
	})
	if err != nil {
		return 0, 0, false, &toolset.CallError{Verb: "list", Resource: "endpointslices.discovery.k8s.io", Namespace: svc.Namespace, Err: err}
	}
	readyByTarget := map[string]bool{}
	for i := range list.Items {
		for _, endpoint := range list.Items[i].Endpoints {
			target := slices.Max(append(slices.Clone(endpoint.Addresses), ""))
			if ref := endpoint.TargetRef; ref != nil {
				target = ref.Kind + "/" + ref.Namespace + "/" + ref.Name
			}
			// The API documents that an unknown Ready condition should be interpreted as
			// true.
			readyByTarget[target] = readyByTarget[target] || ptr.Deref(endpoint.Conditions.Ready, true)
		}
	}
	for _, isReady := range readyByTarget {
		if isReady {
			ready++
		} else {
			notReady++
		}
	}
	return ready, notReady, list.Continue != "", nil
}
