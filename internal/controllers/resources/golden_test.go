package resources

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestGolden(t *testing.T) {
	files := map[string]any{}
	for name, w := range workloads() {
		for kind, obj := range objects(t, w) {
			files[name+"-"+kind] = obj
		}
	}
	compareGoldens(t, ".", files)
}

// compareGoldens compares objects with the files of a directory. Each file must belong to an
// object.
func compareGoldens(t *testing.T, dir string, objects map[string]any) {
	t.Helper()
	for name, obj := range objects {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name+".yaml")
			compareGolden(t, file, obj)
			decodesStrictly(t, file, obj)
		})
	}
	entries, err := os.ReadDir(filepath.Join("testdata", dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if _, used := objects[strings.TrimSuffix(entry.Name(), ".yaml")]; !used && !entry.IsDir() {
			t.Errorf("testdata/%s/%s is of an object that is not made any more; delete it", dir, entry.Name())
		}
	}
}

// deployment returns the Deployment of a workload that has one.
func deployment(t *testing.T, w Workload) *appsv1.Deployment {
	t.Helper()
	d, err := Deployment(w)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func compareGolden(t *testing.T, file string, obj any) {
	t.Helper()
	got, err := yaml.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; go test -update writes it anew):\n%s", file, diff)
	}
}

// decodesStrictly reads the file back as its kind. The file may not contain unknown fields, and no
// value may be lost.
func decodesStrictly(t *testing.T, file string, obj any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	read := reflect.New(reflect.TypeOf(obj).Elem()).Interface()
	if err := yaml.UnmarshalStrict(raw, read); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	again, err := yaml.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	if string(again) != string(raw) {
		t.Errorf("%s is another object when it is read back:\n%s", file, cmp.Diff(string(raw), string(again)))
	}
	for _, field := range []string{"apiVersion: ", "kind: ", "  name: ", "  namespace: "} {
		if !strings.Contains(string(raw), field) {
			t.Errorf("%s says no %s", file, field)
		}
	}
}
