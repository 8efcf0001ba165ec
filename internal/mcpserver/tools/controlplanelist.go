package tools

import (
	"context"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func addListControlPlanes(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "list_control_planes", Title: "Control planes",
		Description: "Lists Coder deployments and why one is not ready.",
		Toolset:     toolset.ControlPlanes, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{callers.CoderRight("list", controlPlanePlural)},
	}, listControlPlanes)
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
	return readPage(ctx, call, in, controlPlanePlural, list, func() []coderv1alpha1.CoderControlPlane { return list.Items }, describeControlPlane)
}

func describeControlPlane(cp *coderv1alpha1.CoderControlPlane) controlPlane {
	reason, message := readiness(cp.Status.Conditions)
	return controlPlane{
		Name: cp.Name, Namespace: cp.Namespace,
		Phase: string(cp.Status.Phase), Replicas: cp.Status.Replicas, ReadyReplicas: cp.Status.ReadyReplicas,
		URL: cp.Status.URL, Version: excerpt(cp.Status.Version), Reason: reason, Message: message,
	}
}
