//go:build e2e

package argocd

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// load is the objects of a story, with the label by which the engine knows them.
func load(t *testing.T, s story) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, obj := range s.objects {
		raw, err := os.ReadFile(filepath.Join("testdata", obj.file))
		must(t, err)
		read := &unstructured.Unstructured{}
		must(t, yaml.Unmarshal(raw, &read.Object))
		labels := read.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[tracking] = t.Name()
		read.SetLabels(labels)
		all = append(all, read)
	}
	return all
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
