package resources

import (
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

const (
	namePrefix        = "wsproxy-"
	tokenSecretSuffix = "-proxy-token"

	maxLabelLength  = 63
	maxObjectLength = 253
)

// Name returns the name of the Deployment and of the Service. It is also the prefix of the names of
// the other objects.
func Name(proxy *coderv1alpha1.CoderWorkspaceProxy) string {
	// Objects that were handed over keep their name.
	if name := proxy.Annotations[coderv1alpha1.AnnotationWorkloadName]; name != "" {
		return name
	}
	return workloadresources.ShortName(namePrefix, proxy.Name, "", maxLabelLength)
}

// ServiceAccountName returns the name of the pods' ServiceAccount.
func ServiceAccountName(proxy *coderv1alpha1.CoderWorkspaceProxy) string {
	if proxy.Spec.ServiceAccount.Name != "" {
		return proxy.Spec.ServiceAccount.Name
	}
	return Name(proxy)
}

// TokenSecretName returns the name of the Secret in which the operator stores the session token of
// a proxy that it registered.
func TokenSecretName(proxy *coderv1alpha1.CoderWorkspaceProxy) string {
	if name := proxy.Spec.Bootstrap.GeneratedTokenSecretName; name != "" {
		return name
	}
	return workloadresources.ShortName("", proxy.Name, tokenSecretSuffix, maxObjectLength)
}

// ProxyName returns the name of the proxy in Coder.
func ProxyName(proxy *coderv1alpha1.CoderWorkspaceProxy) string {
	if name := proxy.Spec.Bootstrap.ProxyName; name != "" {
		return name
	}
	return proxy.Name
}

// Labels returns the labels of every child. They are also the selector of the Deployment and of the
// Service.
func Labels(proxy *coderv1alpha1.CoderWorkspaceProxy) map[string]string {
	return map[string]string{
		coderv1alpha1.LabelName:      coderv1alpha1.WorkspaceProxyName,
		coderv1alpha1.LabelInstance:  workloadresources.LabelValue(proxy.Name),
		coderv1alpha1.LabelManagedBy: coderv1alpha1.ManagedBy,
	}
}
