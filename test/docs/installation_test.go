package docs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// block returns the first manifest of a page.
func block(t *testing.T, page string) string {
	t.Helper()
	found := yamlBlock.FindStringSubmatch(read(t, page))
	if found == nil {
		t.Fatalf("%s has no manifest", page)
	}
	return found[1]
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// argumentsOf returns the arguments and the image of each Deployment.
func argumentsOf(all []*unstructured.Unstructured) (arguments map[string][]string, images map[string]string) {
	arguments, images = map[string][]string{}, map[string]string{}
	for _, o := range all {
		if o.GetKind() == "Deployment" {
			containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			container := containers[0].(map[string]any)
			arguments[o.GetName()], _, _ = unstructured.NestedStringSlice(container, "args")
			images[o.GetName()], _, _ = unstructured.NestedString(container, "image")
		}
	}
	return arguments, images
}

// TestOtherNamespaces renders the values in watch-some-namespaces.md together with others that add arguments.
func TestOtherNamespaces(t *testing.T) {
	program(t, "kubectl")
	values := filepath.Join(t.TempDir(), "my-values.yaml")
	writeFile(t, values, block(t, "docs/how-to/watch-some-namespaces.md"))
	objects, err := kubetest.Installation(t.Context(), "cert-manager", "port-10250", values)
	if err != nil {
		t.Fatal(err)
	}
	bindings := map[string]int{}
	for _, o := range objects {
		if o.GetKind() == "RoleBinding" {
			bindings[o.GetNamespace()]++
		}
	}
	arguments, _ := argumentsOf(objects)
	for _, want := range []string{"--app=all", "--watch-namespaces=coder,team-a", "--tls-cert-file=/etc/coder-k8s/apiserver-tls/tls.crt", "--secure-port=10250"} {
		if !slices.Contains(arguments["coder-k8s"], want) {
			t.Errorf("the arguments %q have no %s", arguments["coder-k8s"], want)
		}
	}
	if bindings["team-a"] == 0 || bindings["team-a"] != bindings["coder"] {
		t.Errorf("the namespaces have these numbers of RoleBindings: %v", bindings)
	}
}

// TestKustomization builds the kustomization in customize-with-kustomize.md on rendered manifests.
func TestKustomization(t *testing.T) {
	program(t, "kubectl")
	directory := t.TempDir()
	base, err := kubetest.Installation(t.Context(), "split", "ha", "network-policies")
	if err != nil {
		t.Fatal(err)
	}
	var manifests strings.Builder
	for _, o := range base {
		raw, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		manifests.WriteString("---\n" + string(raw) + "\n")
	}
	writeFile(t, filepath.Join(directory, "install.yaml"), manifests.String())
	writeFile(t, filepath.Join(directory, "kustomization.yaml"), block(t, "docs/how-to/customize-with-kustomize.md"))
	objects, err := kubetest.Kustomize(t.Context(), directory)
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != len(base) {
		t.Errorf("there are %d objects, and %d in the base", len(objects), len(base))
	}
	arguments, images := argumentsOf(objects)
	if !slices.Contains(arguments["coder-k8s-controller"], "--log-level=debug") || !slices.Contains(arguments["coder-k8s-controller"], "--app=controller") {
		t.Errorf("the arguments are %v", arguments)
	}
	for name, image := range images {
		if !strings.HasPrefix(image, "registry.example.com/team/coder-k8s@sha256:") {
			t.Errorf("the image of %s is %s", name, image)
		}
	}
	for _, o := range objects {
		if o.GetKind() == "Deployment" && o.GetName() == "coder-k8s-controller" {
			raw, _ := o.MarshalJSON()
			if want := `{"name":"POD_IMAGE","value":"` + images["coder-k8s-controller"] + `"}`; !strings.Contains(string(raw), want) {
				t.Errorf("there is no %s in %s", want, raw)
			}
		}
	}
}
