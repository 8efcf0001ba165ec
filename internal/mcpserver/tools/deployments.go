package tools

import (
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func addGetDeploymentStatus(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "get_control_plane_deployment_status", Title: "Control plane rollout",
		Description: "Shows how far its Deployment is rolled out.",
		Toolset:     toolset.ControlPlanes, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{deploymentRight("get")},
	}, getDeploymentStatus)
}

func deploymentRight(verb string) callers.Right {
	return callers.Right{Verb: verb, Group: appsv1.GroupName, Resource: "deployments"}
}

// deploymentStatus is the status of the Deployment that has the same name as the control
// plane.
type deploymentStatus struct {
	Name                string                `json:"name"`
	Namespace           string                `json:"namespace"`
	Replicas            int32                 `json:"replicas"`
	ReadyReplicas       int32                 `json:"readyReplicas"`
	UpdatedReplicas     int32                 `json:"updatedReplicas"`
	AvailableReplicas   int32                 `json:"availableReplicas"`
	UnavailableReplicas int32                 `json:"unavailableReplicas"`
	ObservedGeneration  int64                 `json:"observedGeneration"`
	Conditions          []deploymentCondition `json:"conditions"`
	Details             deploymentDetails     `json:"details"`
}

// deploymentDetails names the control plane that controls the Deployment, if any.
type deploymentDetails struct {
	ControlPlane string   `json:"controlPlane,omitempty"`
	Generation   int64    `json:"generation"`
	Images       []string `json:"images"`
	RestartedAt  string   `json:"restartedAt,omitempty"`
}

type deploymentCondition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason,omitempty"`
	Message            string `json:"message,omitempty"`
	LastUpdateTime     string `json:"lastUpdateTime,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
}

func getDeploymentStatus(ctx context.Context, call *toolset.Call, in objectInput) (deploymentStatus, error) {
	if err := toolset.RequireObject(in.Namespace, in.Name); err != nil {
		return deploymentStatus{}, err
	}
	d, err := readDeployment(ctx, call.Kube, in.Namespace, in.Name)
	if err != nil {
		return deploymentStatus{}, err
	}
	return describeDeployment(d), nil
}

func readDeployment(ctx context.Context, kube *callers.Kube, namespace, name string) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{}
	if err := kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, d); err != nil {
		return nil, deploymentError("get", namespace, name, err)
	}
	return d, nil
}

func deploymentError(verb, namespace, name string, err error) error {
	return &toolset.CallError{Verb: verb, Resource: "deployments.apps", Namespace: namespace, Name: name, Err: err}
}

func describeDeployment(d *appsv1.Deployment) deploymentStatus {
	status := deploymentStatus{
		Name: d.Name, Namespace: d.Namespace, Replicas: ptr.Deref(d.Spec.Replicas, 0),
		ReadyReplicas: d.Status.ReadyReplicas, UpdatedReplicas: d.Status.UpdatedReplicas,
		AvailableReplicas: d.Status.AvailableReplicas, UnavailableReplicas: d.Status.UnavailableReplicas,
		ObservedGeneration: d.Status.ObservedGeneration, Conditions: make([]deploymentCondition, 0, len(d.Status.Conditions)),
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
		status.Conditions = append(status.Conditions, deploymentCondition{
			Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: excerpt(c.Message),
			LastUpdateTime: timestampOf(&c.LastUpdateTime), LastTransitionTime: timestampOf(&c.LastTransitionTime),
		})
	}
	slices.SortFunc(status.Conditions, func(a, b deploymentCondition) int { return strings.Compare(a.Type, b.Type) })
	return status
}
