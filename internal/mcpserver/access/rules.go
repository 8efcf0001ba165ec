package access

import (
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
)

// all is what stands for everything in a rule of RBAC.
const all = "*"

// grants says whether a rule gives the right, for all objects or only for those
// that it names.
func grants(rule authorizationv1.ResourceRule, right Right) bool {
	return has(rule.Verbs, right.Verb) && has(rule.APIGroups, right.Group) &&
		slices.ContainsFunc(rule.Resources, func(resource string) bool { return covers(resource, right.Resource) })
}

func has(values []string, value string) bool {
	return slices.Contains(values, all) || slices.Contains(values, value)
}

// covers says whether a resource as a rule has it stands for a wanted one. A star
// alone covers every resource and subresource, and "*/log" the subresource log of
// every resource. "pods/*" covers nothing, because RBAC does not know it.
func covers(resource, wanted string) bool {
	if resource == all || resource == wanted {
		return true
	}
	_, subresource, ok := strings.Cut(wanted, "/")
	return ok && resource == all+"/"+subresource
}
