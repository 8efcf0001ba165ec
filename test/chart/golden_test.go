package chart

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGoldens: each testdata/NAME.golden.yaml contains the changes by
// NAME.values.yaml: the objects that differ from those with the default values, and
// the names of removed objects.
func TestGoldens(t *testing.T) {
	files, err := filepath.Glob("testdata/*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no values: %v", err)
	}
	fallback := rendered(t, "")
	compare(t, "testdata/default.golden.yaml", written(t, handwritten(fallback)))
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".values.yaml"), func(t *testing.T) {
			compare(t, strings.Replace(file, ".values.", ".golden.", 1), changes(t, fallback, rendered(t, file)))
		})
	}
}

// handwritten returns the objects whose templates are not generated from config.
func handwritten(o objects) objects {
	few := maps.Clone(o)
	for name, object := range few {
		switch object.GetKind() {
		case "Deployment", "ServiceAccount", "Service", "APIService", "Pod", "Job", "Secret":
		default:
			delete(few, name)
		}
	}
	return few
}

// changes returns the objects of after that are new or different from before.
func changes(t *testing.T, before, after objects) string {
	t.Helper()
	var b strings.Builder
	for _, name := range before.names() {
		if after[name] == nil {
			b.WriteString("# Not there: " + name + "\n")
		}
	}
	changed := objects{}
	for name, object := range after {
		if before[name] == nil || !reflect.DeepEqual(before[name].Object, object.Object) {
			changed[name] = object
		}
	}
	b.WriteString(written(t, changed))
	return b.String()
}

// fromConfig are kinds whose templates are generated, and whose content is compared
// with config.
var fromConfig = []string{"CustomResourceDefinition", "ClusterRole", "Role", "ValidatingAdmissionPolicy", "PrometheusRule", "ConfigMap"}

// written returns objects as YAML, ordered by name. For objects from config it
// contains only the metadata.
func written(t *testing.T, o objects) string {
	t.Helper()
	var b strings.Builder
	for _, name := range o.names() {
		content := o[name].Object
		if slices.Contains(fromConfig, o[name].GetKind()) {
			content = map[string]any{"kind": content["kind"], "metadata": content["metadata"]}
		}
		raw, err := yaml.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("---\n" + string(raw))
	}
	return b.String()
}

func compare(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-) and what is rendered (+); go test ./test/chart -update writes it anew:\n%s", path, diff)
	}
}

// TestGoldensHaveValues checks that every golden file has a values file.
func TestGoldensHaveValues(t *testing.T) {
	files, err := filepath.Glob("testdata/*.golden.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(file string) bool { return filepath.Base(file) == "default.golden.yaml" })
	for _, file := range files {
		if _, err := os.Stat(strings.Replace(file, ".golden.", ".values.", 1)); err != nil {
			t.Errorf("%s belongs to no values: %v", file, err)
		}
	}
}
