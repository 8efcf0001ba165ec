package resources

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// ownAnnotations is the domain, or parent domain, of the annotations of this project.
const ownAnnotations = "coder.com"

// redactObject returns an object without data that may be secret. The rules depend only on
// the form of Kubernetes objects, so they apply at every depth and to fields that are added
// later:
//
//   - An item with a name and a value (environment variables, Terraform variables,
//     headers) loses its value. Parameters of workspaces keep theirs unless the name is
//     that of a secret: they describe the workspace, and Coder shows them.
//   - Of the arguments of a program, only the first word and the names of flags are kept.
//   - Annotations lose their values, except those of this project: tools store copies of
//     whole objects in annotations. Managed fields are removed.
//   - Options of volume drivers lose their values.
//   - URLs lose user, password and query.
//   - Anything that looks like a secret is removed from all other text.
func redactObject(obj map[string]any) map[string]any {
	return redactMap("", obj)
}

// redact returns a value without data that may be secret. key is the name of the field that
// contains the value, or the list with the value.
func redact(key string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		return redactMap(key, value)
	case []any:
		if isArguments(key) {
			return redactArguments(value)
		}
		out := make([]any, 0, len(value))
		for _, item := range value {
			out = append(out, redact(key, item))
		}
		return out
	case string:
		if key == "gmsaCredentialSpec" {
			return redaction.Placeholder
		}
		return toolset.CleanMessage(value)
	default:
		return value
	}
}

func redactMap(key string, from map[string]any) map[string]any {
	switch key {
	case "annotations", "userAnnotations":
		return redactAnnotations(from)
	case "volumeAttributes", "options":
		return onlyNames(from)
	}
	out := make(map[string]any, len(from))
	for name, value := range from {
		if name != "managedFields" {
			out[name] = redact(name, value)
		}
	}
	if name, ok := from["name"].(string); ok && isFilled(from["value"]) && (key != "parameters" || redaction.VariableNamesSecret(name)) {
		out["value"] = redaction.Placeholder
	}
	return out
}

func isFilled(value any) bool { return value != nil && value != "" }

func onlyNames(from map[string]any) map[string]any {
	out := make(map[string]any, len(from))
	for name := range from {
		out[name] = redaction.Placeholder
	}
	return out
}

func redactAnnotations(from map[string]any) map[string]any {
	out := onlyNames(from)
	for name, value := range from {
		domain, _, _ := strings.Cut(name, "/")
		switch {
		case name == corev1.LastAppliedConfigAnnotation:
			delete(out, name)
		case domain == ownAnnotations || strings.HasSuffix(domain, "."+ownAnnotations):
			out[name] = redact(name, value)
		}
	}
	return out
}

func isArguments(key string) bool {
	return slices.Contains([]string{"command", "args", "extraArgs"}, key)
}

// redactArguments keeps the first word and the names of flags. The value of a flag follows
// an equals sign or is the next argument; other arguments can be anything.
func redactArguments(arguments []any) []any {
	out := make([]any, 0, len(arguments))
	for i, argument := range arguments {
		word, _ := argument.(string)
		flag, _, hasValue := strings.Cut(word, "=")
		switch {
		case strings.ContainsAny(flag, " \n\t"):
			out = append(out, redaction.Placeholder)
		case strings.HasPrefix(word, "-") && hasValue:
			out = append(out, flag+"="+redaction.Placeholder)
		case strings.HasPrefix(word, "-"), i == 0 && !hasValue:
			out = append(out, toolset.CleanMessage(word))
		default:
			out = append(out, redaction.Placeholder)
		}
	}
	return out
}
