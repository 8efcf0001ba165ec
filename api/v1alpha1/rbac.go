package v1alpha1

import (
	"slices"
	"strings"
)

// GrantsWorkspaces reports whether the spec grants the permissions to create workspaces in a
// namespace.
func (s *RBACSpec) GrantsWorkspaces(namespace string) bool {
	granted := s.WorkspacePerms
	for i := range s.Namespaces {
		if strings.TrimSpace(s.Namespaces[i].Name) == namespace && s.Namespaces[i].WorkspacePerms != nil {
			granted = s.Namespaces[i].WorkspacePerms
		}
	}
	return granted == nil || *granted
}

// NamespacesForWorkspaces returns the namespaces in which workspaces may be created: the workload's
// own first, then those of the spec, without duplicates.
func (s *RBACSpec) NamespacesForWorkspaces(own string) []string {
	named := append([]string{own}, s.WorkspaceNamespaces...)
	for i := range s.Namespaces {
		named = append(named, s.Namespaces[i].Name)
	}
	var all []string
	for _, namespace := range named {
		namespace = strings.TrimSpace(namespace)
		if namespace != "" && !slices.Contains(all, namespace) && s.GrantsWorkspaces(namespace) {
			all = append(all, namespace)
		}
	}
	return all
}
