package chart

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/coder-k8s/coder-k8s/internal/app"
)

// schema is the part of a JSON schema that defines the values.
type schema struct {
	Properties  map[string]schema `json:"properties"`
	Definitions map[string]schema `json:"definitions"`
	Ref         string            `json:"$ref"`
}

// leaves returns the paths of all values.
func (s schema) leaves(path string, definitions map[string]schema) []string {
	if s.Ref != "" {
		s = definitions[strings.TrimPrefix(s.Ref, "#/definitions/")]
	}
	if len(s.Properties) == 0 {
		return []string{path}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		all = append(all, s.Properties[name].leaves(strings.TrimPrefix(path+"."+name, "."), definitions)...)
	}
	return all
}

// TestEveryValueIsInAGolden checks that a file in testdata sets each value, so that a
// golden file shows its effect.
func TestEveryValueIsInAGolden(t *testing.T) {
	raw, err := os.ReadFile(chartDir + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s schema
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/*.values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]bool{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]any{}
		if err := yaml.Unmarshal(raw, &values); err != nil {
			t.Fatal(err)
		}
		mark(set, "", values)
	}
	for _, path := range s.leaves("", s.Definitions) {
		if rest, ok := strings.CutPrefix(path, "components."); ok {
			// They have the same definition, so one is enough.
			_, field, _ := strings.Cut(rest, ".")
			set[path] = set["components.controller."+field] || set["components.apiserver."+field] || set["components.mcp."+field]
		}
		if !set[path] {
			t.Errorf("no file in testdata sets %s", path)
		}
	}
}

// mark records the paths of all values.
func mark(set map[string]bool, path string, value any) {
	set[path] = true
	fields, _ := value.(map[string]any)
	for name, field := range fields {
		mark(set, strings.TrimPrefix(path+"."+name, "."), field)
	}
}

// TestArguments checks that the program accepts the arguments from the chart.
func TestArguments(t *testing.T) {
	files, err := filepath.Glob("testdata/*.values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "") {
		for _, deployment := range rendered(t, file).ofKind("Deployment") {
			args, _, err := unstructured.NestedStringSlice(container(t, deployment), "args")
			if err != nil {
				t.Fatal(err)
			}
			options := app.NewOptions()
			all := pflag.NewFlagSet("coder-k8s", pflag.ContinueOnError)
			for _, set := range options.FlagSets().FlagSets {
				all.AddFlagSet(set)
			}
			if err := all.Parse(args); err != nil {
				t.Errorf("%s: %s: %v", file, deployment.GetName(), err)
			} else if err := options.Validate(all.Changed); err != nil {
				t.Errorf("%s: %s %q: %v", file, deployment.GetName(), args, err)
			}
		}
	}
}

// container returns the program's container in a Deployment's pods.
func container(t *testing.T, deployment *unstructured.Unstructured) map[string]any {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) == 0 {
		t.Fatalf("%s has %d containers: %v", deployment.GetName(), len(containers), err)
	}
	return containers[0].(map[string]any)
}
