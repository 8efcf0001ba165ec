package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
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

// TestEveryValueHasAnEffect checks that a file in testdata sets each value, and that less is rendered, or something else,
// without it.
func TestEveryValueHasAnEffect(t *testing.T) {
	raw, err := os.ReadFile(chartDir + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s schema
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	files, before := valuesFiles(t), map[string]objects{}
	for _, path := range s.leaves("", s.Definitions) {
		if !slices.ContainsFunc(files, func(file string) bool { return matters(t, before, file, strings.Split(path, ".")) }) {
			t.Errorf("no file in testdata sets %s with an effect", path)
		}
	}
}

// matters reports whether a file of values sets the value at a path, or for a value of a component that of any
// component, and renders something else without it. before has what the files render.
func matters(t *testing.T, before map[string]objects, file string, path []string) bool {
	t.Helper()
	with, rendering := read(t, file), file
	if path[0] != "crds" {
		with["crds"] = map[string]any{"install": false} // They take most of the time.
		rendering += " without definitions"
	}
	without := runtime.DeepCopyJSON(with)
	if path[0] == "components" {
		components, _, _ := unstructured.NestedMap(without, "components")
		for name := range components {
			unstructured.RemoveNestedField(without, append([]string{"components", name}, path[2:]...)...)
		}
	} else {
		unstructured.RemoveNestedField(without, path...)
	}
	if reflect.DeepEqual(with, without) {
		return false
	}
	if before[rendering] == nil {
		before[rendering] = rendered(t, write(t, with))
	}
	after, err := helm(t, namespace, write(t, without))
	return err != nil || !reflect.DeepEqual(before[rendering], after)
}

// valuesFiles returns the files of testdata.
func valuesFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no values: %v", err)
	}
	return files
}

func read(t *testing.T, file string) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(raw, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

func write(t *testing.T, values map[string]any) string {
	t.Helper()
	raw, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestArguments checks that the program accepts the arguments from the chart, and compares them with a golden file.
func TestArguments(t *testing.T) {
	var all strings.Builder
	for _, file := range valuesFiles(t) {
		for _, deployment := range rendered(t, file).ofKind("Deployment") {
			args, _, err := unstructured.NestedStringSlice(container(t, deployment), "args")
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&all, "%s: %s\n", strings.TrimSuffix(filepath.Base(file), ".values.yaml"), deployment.GetName())
			for _, arg := range args {
				fmt.Fprintf(&all, "  %s\n", arg)
			}
			options := app.NewOptions()
			flags := pflag.NewFlagSet("coder-k8s", pflag.ContinueOnError)
			for _, set := range options.FlagSets().FlagSets {
				flags.AddFlagSet(set)
			}
			if err := flags.Parse(args); err != nil {
				t.Errorf("%s: %s: %v", file, deployment.GetName(), err)
			} else if err := options.Validate(flags.Changed); err != nil {
				t.Errorf("%s: %s %q: %v", file, deployment.GetName(), args, err)
			}
		}
	}
	golden(t, "testdata/arguments.txt", all.String())
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
