package resources

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// WorkspaceNamespaces returns the namespaces in which the pods' ServiceAccount may create
// workspaces: the workload's own first, then those of the spec, without duplicates. Namespaces in
// which the spec grants nothing are left out.
func WorkspaceNamespaces(w Workload) []string {
	if w.Rights == nil {
		return nil
	}
	spec := w.Rights.Spec
	named := append([]string{w.Namespace}, spec.WorkspaceNamespaces...)
	for i := range spec.Namespaces {
		named = append(named, spec.Namespaces[i].Name)
	}
	var all []string
	for _, namespace := range named {
		namespace = strings.TrimSpace(namespace)
		granted := spec.WorkspacePerms
		for i := range spec.Namespaces {
			if strings.TrimSpace(spec.Namespaces[i].Name) == namespace && spec.Namespaces[i].WorkspacePerms != nil {
				granted = spec.Namespaces[i].WorkspacePerms
			}
		}
		if namespace != "" && !slices.Contains(all, namespace) && ptr.Deref(granted, true) {
			all = append(all, namespace)
		}
	}
	return all
}

// WorkspaceRole returns the Role with the permissions for workspaces in one namespace: those of the
// spec, overridden by the entry of the namespace.
func WorkspaceRole(w Workload, namespace string) *rbacv1.Role {
	spec := w.Rights.Spec
	deployments, extra := ptr.Deref(spec.EnableDeployments, true), spec.ExtraRules
	at := slices.IndexFunc(spec.Namespaces, func(n coderv1alpha1.NamespaceRBAC) bool { return strings.TrimSpace(n.Name) == namespace })
	if at >= 0 {
		override := spec.Namespaces[at]
		deployments = ptr.Deref(override.EnableDeployments, deployments)
		if override.ExtraRules != nil {
			extra = override.ExtraRules
		}
	}
	rule := func(group, resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{
			"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
		}}
	}
	rules := []rbacv1.PolicyRule{rule(corev1.GroupName, "pods"), rule(corev1.GroupName, "persistentvolumeclaims")}
	if deployments {
		rules = append(rules, rule("apps", "deployments"))
	}
	for i := range extra {
		rules = append(rules, *extra[i].DeepCopy())
	}
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
		ObjectMeta: rightsMeta(w, WorkspaceRoleName(w, namespace), namespace),
		Rules:      rules,
	}
}

// WorkspaceRoleBinding returns the RoleBinding that grants those permissions to the pods'
// ServiceAccount.
func WorkspaceRoleBinding(w Workload, namespace string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: rightsMeta(w, WorkspaceRoleBindingName(w, namespace), namespace),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: WorkspaceRoleName(w, namespace)},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: w.ServiceAccountName, Namespace: w.Namespace}},
	}
}

// WorkspaceRoleName returns the name of the Role in one namespace.
func WorkspaceRoleName(w Workload, namespace string) string {
	if namespace != w.Namespace && w.Rights.RemoteRoleName != "" {
		return w.Rights.RemoteRoleName
	}
	return w.Rights.RoleName
}

// WorkspaceRoleBindingName returns the name of the RoleBinding in one namespace.
func WorkspaceRoleBindingName(w Workload, namespace string) string {
	if namespace != w.Namespace && w.Rights.RemoteBindingName != "" {
		return w.Rights.RemoteBindingName
	}
	return w.Rights.BindingName
}

// rightsMeta returns the metadata of a Role or RoleBinding. In other namespaces the object has no
// owner reference. An Argo CD that tracks objects by the label app.kubernetes.io/instance would
// prune such an object as part of its own application, so the object does not have that label
// there.
func rightsMeta(w Workload, name, namespace string) metav1.ObjectMeta {
	labels := merged(w.Labels, w.Rights.OwnerLabels)
	if namespace != w.Namespace {
		delete(labels, coderv1alpha1.LabelInstance)
	}
	return metav1.ObjectMeta{
		Name: name, Namespace: namespace, Labels: labels, Annotations: maps.Clone(w.Rights.OwnerAnnotations),
	}
}
