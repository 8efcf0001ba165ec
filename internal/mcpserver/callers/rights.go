package callers

import (
	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// Right is a permission as in RBAC: a verb on a resource or on a non-resource path.
type Right struct {
	// Verb is get, list, watch, create, update, patch or delete.
	Verb string
	// Group is the API group; "" is the core group.
	Group string
	// Resource is the plural name, with "/<subresource>" for a subresource, or a
	// non-resource path such as /version.
	Resource string
}

// CoderRight returns a permission on a custom resource of the operator or its subresource.
func CoderRight(verb, resource string) Right {
	return Right{Verb: verb, Group: coderv1alpha1.GroupVersion.Group, Resource: resource}
}

// AggregatedRight returns a permission on workspaces or templates or their subresources.
func AggregatedRight(verb, resource string) Right {
	return Right{Verb: verb, Group: aggregationv1alpha1.GroupVersion.Group, Resource: resource}
}
