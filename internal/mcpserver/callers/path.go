package callers

import "k8s.io/apimachinery/pkg/runtime/schema"

// SubresourcePath returns the API path of a subresource, for Getter. It does not escape the
// names: Getter rejects paths with invalid characters.
func SubresourcePath(group schema.GroupVersion, namespace, resource, name, subresource string) string {
	root := "/apis/" + group.String()
	if group.Group == "" {
		root = "/api/" + group.Version
	}
	return root + "/namespaces/" + namespace + "/" + resource + "/" + name + "/" + subresource
}
