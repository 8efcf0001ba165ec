//go:build e2e

package e2e

import "testing"

// testPrometheus scrapes the operator with a real Prometheus, and runs every query
// of the alerts and of the dashboard.
func testPrometheus(t *testing.T) {
	runScript(t, "../../hack/monitoring/cluster-test.sh")
}
