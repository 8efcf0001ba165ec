package resources

import (
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

const (
	maxLabelLength = 63

	adminJobSuffix = "-create-admin"
)

// ServiceAccountName returns the name of the ServiceAccount of coderd's pods.
func ServiceAccountName(cp *coderv1alpha1.CoderControlPlane) string {
	if cp.Spec.ServiceAccount.Name != "" {
		return cp.Spec.ServiceAccount.Name
	}
	return cp.Name
}

// WorkspaceRoleName returns the name of the Role with the permissions for workspaces. It is the
// same in every namespace. It contains a hash of the control plane, because two control planes may
// grant permissions in one namespace.
func WorkspaceRoleName(cp *coderv1alpha1.CoderControlPlane) string {
	return workloadresources.ScopedName(ServiceAccountName(cp), workloadresources.Hash(cp.Namespace, cp.Name), "-workspace-perms")
}

// WorkspaceRoleBindingName returns the name of the RoleBinding of that Role.
func WorkspaceRoleBindingName(cp *coderv1alpha1.CoderControlPlane) string {
	return workloadresources.ScopedName(ServiceAccountName(cp), workloadresources.Hash(cp.Namespace, cp.Name), "")
}

// AdminJobName returns the name of the Job that creates the operator's account.
func AdminJobName(cp *coderv1alpha1.CoderControlPlane) string {
	return workloadresources.ShortName("", cp.Name, adminJobSuffix, maxLabelLength)
}
