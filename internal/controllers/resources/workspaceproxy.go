package resources

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// WorkspaceProxyContainer is the name of Coder's container in the pods.
const WorkspaceProxyContainer = "workspace-proxy"

// coderProgram is the path of coder in its image.
const coderProgram = "/opt/coder"

// WorkspaceProxyInputs contains the values that a workspace proxy needs in addition to its spec.
// The reconciler reads them first.
type WorkspaceProxyInputs struct {
	// Image is the image of the control plane. It may be empty.
	Image string
	// PrimaryAccessURL is the access URL of the Coder that the proxy belongs to.
	PrimaryAccessURL string
	// Token is the location of the session token.
	Token coderv1alpha1.TokenSecretReference
	// Adopted describes a Deployment that was handed over, or is nil.
	Adopted *Adopted
	// Live is the pod template of the current Deployment, or nil if there is none.
	Live *corev1.PodTemplateSpec
	Cluster
}

// WorkspaceProxy returns a proxy in the form that the shared builders use. It shares memory with
// the spec.
func WorkspaceProxy(proxy *coderv1alpha1.CoderWorkspaceProxy, in WorkspaceProxyInputs) Workload {
	port := int32(3001)
	if in.Adopted != nil && in.Adopted.HTTPPort != 0 {
		port = in.Adopted.HTTPPort
	}
	args := []string{"wsproxy", "server", fmt.Sprintf("--http-address=0.0.0.0:%d", port)}
	if proxy.Spec.DerpOnly {
		args = append(args, "--derp-only")
	}
	return Workload{
		Cluster:   in.Cluster,
		Name:      workspaceProxyName(proxy),
		Namespace: proxy.Namespace,
		Labels:    WorkspaceProxyLabels(proxy),
		Component: "wsproxy",
		Container: WorkspaceProxyContainer,
		Image:     cmp.Or(proxy.Spec.Image, in.Image, DefaultImage),
		Command:   []string{coderProgram},
		Args:      args,
		Env: []corev1.EnvVar{
			{Name: "CODER_PRIMARY_ACCESS_URL", Value: in.PrimaryAccessURL},
			FromSecret("CODER_PROXY_SESSION_TOKEN", in.Token.Name, cmp.Or(in.Token.Key, coderv1alpha1.SecretKeyToken)),
		},
		ServiceAccountName: cmp.Or(proxy.Spec.ServiceAccount.Name, workspaceProxyName(proxy)),
		GracePeriodSeconds: 60,
		Adopted:            in.Adopted,
		Live:               in.Live,
		Spec:               &proxy.Spec.WorkloadSpec,
		Serving: &Serving{
			Spec: &proxy.Spec.ServingSpec, HTTPPort: port, HTTPSPort: 8443, ClusterAccessURL: true,
		},
	}
}

// workspaceProxyName returns the name of the Deployment and of the Service. It is also the prefix
// of the names of the other objects.
func workspaceProxyName(proxy *coderv1alpha1.CoderWorkspaceProxy) string {
	// Objects that were handed over keep their name.
	return cmp.Or(proxy.Annotations[coderv1alpha1.AnnotationWorkloadName], coderv1alpha1.ShortName("wsproxy-", proxy.Name, "", maxLabelLength))
}

// ProxyTokenSecretName returns the name of the Secret in which the operator stores the session token of
// a proxy that it registered.
func ProxyTokenSecretName(proxy *coderv1alpha1.CoderWorkspaceProxy) string {
	return cmp.Or(proxy.Spec.Bootstrap.GeneratedTokenSecretName, coderv1alpha1.ShortName("", proxy.Name, "-proxy-token", maxObjectLength))
}

// ProxyName returns the name of the proxy in Coder.
func ProxyName(proxy *coderv1alpha1.CoderWorkspaceProxy) string {
	return cmp.Or(proxy.Spec.Bootstrap.ProxyName, proxy.Name)
}

// WorkspaceProxyLabels returns the labels of every child. They are also the selector of the
// Deployment and of the Service.
func WorkspaceProxyLabels(proxy *coderv1alpha1.CoderWorkspaceProxy) map[string]string {
	return map[string]string{
		coderv1alpha1.LabelName:      coderv1alpha1.WorkspaceProxyName,
		coderv1alpha1.LabelInstance:  coderv1alpha1.SuffixedName(proxy.Name, ""),
		coderv1alpha1.LabelManagedBy: coderv1alpha1.ManagedBy,
	}
}
