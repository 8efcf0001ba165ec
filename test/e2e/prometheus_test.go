//go:build e2e

package e2e

import (
	"context"
	"os/exec"
	"testing"
	"time"
)

// testPrometheus lets a real Prometheus scrape the operator, and asks it every query
// of the alerts and of the dashboard.
func testPrometheus(t *testing.T) {
	// It compiles a test of its own, which takes minutes with an empty cache.
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "../../hack/monitoring/cluster-test.sh").CombinedOutput()
	t.Logf("\n%s", out)
	if err != nil {
		t.Fatalf("hack/monitoring/cluster-test.sh: %v", err)
	}
}
