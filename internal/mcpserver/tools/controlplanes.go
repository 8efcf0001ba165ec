package tools

import (
	"context"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// coderGroup is the API group of the operator's custom resources.
const coderGroup = "coder.com"

const controlPlanePlural = "codercontrolplanes"

func addControlPlanes(s *toolset.Set) {
	addListControlPlanes(s)
	addGetControlPlaneStatus(s)
	addListControlPlanePods(s)
	addGetDeploymentStatus(s)
	addGetServiceStatus(s)
	addChangeControlPlane(s)
}

func coderError(verb, plural, namespace, name string, err error) error {
	return &toolset.CallError{Verb: verb, Resource: plural + "." + coderGroup, Namespace: namespace, Name: name, Err: err}
}

// readControlPlane reads a control plane with the caller's permissions. Its errors can be
// returned by tools as they are.
func readControlPlane(ctx context.Context, kube *callers.Kube, namespace, name string) (*coderv1alpha1.CoderControlPlane, error) {
	return readObject(ctx, kube, controlPlanePlural+"."+coderGroup, namespace, name, &coderv1alpha1.CoderControlPlane{})
}

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

func addGetControlPlaneStatus(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "get_control_plane_status", Title: "Control plane status",
		Description: "Shows conditions, image, version, addresses and license.",
		Toolset:     toolset.ControlPlanes, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{callers.CoderRight("get", controlPlanePlural)},
	}, getControlPlaneStatus)
}

// controlPlaneStatus describes generation ObservedGeneration. If Details.Generation is
// larger, the operator has not reconciled the newest spec yet.
type controlPlaneStatus struct {
	ObservedGeneration int64               `json:"observedGeneration"`
	ReadyReplicas      int32               `json:"readyReplicas"`
	URL                string              `json:"url"`
	Phase              string              `json:"phase"`
	Conditions         []statusCondition   `json:"conditions"`
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
	return describeControlPlaneStatus(cp), nil
}

func describeControlPlaneStatus(cp *coderv1alpha1.CoderControlPlane) controlPlaneStatus {
	return controlPlaneStatus{
		ObservedGeneration: cp.Status.ObservedGeneration, ReadyReplicas: cp.Status.ReadyReplicas,
		URL: cp.Status.URL, Phase: string(cp.Status.Phase), Conditions: describeStatusConditions(cp.Status.Conditions),
		Details: controlPlaneDetails{
			Generation: cp.Generation, Image: cp.Spec.Image, WantedReplicas: wantedReplicas(cp), Replicas: cp.Status.Replicas,
			Version: excerpt(cp.Status.Version), AccessURL: cp.Status.AccessURL,
			LicenseTier: cp.Status.LicenseTier, LicenseExpiresAt: timestampOf(cp.Status.LicenseExpiresAt),
			DeletingSince: timestampOf(cp.DeletionTimestamp),
		},
	}
}
