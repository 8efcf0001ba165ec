package takeover

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// flat is a pod template as one text for each field. An entry of a list is named by
// its place and its name, because the order counts too.
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
		// What is there and empty is another thing than what is not there.
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

// hidden says that a field may hold a secret: the value of a variable, a command
// line.
func hidden(path string) bool {
	return (strings.Contains(path, ".env[") && strings.HasSuffix(path, ".value")) ||
		strings.Contains(path, ".args[") || strings.Contains(path, ".command[")
}
