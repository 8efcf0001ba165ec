package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// longest is less than the limit of all annotations of an object (256 KiB), which leaves room for
// other annotations.
const longest = 250 * 1024

// shortenDefinition reduces the size of a generated custom resource definition.
//
// The schema of a pod template in a spec has 700 KB. Most of it are descriptions that Kubernetes
// documents anyway, and kubectl apply stores the applied object in an annotation, whose limit is
// 256 KiB. In addition, the pod template is merged over another one, so none of its fields is
// required. Therefore this function removes the descriptions below the largest fields, fields that
// pod templates cannot have, and the requirement of containers. It returns an error for a
// definition that is too large for client-side apply.
func shortenDefinition(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var definition map[string]any
	if err := yaml.Unmarshal(raw, &definition); err != nil {
		return err
	}
	versions, _ := at(definition, "spec", "versions").([]any)
	if len(versions) == 0 {
		return errors.New("is no custom resource definition: it has no spec.versions")
	}
	for _, version := range versions {
		slim(version)
	}
	compact, err := json.Marshal(definition)
	if err != nil {
		return err
	}
	if len(compact) > longest {
		return fmt.Errorf("has %d bytes as JSON, and kubectl apply takes %d", len(compact), longest)
	}
	out, err := yaml.Marshal(definition)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append([]byte("---\n"), out...), 0o644)
}

// slim reduces the schema of one version.
func slim(version any) {
	spec := at(version, "schema", "openAPIV3Schema", "properties", "spec", "properties")
	for _, field := range []string{"podTemplate", "volumes", "affinity"} {
		schema, ok := at(spec, field).(map[string]any)
		if !ok {
			continue
		}
		description := schema["description"]
		dropDescriptions(schema)
		schema["description"] = description
	}
	relax(at(spec, "podTemplate"))
}

// relax adapts the schema of a pod template that is merged over another one.
func relax(template any) {
	if pod, ok := at(template, "properties", "spec").(map[string]any); ok {
		delete(pod, "required")
		if fields, ok := pod["properties"].(map[string]any); ok {
			delete(fields, "ephemeralContainers")
		}
	}
	if metadata, ok := at(template, "properties", "metadata", "properties").(map[string]any); ok {
		for _, field := range []string{"finalizers", "name", "namespace"} {
			delete(metadata, field)
		}
	}
}

func dropDescriptions(value any) {
	switch v := value.(type) {
	case map[string]any:
		// A property may have this name too. It is then not a string.
		if _, isText := v["description"].(string); isText {
			delete(v, "description")
		}
		for _, entry := range v {
			dropDescriptions(entry)
		}
	case []any:
		for _, entry := range v {
			dropDescriptions(entry)
		}
	}
}

func at(value any, path ...string) any {
	fields, _ := value.(map[string]any)
	found, _, _ := unstructured.NestedFieldNoCopy(fields, path...)
	return found
}
