package integration

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// TestStaticCoder serves one Coder from the command line, in one namespace,
// without any control plane in the cluster.
func TestStaticCoder(t *testing.T) {
	coder := coderdtest.New(t)
	token := coder.AddUser("root", "owner")
	template := coder.AddTemplate("coder", "hello", map[string]string{"main.tf": "# nothing\n"})
	coder.AddWorkspace("root", template, "one")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ns := namespace(t)
	p := startProcess(t, "", "--app=aggregated-apiserver", "--coder-url", coder.URL, "--coder-session-token-file", file, "--coder-namespace", ns)
	p.ready(t)
	serve(t, p)
	list := &aggregationv1alpha1.CoderWorkspaceList{}
	if err := environment.client.List(t.Context(), list, client.InNamespace(ns)); err != nil || len(list.Items) != 1 || list.Items[0].Name != "coder.root.one" {
		t.Errorf("the list is %+v, error %v", list.Items, err)
	}
	if err := environment.client.List(t.Context(), list, client.InNamespace(namespace(t))); err != nil || len(list.Items) != 0 {
		t.Errorf("another namespace has %+v, error %v", list.Items, err)
	}
}
