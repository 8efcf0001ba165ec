//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const (
	restartedAt    = "kubectl.kubernetes.io/restartedAt"
	configChecksum = "coder.com/config-checksum"
)

// templateAnnotation reads an annotation of the sample's pod template.
func templateAnnotation(t *testing.T, name string) string {
	t.Helper()
	return field(get(t, "-n", sampleNamespace, "deployment", "coder"), "spec", "template", "metadata", "annotations", name)
}

// testSecretChanged changes the content of the database's Secret: the pods are
// replaced without a change of the control plane.
func testSecretChanged(t *testing.T) {
	explain(t, sampleNamespace)
	before := templateAnnotation(t, configChecksum)
	url := databaseURL("coder") + "&application_name=e2e-renamed"
	start := time.Now()
	kubectl(t, "-n", sampleNamespace, "patch", "secret", "coder-db", "--type=merge", "-p", fmt.Sprintf(`{"stringData":{"url":%q}}`, url))
	polltest.Eventually(t, "Coder uses the new address", func() error {
		n := query(t, "postgres", "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'e2e-renamed'")
		if n == "0" {
			return fmt.Errorf("no connection has the new name")
		}
		return nil
	})
	sampleReady(t)
	t.Logf("the pods have the new address after %.1f s", time.Since(start).Seconds())
	if after := templateAnnotation(t, configChecksum); before == "" || after == before {
		t.Errorf("the checksum was %q and is %q", before, after)
	}
}

// testRestarted restarts the pods with kubectl, which the operator does not
// revert.
func testRestarted(t *testing.T) {
	explain(t, sampleNamespace)
	kubectl(t, "-n", sampleNamespace, "rollout", "restart", "deploy/coder")
	at := templateAnnotation(t, restartedAt)
	kubectl(t, "-n", sampleNamespace, "rollout", "status", "deploy/coder", "--timeout=5m")
	sampleReady(t)
	// A later write of the operator does not revert it either.
	patchSample(t, `{"deployment":{"annotations":{"e2e":"restarted"}}}`)
	if now := templateAnnotation(t, restartedAt); at == "" || now != at {
		t.Errorf("%s was %q and is %q", restartedAt, at, now)
	}
	if _, withPods := replicaSets(t); withPods != 1 {
		t.Errorf("%d ReplicaSets have pods", withPods)
	}
}

const autoscaler = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: coder, namespace: coder}
spec:
  scaleTargetRef: {apiVersion: coder.com/v1alpha1, kind: CoderControlPlane, name: coder}
  minReplicas: 1
  maxReplicas: 2
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
`

// testScaled scales through the scale subresource, manually and with an
// autoscaler, which finds the pods even without metrics.
func testScaled(t *testing.T) {
	explain(t, sampleNamespace)
	apply(t, autoscaler)
	t.Cleanup(func() { cleanup("-n", sampleNamespace, "delete", "hpa", "coder", "--ignore-not-found") })
	hpa := []string{"-n", sampleNamespace, "hpa", "coder"}
	waitCondition(t, "AbleToScale", "True", "", hpa...)
	// It fails at the metrics, so it could use the selector.
	message := waitCondition(t, "ScalingActive", "False", "FailedGetResourceMetric", hpa...)
	t.Logf("the autoscaler: %s", message)
	kubectl(t, "-n", sampleNamespace, "delete", "hpa", "coder")

	kubectl(t, "-n", sampleNamespace, "scale", "codercontrolplane", "coder", "--replicas=0")
	waitCondition(t, "Ready", "True", "ScaledToZero", "-n", sampleNamespace, "ccp", "coder")
	kubectl(t, "-n", sampleNamespace, "scale", "ccp/coder", "--replicas=1")
	sampleReady(t)
	listed(t, "coder.admin.hello")
}

const podTemplate = `
metadata:
  annotations: {example.com/team: platform}
spec:
  priorityClassName: system-cluster-critical
  initContainers:
  - {name: greet, image: "coder-k8s.local/busybox:1", command: [sh, -c, "echo hello"], securityContext: {
      runAsUser: 1000, runAsNonRoot: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}}
`

// checkPodTemplate checks that the additions of podTemplate are in the pods of a
// control plane.
func checkPodTemplate(t *testing.T, namespace string) {
	t.Helper()
	pod := get(t, "-n", namespace, "pods", "-l", "app.kubernetes.io/name=coder-control-plane")
	text, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"example.com/team":"platform"`, `"priorityClassName":"system-cluster-critical"`, `"name":"greet"`, `"reason":"Completed"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the pods have no %s", want)
		}
	}
}

// indented puts text under a key of a manifest.
func indented(text string, by int) string {
	prefix := strings.Repeat(" ", by)
	return prefix + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+prefix) + "\n"
}
