package access

import (
	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// Right is a verb on a resource of Kubernetes, or on a path that is no resource, as
// RBAC has it.
type Right struct {
	// Verb is get, list, watch, create, update, patch or delete.
	Verb string
	// Group is that of the API; empty is the core group.
	Group string
	// Resource is the plural, with "/<subresource>" for a subresource; or a path, which
	// begins with a slash, such as /version.
	Resource string
}

// Coder is a right on one of the three kinds, or on a subresource of theirs.
func Coder(verb, resource string) Right {
	return Right{Verb: verb, Group: coderv1alpha1.GroupVersion.Group, Resource: resource}
}

// Aggregated is a right on workspaces or templates, or on a subresource of theirs.
func Aggregated(verb, resource string) Right {
	return Right{Verb: verb, Group: aggregationv1alpha1.GroupVersion.Group, Resource: resource}
}
