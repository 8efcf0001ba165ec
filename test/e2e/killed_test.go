//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const (
	crashTemplate = `{"apiVersion": "aggregation.coder.com/v1alpha1", "kind": "CoderTemplate",
		"metadata": {"name": "coder.crash", "namespace": "coder", "labels": {"example.com/story": "crash"}},
		"spec": {"organization": "coder", "files": {"main.tf": %q, "README.md": %q}}}`
	crashWorkspace = `{"apiVersion": "aggregation.coder.com/v1alpha1", "kind": "CoderWorkspace",
		"metadata": {"name": "coder.admin.crash", "namespace": "coder", "labels": {"example.com/story": "crash"}},
		"spec": {"organization": "coder", "templateName": "crash", "running": %t}}`
)

// crashCounts returns the numbers of versions of the template, of builds of the
// workspace, and of versions that belong to no template.
func crashCounts(t *testing.T) string {
	t.Helper()
	return query(t, "coder", `SELECT
		(SELECT count(*) FROM template_versions WHERE template_id IS NULL OR template_id IN (SELECT id FROM templates WHERE name = 'crash')) || ' versions, ' ||
		(SELECT count(*) FROM workspaces WHERE name = 'crash') || ' workspaces, ' ||
		(SELECT count(*) FROM workspace_builds WHERE workspace_id IN (SELECT id FROM workspaces WHERE name = 'crash')) || ' builds'`)
}

// killedOnceTold runs kubectl and kills the operator as soon as Coder has received a
// change, if possible while kubectl waits for its response. Then it repeats the
// command, as users do, until it succeeds.
func killedOnceTold(t *testing.T, manifest string, args ...string) {
	t.Helper()
	pod := strings.TrimSpace(kubectl(t, "-n", "coder-system", "get", "pods", "-l", operatorLabel, "-o", "jsonpath={.items[0].metadata.name}"))
	kill, before, first := killer(t, pod), crashCounts(t), make(chan string, 1)
	go func() {
		out, err := kubectlInput(t, manifest, args...)
		first <- fmt.Sprintf("%v %s", err, strings.TrimSpace(out))
	}()
	ctx, cancel := context.WithTimeout(t.Context(), polltest.Timeout())
	defer cancel()
	every(ctx, 5*time.Millisecond, func() {
		if crashCounts(t) != before {
			kill()
			cancel()
		}
	})
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Fatalf("Coder still has %s: %s", before, <-first)
	}
	// A new pod starts without the back-off of a crashed container.
	kubectl(t, "-n", "coder-system", "delete", "pod", pod, "--grace-period=0", "--force")
	t.Logf("kubectl %s, under the kill: %s", args[0], <-first)
	serving(t)
	polltest.Eventually(t, "the same again is accepted", func() error {
		out, err := kubectlInput(t, manifest, args...)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// testKilledDuringWrites kills the operator in the middle of each kind of write:
// repeating the command completes the write, and nothing is created twice.
func testKilledDuringWrites(t *testing.T) {
	explain(t, sampleNamespace)
	main := fmt.Sprintf("# %d\nresource \"terraform_data\" \"crash\" {}\n", time.Now().UnixNano())
	template, workspace := []string{"-n", sampleNamespace, "ctpl", "coder.crash"}, []string{"-n", sampleNamespace, "cws", "coder.admin.crash"}
	apply := []string{"apply", "-f", "-"}
	expect := func(want string) {
		t.Helper()
		if now := crashCounts(t); now != want {
			t.Errorf("Coder has %s, not %s", now, want)
		}
	}

	killedOnceTold(t, fmt.Sprintf(crashTemplate, main, "one"), apply...)
	waitCondition(t, "Ready", "True", "Active", template...)
	expect("1 versions, 0 workspaces, 0 builds")
	killedOnceTold(t, fmt.Sprintf(crashTemplate, main, "two"), apply...)
	waitCondition(t, "Ready", "True", "Active", template...)
	expect("2 versions, 0 workspaces, 0 builds")

	// It is created, started by Coder, and then stopped by the replica that is the
	// writer at that time.
	killedOnceTold(t, fmt.Sprintf(crashWorkspace, false), apply...)
	waitCondition(t, "Ready", "True", "Stopped", workspace...)
	expect("2 versions, 1 workspaces, 2 builds")
	killedOnceTold(t, fmt.Sprintf(crashWorkspace, true), apply...)
	waitCondition(t, "Ready", "True", "Running", workspace...)
	expect("2 versions, 1 workspaces, 3 builds")
	if out := kubectl(t, "-n", sampleNamespace, "get", "cws,ctpl", "-l", "example.com/story=crash", "-o", "name"); strings.Count(out, "\n") != 2 {
		t.Errorf("the labels are not on both objects: %s", out)
	}

	killedOnceTold(t, "", "-n", sampleNamespace, "delete", "cws", "coder.admin.crash", "--ignore-not-found", "--timeout=60s")
	expect("2 versions, 1 workspaces, 4 builds")
	if _, err := login(t, sampleNamespace, "coder").WorkspaceByName(t.Context(), "admin", "crash"); !coderd.IsNotFound(err) {
		t.Errorf("the workspace is still in Coder: %v", err)
	}
	kubectl(t, "-n", sampleNamespace, "delete", "ctpl", "coder.crash", "--timeout=5m")
}
