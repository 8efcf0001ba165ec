package migrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// Manifest is one custom resource as a user would write it: without status and defaults.
type Manifest struct {
	Kind, Namespace, Name string
	Annotations           map[string]string
	Spec                  map[string]any
}

// Object returns the manifest as an object for JSON.
func (m *Manifest) Object() map[string]any {
	metadata := map[string]any{"name": m.Name, "namespace": m.Namespace}
	if len(m.Annotations) > 0 {
		metadata["annotations"] = m.Annotations
	}
	return map[string]any{
		"apiVersion": coderv1alpha1.GroupVersion.String(), "kind": m.Kind, "metadata": metadata, "spec": m.Spec,
	}
}

// YAML returns the manifest as YAML.
func (m *Manifest) YAML() ([]byte, error) {
	return yaml.Marshal(m.Object())
}

// FileName returns the name of the manifest's file.
func (m *Manifest) FileName() string {
	return strings.ToLower(m.Kind) + "-" + m.Name + ".yaml"
}

// The kinds.
const (
	KindControlPlane   = "CoderControlPlane"
	KindProvisioner    = "CoderProvisioner"
	KindWorkspaceProxy = "CoderWorkspaceProxy"
)

// fits returns an error if a field of the spec does not accept a value. The error does not contain
// the value.
func fits(kind, path string, value any) error {
	spec := map[string]any{}
	set(spec, path, value)
	raw, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("the value of %s is not JSON", path)
	}
	var into any = &coderv1alpha1.CoderControlPlaneSpec{}
	switch kind {
	case KindProvisioner:
		into = &coderv1alpha1.CoderProvisionerSpec{}
	case KindWorkspaceProxy:
		into = &coderv1alpha1.CoderWorkspaceProxySpec{}
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		message := strings.TrimPrefix(err.Error(), "json: ")
		if found, _, ok := strings.Cut(message, " into Go "); ok {
			message = strings.Replace(found, "cannot unmarshal", "it is a", 1)
		}
		return fmt.Errorf("does not fit spec.%s: %s", path, message)
	}
	return nil
}

// set writes a value to nested maps, by a path of keys.
func set(into map[string]any, path string, value any) {
	keys := strings.Split(path, ".")
	for _, key := range keys[:len(keys)-1] {
		into = within(into, key)
	}
	into[keys[len(keys)-1]] = value
}

// within returns the map in a field. It creates the map if there is none.
func within(fields map[string]any, key string) map[string]any {
	below, ok := fields[key].(map[string]any)
	if !ok {
		below = map[string]any{}
		fields[key] = below
	}
	return below
}

// get returns a value of nested maps, or nil.
func get(from map[string]any, path string) any {
	value, _ := Values{Content: from}.Get(path)
	return value
}
