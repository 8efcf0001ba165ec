package access

import (
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
)

// all is the wildcard in RBAC rules.
const all = "*"

// grants reports whether a rule grants the permission, for all objects or only for the ones
// that it names.
func grants(rule authorizationv1.ResourceRule, right Right) bool {
	return has(rule.Verbs, right.Verb) && has(rule.APIGroups, right.Group) &&
		slices.ContainsFunc(rule.Resources, func(resource string) bool { return covers(resource, right.Resource) })
}

func has(values []string, value string) bool {
	return slices.Contains(values, all) || slices.Contains(values, value)
}

// covers reports whether a rule's resource matches the wanted one. "*" matches every
// resource and subresource, and "*/log" matches the subresource log of every resource.
// "pods/*" matches nothing, because RBAC does not support it.
func covers(resource, wanted string) bool {
	if resource == all || resource == wanted {
		return true
	}
	_, subresource, ok := strings.Cut(wanted, "/")
	return ok && resource == all+"/"+subresource
}
