package chart

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestBindings checks with each file of values that every binding binds a ServiceAccount of the release to a role of the
// release or of Kubernetes: another account of that name would have its permissions.
func TestBindings(t *testing.T) {
	for _, file := range valuesFiles(t) {
		release := rendered(t, file)
		for name, object := range release {
			if !strings.HasSuffix(object.GetKind(), "RoleBinding") {
				continue
			}
			kind, _, _ := unstructured.NestedString(object.Object, "roleRef", "kind")
			role, _, _ := unstructured.NestedString(object.Object, "roleRef", "name")
			found := release[kind+" "+role] != nil || release[kind+" "+object.GetNamespace()+"/"+role] != nil
			if strings.HasPrefix(role, "coder-k8s") != found {
				t.Errorf("%s: %s refers to %s %s, which is in the release: %t", file, name, kind, role, found)
			}
			subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
			for _, subject := range subjects {
				s := subject.(map[string]any)
				account := fmt.Sprintf("%s %s/%s", s["kind"], s["namespace"], s["name"])
				if s["namespace"] != namespace || release[account] == nil {
					t.Errorf("%s: %s binds %s, which is not in the release", file, name, account)
				}
			}
			if len(subjects) == 0 {
				t.Errorf("%s: %s binds nobody", file, name)
			}
		}
	}
}

// TestHooks compares what only Helm runs, the pod of helm test, and its permissions with a golden file, for those values
// that change them.
func TestHooks(t *testing.T) {
	var all strings.Builder
	for _, values := range []string{"no-people", "split-namespaced", "split-without-mcp", "network-policies"} {
		release := rendered(t, "testdata/"+values+".values.yaml")
		fmt.Fprintf(&all, "%s\n", values)
		for _, name := range release.names() {
			object := release[name]
			if object.GetAnnotations()["helm.sh/hook"] == "" && object.GetName() != "coder-k8s-test" {
				continue
			}
			fmt.Fprintf(&all, "  %s %v\n", name, object.GetAnnotations())
			for _, line := range purpose(t, object) {
				fmt.Fprintf(&all, "    %s\n", line)
			}
		}
	}
	golden(t, "testdata/hooks.txt", all.String())
}

// purpose returns what an object grants or runs, as lines of JSON.
func purpose(t *testing.T, object *unstructured.Unstructured) []string {
	t.Helper()
	var lines []string
	for _, field := range [][]string{
		{"rules"}, {"roleRef"}, {"subjects"}, {"spec", "serviceAccountName"}, {"spec", "containers"},
		{"spec", "egress"}, {"spec", "securityContext"},
	} {
		value, found, err := unstructured.NestedFieldNoCopy(object.Object, field...)
		if err != nil {
			t.Fatal(err)
		}
		list, isList := value.([]any)
		if !isList {
			list = []any{value}
		}
		for _, entry := range list {
			raw, err := json.Marshal(entry)
			if err != nil {
				t.Fatal(err)
			}
			if found {
				lines = append(lines, string(raw))
			}
		}
	}
	return lines
}

// TestAnotherNamespace checks that no object of a release names the namespace of the
// manifests.
func TestAnotherNamespace(t *testing.T) {
	o, err := helm(t, "elsewhere", "testdata/everything.values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, object := range o {
		if object.GetKind() == "CustomResourceDefinition" {
			continue // Their descriptions may contain the usual namespace of the operator.
		}
		raw, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), namespace) {
			t.Errorf("%s names %s: %s", name, namespace, raw)
		}
	}
}

// golden compares a text with a golden file.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-) and what is rendered (+); go test ./test/chart -update writes it anew:\n%s", path, diff)
	}
}
