package resources

import (
	"regexp"
	"slices"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/text"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// ownAnnotations is the end of the domains whose annotations this project writes.
const ownAnnotations = "coder.com"

// redactObject gives an object without what may be secret. What follows is about
// the form of objects of Kubernetes, so it holds at every depth and for fields that
// do not exist yet:
//
//   - An item that has a name and a value (environment and Terraform variables,
//     headers) loses the value. Parameters of workspaces keep theirs unless the name
//     is that of a secret: they are what a workspace is about, and Coder shows them.
//   - Of the arguments of a program the first word and the names of flags stay.
//   - Annotations keep their names only, but for our own: tools keep copies of whole
//     objects there. Managed fields go.
//   - Options of volume drivers keep their names only.
//   - Addresses lose user, password and query.
//   - All other text is cleaned of what looks like a secret.
func redactObject(obj map[string]any) map[string]any {
	return redactMap("", obj)
}

// redact gives a value without what may be secret. Its key, or that of the list it
// stands in, says what it is.
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
		return redactText(value)
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
		case name == "kubectl.kubernetes.io/last-applied-configuration":
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

// redactArguments keeps the first word and the names of flags. The value of a flag
// stands behind an equals sign or in the next argument, and what stands alone can
// be anything.
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
			out = append(out, redactText(word))
		default:
			out = append(out, redaction.Placeholder)
		}
	}
	return out
}

// queryOfAddress matches the parameters of an address or of a path.
var queryOfAddress = regexp.MustCompile(`((?:://|^/)[^\s?"']*\?)[^\s"']+`)

// redactText is for any text in an object.
func redactText(s string) string {
	return text.Clean(queryOfAddress.ReplaceAllString(redaction.Users(s), "${1}"+redaction.Placeholder))
}
