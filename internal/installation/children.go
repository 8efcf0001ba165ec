package installation

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ChildResources returns the resources of which the operator creates objects for its custom
// resources. The list is complete, because it is derived from the generated role that
// limits the operator.
func ChildResources() ([]schema.GroupResource, error) {
	roles, err := generatedRoles(controllerRoles)
	if err != nil {
		return nil, err
	}
	var found []schema.GroupResource
	for _, rule := range roles[0].Rules {
		if !has(rule.Verbs, "create") {
			continue
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				if resource != "events" {
					found = append(found, schema.GroupResource{Group: group, Resource: resource})
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b schema.GroupResource) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
	return found, nil
}

// RoleNames returns the names of the generated ClusterRoles. In older versions, they have
// no label.
func RoleNames() ([]string, error) {
	var names []string
	for _, path := range []string{controllerRoles, apiserverRoles, mcpRoles} {
		roles, err := generatedRoles(path)
		if err != nil {
			return nil, err
		}
		names = append(names, roles[0].Name)
	}
	return names, nil
}
