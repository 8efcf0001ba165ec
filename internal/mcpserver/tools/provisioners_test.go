package tools

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
