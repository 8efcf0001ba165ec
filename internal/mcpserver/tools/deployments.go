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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

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
	return describeDeployment(d), nil
}

func readDeployment(ctx context.Context, kube *callers.Kube, namespace, name string) (*appsv1.Deployment, error) {
	return readObject(ctx, kube, deploymentResource, namespace, name, &appsv1.Deployment{})
}

func describeDeployment(d *appsv1.Deployment) deploymentStatus {
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
	return status
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
	status := describeService(svc)
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

func describeService(svc *corev1.Service) serviceStatus {
	status := serviceStatus{
		Name: svc.Name, Namespace: svc.Namespace, Type: string(svc.Spec.Type), ClusterIP: svc.Spec.ClusterIP,
		Ports:   make([]servicePort, 0, len(svc.Spec.Ports)),
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
	status.Annotations, status.Truncated = boundedAnnotations(svc.Annotations)
	return status
}

// boundedAnnotations returns the annotations up to maxAnnotations bytes, without the
// last-applied-configuration annotation of kubectl.
func boundedAnnotations(all map[string]string) (kept map[string]string, cut bool) {
	kept = map[string]string{}
	size := 0
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if key == corev1.LastAppliedConfigAnnotation {
			continue
		}
		value := excerpt(all[key])
		if size += len(key) + len(value); size > maxAnnotations {
			return kept, true
		}
		kept[key] = value
	}
	return kept, false
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
			// The API documents that an unknown Ready condition should be interpreted as
			// true.
			target := endpointTarget(&endpoint)
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

func endpointTarget(endpoint *discoveryv1.Endpoint) string {
	if ref := endpoint.TargetRef; ref != nil {
		return ref.Kind + "/" + ref.Namespace + "/" + ref.Name
	}
	return slices.Max(append(slices.Clone(endpoint.Addresses), ""))
}
