//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// outage is how long the database is away.
const outage = time.Minute

// testCoderPodKilled kills the only pod of Coder without a word.
func testCoderPodKilled(t *testing.T) {
	explain(t, sampleNamespace)
	token := secretValue(t, sampleNamespace, "coder-operator-token", "token")
	start := time.Now()
	kubectl(t, "-n", sampleNamespace, "delete", "pod", "-l", "app.kubernetes.io/name=coder-control-plane", "--grace-period=0", "--force")
	waitCondition(t, 20*time.Second, "Ready", "False", "", "-n", sampleNamespace, "ccp", "coder")
	if n := field(get(t, "-n", sampleNamespace, "ccp", "coder"), "status", "readyReplicas"); n == "1" {
		t.Error("status.readyReplicas does not follow")
	}
	sampleReady(t)
	t.Logf("Ready %.1f s after the kill", time.Since(start).Seconds())
	listed(t, "coder.admin.hello")
	oneToken(t, token)
}

// listed waits until a workspace is served.
func listed(t *testing.T, workspace string) {
	t.Helper()
	eventually(t, time.Minute, "workspaces are listed", func() error {
		out, err := tryKubectl(t, "-n", sampleNamespace, "get", "coderworkspaces", "-o", "name")
		if err != nil || !strings.Contains(out, workspace) {
			return fmt.Errorf("%w %s", err, out)
		}
		return nil
	})
}

// testDatabaseStopped stops PostgreSQL for a minute under a running Coder, whose
// pods stay ready all the time.
func testDatabaseStopped(t *testing.T) {
	explain(t, sampleNamespace)
	token := secretValue(t, sampleNamespace, "coder-operator-token", "token")
	counts := countsOf(t)
	t.Cleanup(func() { clusterScriptAfter("database.sh", "start") })
	stopped := time.Now()
	clusterScript(t, "database.sh", "stop")

	// Whoever uses Coder through the cluster is told, and the control plane says why.
	eventually(t, 30*time.Second, "a list says that Coder does not work", func() error {
		out, err := tryKubectl(t, "-n", sampleNamespace, "get", "coderworkspaces", "-o", "name")
		if err == nil || !strings.Contains(out, "ServiceUnavailable") {
			return fmt.Errorf("the answer is %w %s", err, out)
		}
		t.Logf("kubectl get coderworkspaces: %s", strings.TrimSpace(out))
		return nil
	})
	message := waitCondition(t, 30*time.Second, "OperatorAccess", "False", "Unreachable", "-n", sampleNamespace, "ccp", "coder")
	t.Logf("told %.1f s after the stop: %s", time.Since(stopped).Seconds(), message)
	if !strings.Contains(message, "connection refused") || !strings.Contains(message, ":"+postgresPort()) {
		t.Errorf("the condition does not name the database: %s", message)
	}
	eventually(t, 10*time.Second, "an Event says so", func() error {
		notes := kubectl(t, "-n", sampleNamespace, "get", "events.events.k8s.io", "--field-selector=reason=Unreachable", "-o", "jsonpath={.items[*].note}")
		if !strings.Contains(notes, ":"+postgresPort()) {
			return fmt.Errorf("the Events with the reason Unreachable say %q", notes)
		}
		return nil
	})
	eventually(t, 2*outage, "the minute is over", func() error {
		if away := time.Since(stopped); away < outage {
			return fmt.Errorf("it is away for %s", away)
		}
		return nil
	})
	wrote := countsOf(t).since(counts)
	t.Logf("during the outage: %.0f writes to Kubernetes, %.0f requests to Coder", wrote.writes, wrote.coderRequests)
	if wrote.writes > 20 {
		t.Errorf("the operator wrote %.0f times", wrote.writes)
	}

	started := time.Now()
	clusterScript(t, "database.sh", "start")
	sampleReady(t)
	t.Logf("Ready %.1f s after the start", time.Since(started).Seconds())
	listed(t, "coder.admin.hello")
	oneToken(t, token)
}
