package callers

import "k8s.io/apimachinery/pkg/runtime/schema"

// SubresourcePath is where the API has a part of an object, for Getter, which refuses
// a path with names that lead elsewhere.
func SubresourcePath(group schema.GroupVersion, namespace, resource, name, subresource string) string {
	root := "/apis/" + group.String()
	if group.Group == "" {
		root = "/api/" + group.Version
	}
	return root + "/namespaces/" + namespace + "/" + resource + "/" + name + "/" + subresource
}
