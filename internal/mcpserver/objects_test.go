package mcpserver

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

func workspaceObject() *aggregationv1alpha1.CoderWorkspace {
	return &aggregationv1alpha1.CoderWorkspace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "aggregation.coder.com/v1alpha1", Kind: "CoderWorkspace"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "default.alice.dev", ResourceVersion: "1"},
		Spec:       aggregationv1alpha1.CoderWorkspaceSpec{Running: ptr.To(true)},
	}
}

func workspaceList(items ...*aggregationv1alpha1.CoderWorkspace) *aggregationv1alpha1.CoderWorkspaceList {
	list := &aggregationv1alpha1.CoderWorkspaceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "aggregation.coder.com/v1alpha1", Kind: "CoderWorkspaceList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"},
	}
	for _, item := range items {
		list.Items = append(list.Items, *item)
	}
	return list
}

func controlPlaneList(n int) *coderv1alpha1.CoderControlPlaneList {
	list := &coderv1alpha1.CoderControlPlaneList{
		TypeMeta: metav1.TypeMeta{APIVersion: "coder.com/v1alpha1", Kind: "CoderControlPlaneList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"},
	}
	for i := range n {
		list.Items = append(list.Items, coderv1alpha1.CoderControlPlane{
			TypeMeta:   metav1.TypeMeta{APIVersion: "coder.com/v1alpha1", Kind: "CoderControlPlane"},
			ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%02d", i), Name: "coder", ResourceVersion: "1"},
			Status:     coderv1alpha1.CoderControlPlaneStatus{URL: fmt.Sprintf("https://coder-%02d.example.com", i)},
		})
	}
	return list
}
