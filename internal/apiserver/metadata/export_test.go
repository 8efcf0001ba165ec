package metadata

import "sigs.k8s.io/controller-runtime/pkg/client"

// What the tests in metadata_test need besides.
var (
	Kinds       = kinds
	ResourceKey = resourceKey
)

// ClusterOf makes a cluster of a client that was made elsewhere.
func ClusterOf(c client.WithWatch, namespaces ...string) *APICluster {
	return newAPICluster(c, namespaces)
}
