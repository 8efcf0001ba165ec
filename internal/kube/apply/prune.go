package apply

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// toApply returns the object with only the fields that its builder set. A typed object also
// serializes its status, null fields and some empty structs, and the operator would own them if it
// sent them. Other empty maps are kept, because an emptyDir volume is one.
func toApply(obj client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("converting %T: %w", obj, err)
	}
	delete(content, "status")
	dropNoise(content)
	return &unstructured.Unstructured{Object: content}, nil
}

func dropNoise(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, entry := range v {
			if entry == nil || isNoise(key, entry) {
				delete(v, key)
				continue
			}
			dropNoise(entry)
		}
	case []any:
		for _, entry := range v {
			dropNoise(entry)
		}
	}
}

// isNoise reports whether an entry is an empty struct field that the types of Kubernetes always
// serialize.
func isNoise(key string, value any) bool {
	switch key {
	case "strategy", "updateStrategy", "resources", "status", "loadBalancer":
		empty, ok := value.(map[string]any)
		return ok && len(empty) == 0
	case "creationTimestamp":
		return value == ""
	}
	return false
}
