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
	"strings"

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

// Installation returns the objects of an installation, of which each name is a file of
// charts/coder-k8s/installations: those that a user of hack/manifests.sh applies.
func Installation(ctx context.Context, names ...string) ([]*unstructured.Unstructured, error) {
	root, err := repository()
	if err != nil {
		return nil, err
	}
	return rendered(exec.CommandContext(ctx, filepath.Join(root, "hack", "manifests.sh"), names...))
}

// repository returns the directory with go.mod.
func repository() (string, error) {
	directory, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(directory, "go.mod")); err == nil {
			return directory, nil
		}
		parent := filepath.Dir(directory)
		if parent == directory {
			return "", errors.New("no directory above this one has a go.mod")
		}
		directory = parent
	}
}

// Kustomize returns the objects that "kubectl apply -k" applies for a directory. kubectl is in the
// directory KUBEBUILDER_ASSETS.
func Kustomize(ctx context.Context, directory string) ([]*unstructured.Unstructured, error) {
	return rendered(exec.CommandContext(ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), "kustomize", directory))
}

// rendered returns the objects that a command prints.
func rendered(command *exec.Cmd) ([]*unstructured.Unstructured, error) {
	var messages bytes.Buffer
	command.Stderr = &messages
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(command.Args, " "), err, messages.String())
	}
	return Objects(out)
}
