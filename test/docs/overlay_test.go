package docs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// TestFurtherNamespace renders the overlay in watch-some-namespaces.md with the components that add
// arguments. These remain, and the operator watches the further namespace too.
func TestFurtherNamespace(t *testing.T) {
	program(t, "kubectl")
	blocks := yamlBlock.FindAllStringSubmatch(read(t, "docs/how-to/watch-some-namespaces.md"), -1)
	if len(blocks) != 2 {
		t.Fatalf("the page has %d manifests, not the one of the namespace and the overlay", len(blocks))
	}
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	if err := os.Symlink(repository, filepath.Join(directory, "coder-k8s")); err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(directory, "my-coder")
	if err := os.MkdirAll(filepath.Join(overlay, "team-a"), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"team-a/kustomization.yaml": blocks[0][1],
		"kustomization.yaml": blocks[1][1] +
			"components:\n- ../coder-k8s/config/components/cert-manager\n- ../coder-k8s/config/components/apiserver-port\n",
	} {
		if err := os.WriteFile(filepath.Join(overlay, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := kubetest.Kustomize(t.Context(), overlay)
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	bindings := map[string]int{}
	for _, o := range objects {
		switch o.GetKind() {
		case "Deployment":
			containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			args, _, _ = unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
		case "RoleBinding":
			bindings[o.GetNamespace()]++
		}
	}
	for _, want := range []string{"--app=all", "--watch-namespaces=coder,team-a", "--tls-cert-file=/etc/coder-k8s/apiserver-tls/tls.crt", "--secure-port=10250"} {
		if !slices.Contains(args, want) {
			t.Errorf("the arguments %q have no %s", args, want)
		}
	}
	if bindings["team-a"] == 0 || bindings["team-a"] != bindings["coder"] {
		t.Errorf("the namespaces have these numbers of RoleBindings: %v", bindings)
	}
}
