package tools

import (
	"cmp"
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const (
	// maxSlices is the maximum number of EndpointSlices that are read; each has up to 100
	// endpoints by default.
	maxSlices = 100
	// maxAnnotations limits the size of the annotations, in bytes. Some tools store a copy
	// of the whole object in an annotation.
	maxAnnotations = 8 << 10
)

func addGetServiceStatus(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "get_service_status", Title: "Service status",
		Description: "Shows a Service and its ready endpoints.",
		Toolset:     toolset.ControlPlanes, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{{Verb: "get", Resource: "services"}},
		Uses:   []callers.Right{{Verb: "list", Group: discoveryv1.GroupName, Resource: "endpointslices"}},
	}, getServiceStatus)
}

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
	if err := toolset.RequireObject(in.Namespace, in.Name); err != nil {
		return serviceStatus{}, err
	}
	svc := &corev1.Service{}
	if err := call.Kube.Get(ctx, client.ObjectKey{Namespace: in.Namespace, Name: in.Name}, svc); err != nil {
		return serviceStatus{}, &toolset.CallError{Verb: "get", Resource: "services", Namespace: in.Namespace, Name: in.Name, Err: err}
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
