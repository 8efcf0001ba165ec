//go:build e2e

package e2e

import (
	"context"
	"os/exec"
	"testing"
	"time"
)

// testWaysOfInstallation changes from one kustomization to another, while a Coder stays
// unchanged.
func testWaysOfInstallation(t *testing.T) {
	runScript(t, "../../hack/install-test.sh")
}

// testHelmChart installs, changes and removes a release of the operator's chart.
func testHelmChart(t *testing.T) {
	runScript(t, "../../hack/chart/cluster-test.sh")
}

// runScript runs one of the scripts that are tests themselves, and prints its output.
func runScript(t *testing.T, script string) {
	t.Helper()
	// Longer than all their waits together.
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, script).CombinedOutput()
	t.Logf("\n%s", out)
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
}
