package resources

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// ContainerName is the name of Coder's container in the pods.
const ContainerName = "workspace-proxy"

const (
	component = "wsproxy"
	// program is the path of coder in its image.
	program = "/opt/coder"

	httpPort  = 3001
	httpsPort = 8443

	gracePeriodSeconds = 60

	envPrimaryAccessURL  = "CODER_PRIMARY_ACCESS_URL"
	envProxySessionToken = "CODER_PROXY_SESSION_TOKEN" // #nosec G101 -- the name of a variable.
)

// Inputs contains the values that a workspace proxy needs in addition to its spec. The reconciler
// reads them first.
type Inputs struct {
	// Image is the image of the control plane. It may be empty.
	Image string
	// PrimaryAccessURL is the access URL of the Coder that the proxy belongs to.
	PrimaryAccessURL string
	// Token is the location of the session token.
	Token coderv1alpha1.TokenSecretReference
	// ClusterDomain is the cluster's DNS domain. Empty means cluster.local.
	ClusterDomain string
	// PodIPv6 reports whether the primary address of pods is an IPv6 address.
	PodIPv6 bool
	// Adopted describes a Deployment that was handed over, or is nil.
	Adopted *workloadresources.Adopted
	// OperatorNamespace is the namespace of the operator.
	OperatorNamespace string
}

// Workload returns a proxy in the form that the shared builders use. It shares memory with the
// spec.
func Workload(proxy *coderv1alpha1.CoderWorkspaceProxy, in Inputs) workloadresources.Workload {
	port := int32(httpPort)
	if in.Adopted != nil && in.Adopted.HTTPPort != 0 {
		port = in.Adopted.HTTPPort
	}
	return workloadresources.Workload{
		Name:               Name(proxy),
		Namespace:          proxy.Namespace,
		Labels:             Labels(proxy),
		Component:          component,
		Container:          ContainerName,
		Image:              cmp.Or(proxy.Spec.Image, in.Image, workloadresources.DefaultImage),
		Command:            []string{program},
		Args:               arguments(proxy, port),
		Env:                environment(in),
		ServiceAccountName: ServiceAccountName(proxy),
		GracePeriodSeconds: gracePeriodSeconds,
		OperatorNamespace:  in.OperatorNamespace,
		Adopted:            in.Adopted,
		Spec:               &proxy.Spec.WorkloadSpec,
		Serving: &workloadresources.Serving{
			Spec: &proxy.Spec.ServingSpec, HTTPPort: port, HTTPSPort: httpsPort,
			ClusterDomain: in.ClusterDomain, PodIPv6: in.PodIPv6, ClusterAccessURL: true,
		},
	}
}

func arguments(proxy *coderv1alpha1.CoderWorkspaceProxy, port int32) []string {
	args := []string{"wsproxy", "server", fmt.Sprintf("--http-address=0.0.0.0:%d", port)}
	if proxy.Spec.DerpOnly {
		args = append(args, "--derp-only")
	}
	return args
}

func environment(in Inputs) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: envPrimaryAccessURL, Value: in.PrimaryAccessURL},
		workloadresources.FromSecret(envProxySessionToken, in.Token.Name, cmp.Or(in.Token.Key, coderv1alpha1.SecretKeyToken)),
	}
}
