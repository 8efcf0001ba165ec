//go:build e2e

package argocd

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// load returns the objects of a scenario, with the label by which the engine
// identifies them.
func load(t *testing.T, s scenario) []*unstructured.Unstructured {
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

// eventually polls until the check returns no error.
func eventually(t *testing.T, patience time.Duration, what string, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-ticker.C:
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
