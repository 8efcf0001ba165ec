package manifests

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// update rewrites the golden files: go test ./test/manifests -update.
var update = flag.Bool("update", false, "write the golden files")

const (
	chartDir          = "../../charts/coder-k8s"
	operatorNamespace = "coder-system"
	labelName         = "app.kubernetes.io/name"
	program           = "coder-k8s"
)

// installations returns the arguments of hack/manifests.sh by the name of the installation: every file of
// charts/coder-k8s/installations, and combinations.
func installations() (map[string][]string, error) {
	found := map[string][]string{
		"everything":        {"split-ha", "network-policies", "cert-manager"},
		"namespaced-closed": {"namespaced", "ha", "network-policies", "cert-manager"},
		"private":           {"network-policies", "port-10250"},
		"split-namespaced":  {"testdata/values/split-namespaced.yaml"},
		"cloudnativepg":     {"testdata/values/cloudnativepg.yaml"},
	}
	files, err := filepath.Glob(chartDir + "/installations/*.yaml")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		found[name] = []string{name}
	}
	return found, err
}

// rendering contains the objects that kubectl would apply for an installation.
type rendering []*unstructured.Unstructured

func renderAll(ctx context.Context) (map[string]rendering, error) {
	names, err := installations()
	if err != nil {
		return nil, err
	}
	found := map[string]rendering{}
	for name, arguments := range names {
		if found[name], err = kubetest.Installation(ctx, arguments...); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// eachInstallation runs a test for each variant of the installation.
func eachInstallation(t *testing.T, test func(t *testing.T, name string, objects rendering)) {
	t.Helper()
	for name, objects := range environment.installations {
		t.Run(name, func(t *testing.T) { test(t, name, objects) })
	}
}

// ofKind returns all objects of a kind, typed. A field that the type does not have is
// an error.
func ofKind[T any](t *testing.T, objects rendering, kind string) []*T {
	t.Helper()
	var found []*T
	for _, object := range objects {
		if object.GetKind() != kind {
			continue
		}
		typed := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
			t.Fatalf("%s: %v", describe(object), err)
		}
		found = append(found, typed)
	}
	return found
}

func describe(object *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())
}

// golden compares a text with a golden file.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s; look at the difference, and if it is meant: go test ./test/manifests -update\n%s", path, difference(string(want), got))
	}
}
