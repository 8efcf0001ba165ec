package tools

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func TestListControlPlanesTellsWhyOneIsNotReady(t *testing.T) {
	cp := newControlPlane("coder")
	cp.Status.ReadyReplicas = 1
	settle(cp, metav1.ConditionFalse, "DatabaseUnreachable", hostile)
	out, err := listControlPlanes(t.Context(), &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, nil, cp)}, listInput{})
	if err != nil {
		t.Fatal(err)
	}
	want := listOutput[controlPlane]{Items: []controlPlane{{
		Name: "coder", Namespace: "coder", Phase: "Pending", Replicas: 2, ReadyReplicas: 1, URL: "http://coder.coder.svc", Version: "v2.30.0",
		Reason: "DatabaseUnreachable", Message: hostileClean,
	}}}
	wantEqual(t, want, out)
}

func TestListControlPlanesIsPaged(t *testing.T) {
	var all []coderv1alpha1.CoderControlPlane
	for i := range 7 {
		all = append(all, *newControlPlane(fmt.Sprint("cp", i)))
	}
	call := &toolset.Call{Kube: fakeKube(t, pagedList(all, func(l client.ObjectList) *[]coderv1alpha1.CoderControlPlane {
		return &l.(*coderv1alpha1.CoderControlPlaneList).Items
	}), nil)}
	pages := everyPage(t, func(cursor string) (listOutput[controlPlane], error) {
		return listControlPlanes(t.Context(), call, listInput{Limit: 3, Cursor: cursor})
	}, func(out listOutput[controlPlane]) string { return out.NextCursor })
	var got []string
	for i, page := range pages {
		if page.Truncated != (i < 2) {
			t.Errorf("page %d says truncated %v", i, page.Truncated)
		}
		for _, item := range page.Items {
			got = append(got, item.Name)
		}
	}
	if diff := cmp.Diff("cp0 cp1 cp2 cp3 cp4 cp5 cp6", strings.Join(got, " ")); diff != "" || len(pages) != 3 {
		t.Errorf("%d pages (-want +got):\n%s", len(pages), diff)
	}
}

func TestGetControlPlaneStatusShowsEverything(t *testing.T) {
	cp := newControlPlane("coder")
	settle(cp, metav1.ConditionFalse, "ImagePullFailed", hostile)
	cp.Generation = 4
	cp.Status.AccessURL, cp.Status.LicenseTier, cp.Status.LicenseExpiresAt = "https://coder.example.com", "premium", &noon
	got, err := getControlPlaneStatus(t.Context(), &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, nil, cp)}, objectInput{"coder", "coder"})
	if err != nil {
		t.Fatal(err)
	}
	want := controlPlaneStatus{
		ObservedGeneration: 3, ReadyReplicas: 2, URL: "http://coder.coder.svc", Phase: "Pending",
		Details: controlPlaneDetails{
			Generation: 4, Image: "ghcr.io/coder/coder:v2.30.0", WantedReplicas: 2, Replicas: 2, Version: "v2.30.0",
			AccessURL: "https://coder.example.com", LicenseTier: "premium", LicenseExpiresAt: noonUTC,
		},
		Conditions: []condition{{
			Type: "Ready", Status: "False", Reason: "ImagePullFailed", Message: hostileClean, ObservedGeneration: 3, LastTransitionTime: noonUTC,
		}},
	}
	wantEqual(t, want, got)
}

func TestListControlPlanePodsShowsTheContainers(t *testing.T) {
	p := newPod("coder", "coder-1")
	p.Spec.NodeName = "node-1"
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &noon,
		InitContainerStatuses: []corev1.ContainerStatus{{
			Name: "init", Ready: true, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: noon}},
		}},
		ContainerStatuses: []corev1.ContainerStatus{
			{
				Name: "coder", RestartCount: 4,
				State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: hostile}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: hostile, FinishedAt: noon}},
			},
			{Name: "sidecar", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		},
	}
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "sidecar"})
	pending := newPod("coder", "coder-2")
	pending.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available"},
	}}
	evicted := newPod("coder", "coder-3")
	evicted.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: hostile}
	kube := fakeKube(t, interceptor.Funcs{}, nil, p, pending, evicted, newPod("other", "other-1"))
	got, err := listControlPlanePods(t.Context(), &toolset.Call{Kube: kube}, listControlPlanePodsInput{Namespace: "coder", Name: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	want := listOutput[Pod]{Items: []Pod{
		{
			Name: "coder-1", Namespace: "coder", Phase: "Running", NodeName: "node-1", ReadyContainers: 1, TotalContainers: 2, StartTime: noonUTC,
			Containers: []PodContainer{
				{Name: "init", Init: true, Ready: true, State: "terminated", Last: &Termination{Reason: "Completed", FinishedAt: noonUTC}},
				{
					Name: "coder", Restarts: 4, State: "waiting", Reason: "CrashLoopBackOff", Message: hostileMessage,
					Last: &Termination{ExitCode: 1, Reason: "Error", Message: hostileMessage, FinishedAt: noonUTC},
				},
				{Name: "sidecar", Ready: true, State: "running"},
			},
		},
		{Name: "coder-2", Namespace: "coder", Phase: "Pending", TotalContainers: 1, Reason: "Unschedulable", Message: "0/1 nodes are available", Containers: []PodContainer{}},
		{Name: "coder-3", Namespace: "coder", Phase: "Failed", TotalContainers: 1, Reason: "Evicted", Message: hostileMessage, Containers: []PodContainer{}},
	}}
	wantEqual(t, want, got)
}

func TestListControlPlanePodsIsPagedByTheAPI(t *testing.T) {
	for limit, want := range map[int]int64{0: 100, 7: 7, 9999: 500} {
		kube := fakeKube(t, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			var o client.ListOptions
			o.ApplyOptions(opts)
			if o.Limit != want || o.Namespace != "coder" ||
				o.LabelSelector.String() != "app.kubernetes.io/instance=coder,app.kubernetes.io/managed-by=coder-k8s,app.kubernetes.io/name=coder-control-plane" {
				t.Errorf("the API is asked for %d of %q in %q", o.Limit, o.LabelSelector, o.Namespace)
			}
			list.(*corev1.PodList).Items = []corev1.Pod{*newPod("coder", "coder-1")}
			list.SetContinue("more")
			return nil
		}}, nil)
		out, err := listControlPlanePods(t.Context(), &toolset.Call{Kube: kube}, listControlPlanePodsInput{Namespace: "coder", Name: "coder", Limit: limit})
		if err != nil || !out.Truncated || out.NextCursor == "" {
			t.Errorf("limit %d: %+v, %v", limit, out, err)
		}
	}
}

func TestListControlPlanePodsOfAControlPlaneWithoutPods(t *testing.T) {
	call := &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, nil, newControlPlane("coder"))}
	out, err := listControlPlanePods(t.Context(), call, listControlPlanePodsInput{Namespace: "coder", Name: "coder"})
	if err != nil || len(out.Items) != 0 {
		t.Errorf("%+v, %v", out, err)
	}
	_, err = listControlPlanePods(t.Context(), call, listControlPlanePodsInput{Namespace: "coder", Name: "other"})
	if !apierrors.IsNotFound(err) {
		t.Errorf("pods of what does not exist: %v", err)
	}
	_, err = listControlPlanePods(t.Context(), call, listControlPlanePodsInput{Namespace: "coder", Name: "a,b=c"})
	wantError(t, err, "name is not a valid name of a control plane")

	// A caller who may list pods but not read control planes gets the list.
	call.Kube = fakeKube(t, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return denied("get")
	}}, nil)
	if out, err := listControlPlanePods(t.Context(), call, listControlPlanePodsInput{Namespace: "coder", Name: "other"}); err != nil || len(out.Items) != 0 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestGetDeploymentStatusShowsTheRollout(t *testing.T) {
	d := newDeployment(newControlPlane("coder"))
	d.Spec.Template.Annotations = map[string]string{restartedAtAnnotation: noonUTC}
	d.Status.UnavailableReplicas = 1
	d.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: "Progressing", Status: "True", Reason: "ReplicaSetUpdated", Message: hostile, LastUpdateTime: noon, LastTransitionTime: noon},
		{Type: "Available", Status: "False"},
	}
	got, err := getDeploymentStatus(t.Context(), &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, nil, d)}, objectInput{"coder", "coder"})
	if err != nil {
		t.Fatal(err)
	}
	want := deploymentStatus{
		Name: "coder", Namespace: "coder", Replicas: 2, ReadyReplicas: 2,
		UpdatedReplicas: 2, AvailableReplicas: 2, UnavailableReplicas: 1, ObservedGeneration: 5,
		Details: deploymentDetails{ControlPlane: "coder", Generation: 5, Images: []string{"ghcr.io/coder/coder:v2.30.0"}, RestartedAt: noonUTC},
		Conditions: []condition{
			{Type: "Available", Status: "False"},
			{Type: "Progressing", Status: "True", Reason: "ReplicaSetUpdated", Message: hostileClean, LastUpdateTime: noonUTC, LastTransitionTime: noonUTC},
		},
	}
	wantEqual(t, want, got)
}

func newService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "coder", Annotations: map[string]string{
			"note": hostile, "kubectl.kubernetes.io/last-applied-configuration": "{}",
		}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.7",
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http"), NodePort: 30080, Protocol: corev1.ProtocolTCP}},
		},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {Hostname: "lb.example.com"}}}},
	}
}

func endpoints(name string, ready *bool, pods ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "coder"}}}
	for _, p := range pods {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{p}, Conditions: discoveryv1.EndpointConditions{Ready: ready}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "coder", Name: p},
		})
	}
	return s
}

func TestGetServiceStatusShowsWhereItLeads(t *testing.T) {
	other := endpoints("other", nil, "x")
	other.Labels[discoveryv1.LabelServiceName] = "other"
	kube := fakeKube(t, interceptor.Funcs{}, nil, newService(), other,
		endpoints("v4", ptr.To(true), "a"), endpoints("v6", ptr.To(false), "a"), endpoints("unknown", nil, "b"), endpoints("late", ptr.To(false), "c"))
	got, err := getServiceStatus(t.Context(), &toolset.Call{Kube: kube}, objectInput{"coder", "coder"})
	if err != nil {
		t.Fatal(err)
	}
	want := serviceStatus{
		Name: "coder", Namespace: "coder", Type: "LoadBalancer", ClusterIP: "10.96.0.7",
		Ports:       []servicePort{{Name: "http", Port: 80, TargetPort: "http", NodePort: 30080, Protocol: "TCP"}},
		Annotations: map[string]string{"note": hostileClean},
		Traffic:     serviceTraffic{LoadBalancer: []string{"192.0.2.1", "lb.example.com"}, ReadyEndpoints: ptr.To(2), NotReadyEndpoints: ptr.To(1)},
	}
	wantEqual(t, want, got)
}

func TestGetServiceStatusWithoutTheRightToEndpoints(t *testing.T) {
	kube := fakeKube(t, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return denied("list")
	}}, nil, newService())
	got, err := getServiceStatus(t.Context(), &toolset.Call{Kube: kube}, objectInput{"coder", "coder"})
	if err != nil || got.Traffic.ReadyEndpoints != nil || !strings.Contains(got.Traffic.Gap, "may not list endpointslices.discovery.k8s.io") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestGetServiceStatusBoundsAnnotations(t *testing.T) {
	svc := newService()
	for i := range 20 {
		svc.Annotations[fmt.Sprintf("long-%02d", i)] = strings.Repeat("a ", 5000)
	}
	got, err := getServiceStatus(t.Context(), &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, nil, svc)}, objectInput{"coder", "coder"})
	if err != nil || !got.Truncated || len(got.Annotations) == 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	size := 0
	for key, value := range got.Annotations {
		size += len(key) + len(value)
	}
	if size > maxAnnotations {
		t.Errorf("the annotations have %d bytes", size)
	}
}

// The pods of a Deployment that was adopted from a Helm release keep its labels.
func TestPodsOfAControlPlaneThatWasTakenOver(t *testing.T) {
	cp := newControlPlane("coder")
	cp.Status.Selector = "app.kubernetes.io/instance=release,app.kubernetes.io/name=coder"
	adopted := newPod("coder", "adopted")
	adopted.Labels = map[string]string{"app.kubernetes.io/name": "coder", "app.kubernetes.io/instance": "release"}
	foreign := newPod("other", "foreign")
	kube := fakeKube(t, interceptor.Funcs{}, nil, cp, adopted, foreign)
	out, err := listControlPlanePods(t.Context(), &toolset.Call{Kube: kube}, listControlPlanePodsInput{Namespace: "coder", Name: "coder"})
	if err != nil || len(out.Items) != 1 || out.Items[0].Name != "adopted" {
		t.Errorf("pods %+v, %v; want the one that was taken over", out.Items, err)
	}
}

func unready() coderv1alpha1.WorkloadStatus {
	return coderv1alpha1.WorkloadStatus{
		Phase: coderv1alpha1.PhasePending, Replicas: 2, ReadyReplicas: 1,
		Conditions: []metav1.Condition{{Type: "Ready", Status: "False", Reason: "CrashLooping", Message: hostile}},
	}
}

func TestListProvisionersTellsWhyTheyAreNotReady(t *testing.T) {
	inside := &coderv1alpha1.CoderProvisioner{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "a"}}
	inside.Spec.ControlPlaneRef = &coderv1alpha1.ControlPlaneReference{Name: "coder"}
	inside.Spec.Tags = map[string]string{"scope": "organization"}
	inside.Status = coderv1alpha1.CoderProvisionerStatus{WorkloadStatus: unready(), OrganizationName: "acme"}
	outside := &coderv1alpha1.CoderProvisioner{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "b"}}
	outside.Spec.URL = "https://u:p@coder.example.com"
	got, err := listProvisioners(t.Context(), &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, nil, inside, outside)}, listInput{Namespace: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	want := listOutput[provisioner]{Items: []provisioner{
		{
			Name: "a", Namespace: "coder", ControlPlane: "coder", Organization: "acme", Tags: map[string]string{"scope": "organization"},
			Phase: "Pending", Replicas: 2, ReadyReplicas: 1, Reason: "CrashLooping", Message: hostileClean,
		},
		{Name: "b", Namespace: "coder", URL: "https://u:[redacted]@coder.example.com"},
	}}
	wantEqual(t, want, got)
}

func TestListWorkspaceProxiesTellsWhyTheyAreNotReady(t *testing.T) {
	inside := &coderv1alpha1.CoderWorkspaceProxy{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "a"}}
	inside.Spec.ControlPlaneRef = &coderv1alpha1.ControlPlaneReference{Name: "coder"}
	inside.Status = coderv1alpha1.CoderWorkspaceProxyStatus{WorkloadStatus: unready(), URL: "http://a.coder.svc", Registered: true, ProxyName: "berlin"}
	outside := &coderv1alpha1.CoderWorkspaceProxy{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "b"}}
	outside.Spec.Bootstrap.CoderURL = "https://coder.example.com"
	got, err := listWorkspaceProxies(t.Context(), &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, nil, inside, outside)}, listInput{})
	if err != nil {
		t.Fatal(err)
	}
	want := listOutput[workspaceProxy]{Items: []workspaceProxy{
		{
			Name: "a", Namespace: "coder", ControlPlane: "coder", ProxyName: "berlin", Registered: true, URL: "http://a.coder.svc",
			Phase: "Pending", Replicas: 2, ReadyReplicas: 1, Reason: "CrashLooping", Message: hostileClean,
		},
		{Name: "b", Namespace: "coder", Primary: "https://coder.example.com"},
	}}
	wantEqual(t, want, got)
}
