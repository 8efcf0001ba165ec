package resources

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// WorkspaceNamespaces are the namespaces in which coderd may make workspaces:
// its own first, then those of the spec, each once. None where the spec grants
// no rights.
func WorkspaceNamespaces(cp *coderv1alpha1.CoderControlPlane) []string {
	if !ptr.Deref(cp.Spec.RBAC.WorkspacePerms, true) {
		return nil
	}
	all := []string{cp.Namespace}
	for _, namespace := range cp.Spec.RBAC.WorkspaceNamespaces {
		if namespace = strings.TrimSpace(namespace); namespace != "" && !slices.Contains(all, namespace) {
			all = append(all, namespace)
		}
	}
	return all
}

// WorkspaceRole holds the rights that workspaces need in one namespace.
func WorkspaceRole(cp *coderv1alpha1.CoderControlPlane, namespace string) *rbacv1.Role {
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
		ObjectMeta: workspaceMeta(cp, WorkspaceRoleName(cp), namespace),
		Rules:      workspaceRules(cp),
	}
}

// WorkspaceRoleBinding gives those rights to coderd's ServiceAccount.
func WorkspaceRoleBinding(cp *coderv1alpha1.CoderControlPlane, namespace string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: workspaceMeta(cp, WorkspaceRoleBindingName(cp), namespace),
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "Role", Name: WorkspaceRoleName(cp),
		},
		Subjects: []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Name: ServiceAccountName(cp), Namespace: cp.Namespace,
		}},
	}
}

func workspaceMeta(cp *coderv1alpha1.CoderControlPlane, name, namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:        name,
		Namespace:   namespace,
		Labels:      merged(Labels(cp), OwnerLabels(cp)),
		Annotations: OwnerAnnotations(cp),
	}
}

func workspaceRules(cp *coderv1alpha1.CoderControlPlane) []rbacv1.PolicyRule {
	everything := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{corev1.GroupName}, Resources: []string{"pods"}, Verbs: everything},
		{APIGroups: []string{corev1.GroupName}, Resources: []string{"persistentvolumeclaims"}, Verbs: everything},
	}
	if ptr.Deref(cp.Spec.RBAC.EnableDeployments, true) {
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: everything,
		})
	}
	return append(rules, cp.Spec.RBAC.ExtraRules...)
}
