package resources

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// Deployment runs coderd. A spec.podTemplate that does not fit is a SpecError.
func Deployment(cp *coderv1alpha1.CoderControlPlane, in Inputs) (*appsv1.Deployment, error) {
	return workloadresources.Deployment(Workload(cp, in))
}

// Replicas is the number of pods that the spec asks for.
func Replicas(cp *coderv1alpha1.CoderControlPlane) int32 {
	return workloadresources.Replicas(Workload(cp, Inputs{}))
}

// Service is in front of coderd's pods, or nil where the spec switches it off.
func Service(cp *coderv1alpha1.CoderControlPlane) *corev1.Service {
	return workloadresources.Service(Workload(cp, Inputs{}))
}

// ServiceAccount is the identity of coderd's pods, or nil where the spec uses
// one that exists.
func ServiceAccount(cp *coderv1alpha1.CoderControlPlane) *corev1.ServiceAccount {
	return workloadresources.ServiceAccount(Workload(cp, Inputs{}))
}

// WorkspaceNamespaces are the namespaces in which coderd may make workspaces:
// its own first, then those of the spec, each once.
func WorkspaceNamespaces(cp *coderv1alpha1.CoderControlPlane) []string {
	return workloadresources.WorkspaceNamespaces(Workload(cp, Inputs{}))
}

// WorkspaceRole holds the rights that workspaces need in one namespace.
func WorkspaceRole(cp *coderv1alpha1.CoderControlPlane, namespace string) *rbacv1.Role {
	return workloadresources.WorkspaceRole(Workload(cp, Inputs{}), namespace)
}

// WorkspaceRoleBinding gives those rights to coderd's ServiceAccount.
func WorkspaceRoleBinding(cp *coderv1alpha1.CoderControlPlane, namespace string) *rbacv1.RoleBinding {
	return workloadresources.WorkspaceRoleBinding(Workload(cp, Inputs{}), namespace)
}

// URL is where the operator, and everything else inside the cluster, calls
// coderd. It is empty where there is no Service.
func URL(cp *coderv1alpha1.CoderControlPlane, in Inputs) string {
	return workloadresources.URL(Workload(cp, in))
}

// AccessURL is where coderd is told that it is reached. It is empty where nobody
// says it, or where a Secret or ConfigMap does.
func AccessURL(cp *coderv1alpha1.CoderControlPlane, in Inputs) string {
	return workloadresources.AccessURL(Workload(cp, in))
}
