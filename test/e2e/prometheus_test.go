//go:build e2e

package e2e

import "testing"

// testPrometheus lets a real Prometheus scrape the operator, and asks it every query
// of the alerts and of the dashboard.
func testPrometheus(t *testing.T) {
	runScript(t, "../../hack/monitoring/cluster-test.sh")
}
