package resources

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// Deployment returns the Deployment of coderd. It returns a SpecError if spec.podTemplate cannot be
// merged.
func Deployment(cp *coderv1alpha1.CoderControlPlane, in Inputs) (*appsv1.Deployment, error) {
	return workloadresources.Deployment(Workload(cp, in))
}

// Replicas returns the number of pods that the spec asks for.
func Replicas(cp *coderv1alpha1.CoderControlPlane) int32 {
	return workloadresources.Replicas(Workload(cp, Inputs{}))
}

// Service returns the Service of coderd's pods, or nil if the spec disables it.
func Service(cp *coderv1alpha1.CoderControlPlane) *corev1.Service {
	return workloadresources.Service(Workload(cp, Inputs{}))
}

// ServiceAccount returns the ServiceAccount of coderd's pods, or nil if the spec uses an existing
// one.
func ServiceAccount(cp *coderv1alpha1.CoderControlPlane) *corev1.ServiceAccount {
	return workloadresources.ServiceAccount(Workload(cp, Inputs{}))
}

// WorkspaceNamespaces returns the namespaces in which coderd may create workspaces: its own first,
// then those of the spec, without duplicates.
func WorkspaceNamespaces(cp *coderv1alpha1.CoderControlPlane) []string {
	return workloadresources.WorkspaceNamespaces(Workload(cp, Inputs{}))
}

// WorkspaceRole returns the Role with the permissions for workspaces in one namespace.
func WorkspaceRole(cp *coderv1alpha1.CoderControlPlane, namespace string) *rbacv1.Role {
	return workloadresources.WorkspaceRole(Workload(cp, Inputs{}), namespace)
}

// WorkspaceRoleBinding returns the RoleBinding of that Role to coderd's ServiceAccount.
func WorkspaceRoleBinding(cp *coderv1alpha1.CoderControlPlane, namespace string) *rbacv1.RoleBinding {
	return workloadresources.WorkspaceRoleBinding(Workload(cp, Inputs{}), namespace)
}

// URL returns the URL of coderd inside the cluster. It is empty if there is no Service.
func URL(cp *coderv1alpha1.CoderControlPlane, in Inputs) string {
	return workloadresources.URL(Workload(cp, in))
}

// AccessURL returns the access URL with which coderd is configured. It is empty if none is set, or
// if a Secret or ConfigMap sets it.
func AccessURL(cp *coderv1alpha1.CoderControlPlane, in Inputs) string {
	return workloadresources.AccessURL(Workload(cp, in))
}
