package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

const (
	root      = "../.."
	chartDir  = root + "/charts/coder-k8s"
	namespace = "coder-system"
)

// objects are the objects of a rendering, by kind, namespace and name.
type objects map[string]*unstructured.Unstructured

// helm renders the chart with a values file, or without one if values is "". It returns
// the error of helm as users see it.
func helm(t *testing.T, inNamespace, values string, args ...string) (objects, error) {
	t.Helper()
	dir := os.Getenv("TOOLS_DIR")
	if dir == "" {
		t.Skip("TOOLS_DIR does not say where helm is; make test does")
	}
	// The API versions of a supported cluster, which helm cannot discover without a cluster.
	all := append([]string{
		"template", "coder-k8s", chartDir, "--namespace", inNamespace,
		"--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy",
	}, args...)
	if values != "" {
		all = append(all, "--values", values)
	}
	out, err := run(t.Context(), filepath.Join(dir, "helm"), all...)
	if err != nil {
		return nil, err
	}
	return parse(t, out), nil
}

// rendered returns the chart with valid values.
func rendered(t *testing.T, values string) objects {
	t.Helper()
	o, err := helm(t, namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// run returns the standard output of a command, or its error message.
func run(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, errors.New(strings.TrimSpace(stderr.String()))
	}
	return out, err
}

func parse(t *testing.T, manifests []byte) objects {
	t.Helper()
	all, err := kubetest.Objects(manifests)
	if err != nil {
		t.Fatal(err)
	}
	return byName(t, all)
}

// byName returns the objects by kind, namespace and name, of which no two may be equal.
func byName(t *testing.T, all []*unstructured.Unstructured) objects {
	t.Helper()
	o := objects{}
	for _, object := range all {
		key := fmt.Sprintf("%s %s", object.GetKind(), strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/"))
		if o[key] != nil {
			t.Errorf("%s is rendered twice", key)
		}
		o[key] = object
	}
	return o
}

func (o objects) names() []string { return slices.Sorted(maps.Keys(o)) }

// ofKind returns the objects of one kind, in the order of their names.
func (o objects) ofKind(kind string) []*unstructured.Unstructured {
	var of []*unstructured.Unstructured
	for _, name := range o.names() {
		if o[name].GetKind() == kind {
			of = append(of, o[name])
		}
	}
	return of
}
