package resources

import (
	"fmt"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// ContainerName is the name of coderd's container in its pods.
const ContainerName = "coder"

const (
	// terminationGracePeriod is the time in seconds in which coderd can end the connections to
	// workspaces.
	terminationGracePeriod = 60
	// component is the name that Coder's own chart uses.
	component = "coderd"
	// command is the subcommand of coder that serves. The entry point of the image runs it.
	command = "server"

	containerHTTPPort  = 8080
	containerHTTPSPort = 8443
	// clusterPort is the port of the embedded NATS with which replicas connect to each other. Coder
	// 2.38 uses it instead of PostgreSQL's notifications.
	clusterPort = 6222
)

// Workload returns the control plane in the form that the builders of all kinds use. It refers to
// the spec, so the control plane must not change while the Workload is in use.
func Workload(cp *coderv1alpha1.CoderControlPlane, in Inputs) workloadresources.Workload {
	return workloadresources.Workload{
		Name:               cp.Name,
		Namespace:          cp.Namespace,
		Labels:             Labels(cp),
		Component:          component,
		Container:          ContainerName,
		Image:              Image(cp),
		Subcommand:         []string{command},
		Args:               []string{fmt.Sprintf("--http-address=0.0.0.0:%d", containerHTTPPort)},
		Env:                environment(cp),
		PeerPorts:          []int32{clusterPort},
		EnvFromNames:       in.EnvFromNames,
		ServiceAccountName: ServiceAccountName(cp),
		GracePeriodSeconds: terminationGracePeriod,
		Checksum:           in.Checksum,
		KeepReplicas:       in.KeepReplicas,
		OperatorNamespace:  in.OperatorNamespace,
		Adopted:            in.Adopted,
		Spec:               &cp.Spec.WorkloadSpec,
		Serving:            serving(cp, in),
		Rights:             rights(cp),
	}
}

// Image returns the image of coderd.
func Image(cp *coderv1alpha1.CoderControlPlane) string {
	if cp.Spec.Image == "" {
		// The schema's default was not applied.
		return workloadresources.DefaultImage
	}
	return cp.Spec.Image
}

func serving(cp *coderv1alpha1.CoderControlPlane, in Inputs) *workloadresources.Serving {
	return &workloadresources.Serving{
		Spec:             &cp.Spec.ServingSpec,
		HTTPPort:         containerHTTPPort,
		HTTPSPort:        containerHTTPSPort,
		ClusterDomain:    in.ClusterDomain,
		PodIPv6:          in.PodIPv6,
		ClusterHost:      envClusterHost,
		ClusterAccessURL: cp.Spec.EnvUseClusterAccessURL == nil || *cp.Spec.EnvUseClusterAccessURL,
	}
}

func rights(cp *coderv1alpha1.CoderControlPlane) *workloadresources.Rights {
	return &workloadresources.Rights{
		Spec:             &cp.Spec.RBAC,
		RoleName:         WorkspaceRoleName(cp),
		BindingName:      WorkspaceRoleBindingName(cp),
		OwnerLabels:      OwnerLabels(cp),
		OwnerAnnotations: OwnerAnnotations(cp),
	}
}
