package takeover

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// flat returns the fields of a pod template by path. The path of a list entry contains its index
// and its name, because the order matters.
func flat(template *corev1.PodTemplateSpec) (map[string]string, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template)
	if err != nil {
		return nil, fmt.Errorf("reading a pod template: %w", err)
	}
	all := map[string]string{}
	flatten(all, "", content)
	return all, nil
}

func flatten(into map[string]string, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		// An empty object differs from a missing one.
		if len(v) == 0 {
			into[path] = "{}"
		}
		for key, below := range v {
			flatten(into, strings.TrimPrefix(path+"."+key, "."), below)
		}
	case []any:
		for i, entry := range v {
			name := fmt.Sprint(i)
			if fields, ok := entry.(map[string]any); ok {
				if text, ok := fields["name"].(string); ok {
					name += " " + text
				}
			}
			flatten(into, path+"["+name+"]", entry)
		}
	case nil:
	default:
		into[path] = fmt.Sprintf("%q", fmt.Sprint(v))
	}
}

// hidden reports whether a field may contain a secret: the value of a variable, or a command line.
func hidden(path string) bool {
	return (strings.Contains(path, ".env[") && strings.HasSuffix(path, ".value")) ||
		strings.Contains(path, ".args[") || strings.Contains(path, ".command[")
}
