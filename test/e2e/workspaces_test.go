//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// sizedWorkspace is the sample of a workspace with a parameter, shorter.
const sizedWorkspace = `
apiVersion: aggregation.coder.com/v1alpha1
kind: CoderWorkspace
metadata: {name: coder.admin.sized, namespace: coder}
spec:
  organization: coder
  templateName: sized
  running: %t
  parameters: [{name: size, value: %q}]
`

// sizedIs waits until a workspace matches its spec, according to kstatus.
func sizedIs(t *testing.T, reason string) {
	t.Helper()
	polltest.Eventually(t, "the workspace is "+reason+" as its spec is now", func() error {
		object := get(t, "-n", sampleNamespace, "cws", "coder.admin.sized")
		if seen, now := field(object, "status", "observedGeneration"), field(object, "metadata", "generation"); seen != now {
			return fmt.Errorf("generation %s of %s was seen", seen, now)
		}
		if ready, got, message := condition(object, "Ready"); ready != "True" || got != reason {
			return fmt.Errorf("Ready=%s %s: %s", ready, got, message)
		}
		return nil
	})
}

// hasSize checks a parameter of the newest build, which is at least a number.
func hasSize(t *testing.T, client *coderd.Client, workspace coderd.Workspace, number int32, size string) {
	t.Helper()
	parameters, err := client.BuildParameters(t.Context(), workspace.LatestBuild.ID)
	if err != nil || len(parameters) != 1 || parameters[0].Value != size {
		t.Errorf("build %d has the parameters %v, not a size of %s: %v", workspace.LatestBuild.Number, parameters, size, err)
	}
	if workspace.LatestBuild.Number != number {
		t.Errorf("the newest build is %d, not %d", workspace.LatestBuild.Number, number)
	}
}

// testWorkspaces tests a workspace with a parameter. It needs the template of
// testTemplates.
func testWorkspaces(t *testing.T) {
	explain(t, sampleNamespace)
	client := login(t, sampleNamespace, "coder")

	if !t.Run("created with running: false", func(t *testing.T) {
		kubectl(t, "apply", "-f", "../../config/samples/coderworkspace-parameters.yaml")
		sizedIs(t, "Stopped")
		// Coder starts every workspace that it creates; then the operator stopped it.
		workspace := buildStatus(t, client, "admin", "sized", "stopped")
		hasSize(t, client, workspace, 2, "2")
		if workspace.Autostart == nil || workspace.TTL == nil || *workspace.TTL != time.Hour {
			t.Errorf("in Coder it starts at %v and stops after %v", workspace.Autostart, workspace.TTL)
		}
	}) {
		return
	}
	t.Run("started with another parameter", func(t *testing.T) {
		apply(t, fmt.Sprintf(sizedWorkspace, true, "3"))
		sizedIs(t, "Running")
		hasSize(t, client, buildStatus(t, client, "admin", "sized", "running"), 3, "3")
	})
	t.Run("another parameter while it runs", func(t *testing.T) {
		apply(t, fmt.Sprintf(sizedWorkspace, true, "4"))
		sizedIs(t, "Running")
		hasSize(t, client, buildStatus(t, client, "admin", "sized", "running"), 5, "4")
	})
	t.Run("bad parameters", func(t *testing.T) {
		out, err := kubectlInput(t, fmt.Sprintf(sizedWorkspace, true, "many"), "apply", "-f", "-")
		if err == nil || !containsAll(out, "spec.parameters", "many") {
			t.Errorf("a size that is no number: %v %s", err, out)
		}
	})
	t.Run("changed while it is built", func(t *testing.T) {
		w := watch(t, "cws", "coder.admin.sized", "-o", `jsonpath={.status.conditions[?(@.type=="Synced")].reason}{"\n"}`)
		polltest.Eventually(t, "the watch has begun", w.shows("Synced"))
		// Not with kubectl, which may start so slowly that the first build ends
		// before.
		kube := throughKubernetes(t)
		// On a busy machine the first build may end before the second change.
		for waits, number := false, int32(7); !waits && number <= 11; number += 2 {
			for _, change := range []string{`{"spec":{"running":false}}`, `{"spec":{"running":true,"parameters":[{"name":"size","value":"5"}]}}`} {
				status, body, err := kube.do(t.Context(), http.MethodPatch, "/coderworkspaces/coder.admin.sized", "application/merge-patch+json", change)
				if err != nil || status != http.StatusOK {
					t.Fatalf("%s: %d %v %s", change, status, err, body)
				}
				waits = strings.Contains(body, "ChangeWaits")
			}
			sizedIs(t, "Running")
			hasSize(t, client, buildStatus(t, client, "admin", "sized", "running"), number, "5")
		}
		polltest.Eventually(t, "the watch shows that it waited", w.shows("ChangeWaits"))
	})
	t.Run("deleted while it is built", func(t *testing.T) {
		build(t, client, buildStatus(t, client, "admin", "sized", "running"), "stop")
		start := time.Now()
		kubectl(t, "-n", sampleNamespace, "delete", "cws", "coder.admin.sized", "--timeout=5m")
		t.Logf("deleted after %.1f s", time.Since(start).Seconds())
		if _, err := client.WorkspaceByName(t.Context(), "admin", "sized"); !coderd.IsNotFound(err) {
			t.Errorf("it is still in Coder: %v", err)
		}
		kubectl(t, "-n", sampleNamespace, "delete", "ctpl", "coder.sized", "--timeout=5m")
	})
}
