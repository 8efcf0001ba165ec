package tools

import (
	"context"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

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
