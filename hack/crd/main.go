// Command crd makes the generated custom resource definitions fit for use.
//
// A pod template inside a spec has a schema of 700 KB, most of it descriptions
// that Kubernetes has anyway, and kubectl apply keeps what it applied in an
// annotation that may have 256 KiB. And that template is merged over another, so
// that nothing in it is required. So this command drops the descriptions below
// the largest fields, and in pod templates what those cannot have, and the
// requirement of containers; and it refuses a definition that client-side apply
// could not take.
//
// It rewrites the files that are its arguments.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// longest is below the limit of all annotations of an object (256 KiB), with
// room for the others.
const longest = 250 * 1024

func main() {
	for _, path := range os.Args[1:] {
		if err := rewrite(path); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			os.Exit(1)
		}
	}
}

func rewrite(path string) error {
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

// slim shortens the schema of one version.
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

// relax makes a pod template one that is merged over another.
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
		// A property may have that name too, and then it is no text.
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
	for _, key := range path {
		fields, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = fields[key]
	}
	return value
}
