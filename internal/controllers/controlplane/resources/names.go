package resources

import (
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

const (
	maxLabelLength = 63

	adminJobSuffix = "-create-admin"
)

// ServiceAccountName is the identity under which coderd's pods run.
func ServiceAccountName(cp *coderv1alpha1.CoderControlPlane) string {
	if cp.Spec.ServiceAccount.Name != "" {
		return cp.Spec.ServiceAccount.Name
	}
	return cp.Name
}

// WorkspaceRoleName is the name of the Role with the workspace rights, the same
// in every namespace. It holds a hash of the control plane, because two control
// planes may grant rights in one namespace.
func WorkspaceRoleName(cp *coderv1alpha1.CoderControlPlane) string {
	return workloadresources.ScopedName(ServiceAccountName(cp), workloadresources.Hash(cp.Namespace, cp.Name), "-workspace-perms")
}

// WorkspaceRoleBindingName is the name of the RoleBinding beside that Role.
func WorkspaceRoleBindingName(cp *coderv1alpha1.CoderControlPlane) string {
	return workloadresources.ScopedName(ServiceAccountName(cp), workloadresources.Hash(cp.Namespace, cp.Name), "")
}

// AdminJobName is the name of the Job that makes the operator's account.
func AdminJobName(cp *coderv1alpha1.CoderControlPlane) string {
	return workloadresources.ShortName("", cp.Name, adminJobSuffix, maxLabelLength)
}
