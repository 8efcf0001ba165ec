package kubetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Objects returns the objects in YAML documents. Empty documents are skipped.
func Objects(manifests []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(&object.Object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("reading manifests: %w", err)
		case len(object.Object) > 0:
			objects = append(objects, object)
		}
	}
}

// Kustomize returns the objects that "kubectl apply -k" applies for a directory. kubectl is in the
// directory KUBEBUILDER_ASSETS.
func Kustomize(ctx context.Context, directory string) ([]*unstructured.Unstructured, error) {
	var messages bytes.Buffer
	command := exec.CommandContext(ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), "kustomize", directory)
	command.Stderr = &messages
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("kubectl kustomize %s: %w: %s", directory, err, messages.String())
	}
	return Objects(out)
}
