package supportbundle

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// cleaner removes values from objects that may be secret because of their field, and has
// the redactor learn them.
type cleaner struct{ redactor *redaction.Redactor }

// object returns a cleaned copy of an object. The redactor still has to process it.
func (c cleaner) object(from *unstructured.Unstructured) map[string]any {
	object := from.DeepCopy().Object
	unstructured.RemoveNestedField(object, "metadata", "managedFields")
	switch from.GetKind() {
	case "Secret", "ConfigMap":
		for field, encoded := range map[string]bool{"data": from.GetKind() == "Secret", "stringData": false, "binaryData": true} {
			if all, ok := object[field].(map[string]any); ok {
				object[field] = sizes(all, encoded)
			}
		}
	case "CustomResourceDefinition":
		// The schemas are long, and known from the version.
		versions, _, _ := unstructured.NestedSlice(object, "spec", "versions")
		for _, v := range versions {
			if version, ok := v.(map[string]any); ok {
				version["schema"] = "left out"
			}
		}
		_ = unstructured.SetNestedSlice(object, versions, "spec", "versions")
	case "CoderTemplate":
		if files, ok, _ := unstructured.NestedMap(object, "spec", "files"); ok {
			_ = unstructured.SetNestedMap(object, sizes(files, false), "spec", "files")
		}
	}
	c.mapping(object)
	return object
}

// sizes replaces the values by their sizes. If encoded is set, values may be base64.
func sizes(all map[string]any, encoded bool) map[string]any {
	out := map[string]any{}
	for key, value := range all {
		text, _ := value.(string)
		if plain, err := base64.StdEncoding.DecodeString(text); encoded && err == nil {
			text = string(plain)
		}
		out[key] = fmt.Sprintf("%s %d bytes", redaction.Placeholder, len(text))
	}
	return out
}

// mapping cleans a map by the names of its keys.
func (c cleaner) mapping(object map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		switch value := object[key].(type) {
		case map[string]any:
			switch key {
			case "annotations":
				object[key] = c.annotations(value)
			case "volumeAttributes":
				c.all(value)
			default:
				c.mapping(value)
			}
		case []any:
			c.list(key, value)
		case string:
			switch {
			case strings.HasPrefix(value, redaction.Placeholder):
			case key == "caBundle":
				object[key] = fmt.Sprintf("certificates, %d characters", len(value))
			case value != "" && redaction.NamesSecret(key):
				object[key] = c.removed(key, value)
			}
		}
	}
}

func (c cleaner) list(key string, list []any) {
	switch key {
	case "args", "command", "extraArgs":
		c.arguments(list)
		return
	}
	for _, item := range list {
		entry, ok := item.(map[string]any)
		if !ok {
			continue
		}
		switch key {
		case "env", "extraEnv", "httpHeaders", "parameters", "variables":
			name, _ := entry["name"].(string)
			value, ok := entry["value"].(string)
			if ok && value != "" && !harmlessVariables.MatchString(name) && !plainValue.MatchString(value) {
				entry["value"] = c.removed(name, value)
			}
		}
		c.mapping(entry)
	}
}

func (c cleaner) all(object map[string]any) {
	for key, value := range object {
		text, ok := value.(string)
		if !ok {
			object[key] = redaction.Placeholder
			continue
		}
		object[key] = c.removed(key, text)
	}
}

func (c cleaner) annotations(all map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range all {
		text, _ := value.(string)
		switch {
		case key == corev1.LastAppliedConfigAnnotation: // A copy of the whole object.
		case harmlessAnnotations.MatchString(key), plainValue.MatchString(text):
			out[key] = value
		default:
			out[key] = c.removed(key, text)
		}
	}
	return out
}

// arguments cleans a command line. The value of a flag follows "=" or is the next argument.
func (c cleaner) arguments(list []any) {
	flag := ""
	for i, item := range list {
		text, _ := item.(string)
		name, value, joined := strings.Cut(text, "=")
		switch {
		case strings.HasPrefix(text, "-") && joined:
			flag = ""
			if !harmlessFlags.MatchString(name) && !plainValue.MatchString(value) {
				list[i] = name + "=" + c.removed(name, value)
			}
		case strings.HasPrefix(text, "-"):
			flag = text
		case harmlessFlags.MatchString(flag), harmlessWords.MatchString(text), plainValue.MatchString(text):
			flag = ""
		default:
			list[i], flag = c.removed(flag, text), ""
		}
	}
}

// harmlessVariables matches the environment variables whose values are kept: those that the
// operator and its manifests set, and those that enable a feature of Coder or configure an
// address.
var harmlessVariables = regexp.MustCompile(`^(?:` +
	`POD_NAME|POD_NAMESPACE|POD_IP|KUBE_POD_IP|GOGC|GOMEMLIMIT|GOMAXPROCS|GODEBUG|` +
	`CODER_URL|CODER_ACCESS_URL|CODER_WILDCARD_ACCESS_URL|CODER_PRIMARY_ACCESS_URL|CODER_DERP_SERVER_RELAY_URL|` +
	`CODER_USERNAME|CODER_PROVISIONER_DAEMON_NAME|CODER_PROVISIONERD_TAGS|CODER_VERBOSE|CODER_EXPERIMENTS|` +
	`CODER_[A-Z0-9_]+_(?:ENABLED?|DISABLED?|ADDRESS|FILE|INTERVAL|TIMEOUT|LEVEL|DAEMONS|MIN_VERSION)` +
	`)$`)

// plainValue matches values that cannot be a secret.
var plainValue = regexp.MustCompile(`^(?:|true|false|[0-9]{1,5}|[0-9]+(?:ms|s|m|h)|\$\([A-Z0-9_]+\))$`)

// harmlessAnnotations matches annotations that contain no secrets: those of Kubernetes, of
// package managers, and of this project.
var harmlessAnnotations = regexp.MustCompile(`^(?:` +
	`(?:[a-z-]+\.)?coder\.com/|[a-z-]+\.kubernetes\.io/|kubernetes\.io/|[a-z.-]*\.k8s\.io/|meta\.helm\.sh/|helm\.sh/|` +
	`kubectl\.kubernetes\.io/(?:default-container|restartedAt)$|cert-manager\.io/|argocd\.argoproj\.io/|kustomize\.toolkit\.fluxcd\.io/)`)

// harmlessFlags matches the flags of the operator and of Coder whose values are kept. Of
// other flags, only the name is kept.
var harmlessFlags = regexp.MustCompile(`^--?(?:` +
	`app|v|watch-namespaces?|cluster-domain|zap-[a-z-]+|log-[a-z-]+|leader-elect[a-z-]*|[a-z-]*bind-address|[a-z-]*-port|` +
	`[a-z-]*address|[a-z-]*-namespace|[a-z-]*-file|[a-z-]*-dir|[a-z-]*-interval|[a-z-]*-timeout|[a-z-]*-ratio|[a-z-]*-endpoint|` +
	`verbose)$`)

// harmlessWords matches arguments that are not flags and are kept.
var harmlessWords = regexp.MustCompile(`^(?:server|provisionerd?|wsproxy|start|create-admin-user|coder|sh|bash|/opt/coder|/opt/coder/coder|` +
	`/bin/sh|/bin/bash|/usr/bin/env|/coder-k8s|coder-k8s|/ko-app/[a-z0-9-]+)$`)

// removed returns the replacement of a value, and has the redactor learn the value. The replacement
// contains the length, because empty and truncated values are common mistakes.
func (c cleaner) removed(name, value string) string {
	// Plain words, paths and short values occur in many other places.
	const least = 8
	if redaction.NamesSecret(name) || len(value) >= least && !plainWords.MatchString(value) && !strings.HasPrefix(value, "/") {
		c.redactor.Learn(value)
	}
	return fmt.Sprintf("%s %d characters", redaction.Placeholder, len([]rune(value)))
}

var plainWords = regexp.MustCompile(`^[a-z]+(?:[-_. ][a-z]+)*$`)

// learnContent has the redactor learn the values of a Secret, so that they are redacted
// wherever else they occur. Secrets of Helm releases are skipped: they contain a compressed
// chart. Names are skipped, because they occur in many lines of the logs.
func (c *collector) learnContent(object *unstructured.Unstructured) {
	if object.GetKind() != "Secret" {
		return
	}
	if kind, _, _ := unstructured.NestedString(object.Object, "type"); kind == "helm.sh/release.v1" {
		return
	}
	data, _, _ := unstructured.NestedMap(object.Object, "data")
	for key, value := range data {
		text, _ := value.(string)
		if plain, err := base64.StdEncoding.DecodeString(text); err == nil && key != "username" && key != "namespace" {
			c.redactor.Learn(string(plain))
		}
	}
}
