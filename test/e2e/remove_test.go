//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// testRemove deletes everything, from the workspace to the operator.
func testRemove(t *testing.T) {
	explain(t, sampleNamespace)
	kubectl(t, "-n", sampleNamespace, "delete", "coderworkspace", "coder.admin.hello", "--timeout=5m")
	client := login(t, sampleNamespace, "coder")
	if _, err := client.WorkspaceByName(t.Context(), "admin", "hello"); !coderd.IsNotFound(err) {
		t.Errorf("the workspace is still in Coder: %v", err)
	}
	kubectl(t, "-n", sampleNamespace, "delete", "codertemplate", "coder.hello", "--timeout=5m")

	if tokens := tokensOf(t, client); len(tokens) != 1 {
		t.Fatalf("the operator has not one token before the deletion: %v", tokens)
	}
	start := time.Now()
	kubectl(t, "-n", sampleNamespace, "delete", "ccp", "coder", "--timeout=5m")
	t.Logf("control plane deleted after %.1f s", time.Since(start).Seconds())
	if n := query(t, "coder", "SELECT count(*) FROM api_keys WHERE token_name LIKE 'coder-k8s-operator-%'"); n != "0" {
		t.Errorf("%s tokens of the operator are still valid in Coder", n)
	}

	kubectl(t, "delete", "namespace", sampleNamespace, "--timeout=5m")
	// Whole namespaces were deleted with their control planes: the operator
	// removes their finalizers, and must be running to do so.
	for _, ns := range []string{"trouble-db", "trouble-image", "trouble-owner", "users"} {
		start := time.Now()
		kubectl(t, "wait", "--for=delete", "namespace/"+ns, "--timeout=5m")
		t.Logf("namespace %s was gone after %.1f s more", ns, time.Since(start).Seconds())
	}
	kubectl(t, "delete", "-k", "../../config/default", "--timeout=5m")
	out := kubectl(t, "get", "crd,clusterrole,clusterrolebinding,apiservice", "-o", "name")
	for _, line := range strings.Split(out, "\n") {
		if strings.Contains(line, "/coder-k8s-") || strings.Contains(line, "coder.com") {
			t.Errorf("left behind: %s", line)
		}
	}
}
