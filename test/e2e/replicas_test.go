//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const (
	mirrorLease = "coder-k8s-aggregated-api"
	// afterKill and afterStop limit the time without successful writes after the leader
	// was killed, and after it was stopped: ten times the six and two seconds of the
	// design, because the machine may be busy. The measured times are logged.
	afterKill = time.Minute
	afterStop = 20 * time.Second
)

// mirrorLeaderPod returns the name of the replica that mirrors, or "" if there is none
// yet.
func mirrorLeaderPod(t *testing.T) string {
	t.Helper()
	holder := field(get(t, "-n", "coder-system", "lease", mirrorLease), "spec", "holderIdentity")
	name, _, _ := strings.Cut(holder, "_")
	return name
}

// replicaPods returns the addresses of the operator's pods by their names.
func replicaPods(t *testing.T) map[string]string {
	t.Helper()
	pods := map[string]string{}
	for _, pod := range list(t, "-n", "coder-system", "pods", "-l", operatorLabel) {
		pods[field(pod, "metadata", "name")] = field(pod, "status", "podIP")
	}
	return pods
}

// killProcess kills the process of a pod of the operator with SIGKILL. The kubelet starts
// it again.
func killProcess(t *testing.T, pod string) {
	t.Helper()
	killer(t, pod)()
}

// killer returns killProcess with its lookups already done.
func killer(t *testing.T, pod string) func() {
	t.Helper()
	id := kubectl(t, "-n", "coder-system", "get", "pod", pod, "-o", "jsonpath={.status.containerStatuses[0].containerID}")
	return func() {
		t.Helper()
		nodeShell(t, "ctr", "-n", "k8s.io", "tasks", "kill", "-s", "SIGKILL", strings.TrimPrefix(id, "containerd://"))
	}
}

// scaleOperator sets the number of replicas, and waits until exactly these exist and are
// ready, including replicas whose process was restarted.
func scaleOperator(t *testing.T, replicas int) {
	t.Helper()
	kubectl(t, "-n", "coder-system", "scale", "deploy/coder-k8s", fmt.Sprintf("--replicas=%d", replicas))
	kubectl(t, "-n", "coder-system", "rollout", "status", "deploy/coder-k8s", "--timeout=5m")
	polltest.Eventually(t, fmt.Sprintf("the operator has %d pods", replicas), func() error {
		pods, leader := replicaPods(t), mirrorLeaderPod(t)
		if _, writes := pods[leader]; len(pods) != replicas || !writes {
			return fmt.Errorf("the pods are %v, and %s mirrors", pods, leader)
		}
		return podsServe(t)
	})
}

const reader = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: e2e-reader, namespace: coder}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: e2e-reader, namespace: coder}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: e2e-reader, namespace: coder}]
`

// testReplicas removes the leader among three replicas, while clients read, watch and
// write.
func testReplicas(t *testing.T) {
	explain(t, sampleNamespace)
	apply(t, reader)
	token := strings.TrimSpace(kubectl(t, "-n", sampleNamespace, "create", "token", "e2e-reader"))
	scaleOperator(t, 3)
	t.Cleanup(func() { cleanup("-n", "coder-system", "scale", "deploy/coder-k8s", "--replicas=1") })

	for _, c := range []struct {
		name   string
		take   func(t *testing.T, pod string)
		within time.Duration
	}{
		{"killed", killProcess, afterKill},
		{"told to stop", func(t *testing.T, pod string) {
			kubectl(t, "-n", "coder-system", "delete", "pod", pod, "--wait=false")
		}, afterStop},
	} {
		t.Run("the leader is "+c.name, func(t *testing.T) {
			leader := mirrorLeaderPod(t)
			s := newStream(t)
			for pod, ip := range replicaPods(t) {
				if pod != leader {
					s.follow(t, direct(pod, ip, token))
				}
			}
			s.follow(t, throughKubernetes(t))
			s.write(t, 20)
			// The start of kubectl must not count as time without a leader.
			s.writeMeanwhile(func() { c.take(t, leader) })
			s.writeUntil(t, polltest.Timeout())
			s.end(t, c.within)
			polltest.Eventually(t, "another replica writes", func() error {
				if now := mirrorLeaderPod(t); now == leader && c.name != "killed" {
					return fmt.Errorf("%s does", now)
				}
				return nil
			})
			scaleOperator(t, 3)
		})
	}
	t.Run("without credentials", func(t *testing.T) { testUnknownCallers(t) })
	scaleOperator(t, 1)
	serving(t)
}

// testUnknownCallers sends requests directly to a replica: without credentials, and with
// forged front proxy headers.
func testUnknownCallers(t *testing.T) {
	for pod, ip := range replicaPods(t) {
		for _, header := range []http.Header{
			{}, {"X-Remote-User": {"system:admin"}, "X-Remote-Group": {"system:masters"}}, {"Authorization": {"Bearer nobody"}},
		} {
			c := direct(pod, ip, "")
			c.header = header
			status, body, err := c.get(t.Context(), "/coderworkspaces")
			if err != nil || status != http.StatusForbidden && status != http.StatusUnauthorized || strings.Contains(body, "coder.admin") {
				t.Errorf("%s answers %v with %d %s %v", pod, header, status, body, err)
			}
		}
	}
}
