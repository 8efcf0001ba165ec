//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// throughPods returns a route to all pods of the operator in turn, at their own
// addresses.
func (r robot) throughPods(t *testing.T) *route {
	t.Helper()
	way, pods := &route{token: r.token}, replicaPods(t)
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		way.addresses = append(way.addresses, net.JoinHostPort(pods[name], "8090"))
	}
	return way
}

// testMCPReplicas sends requests to two replicas in turn: each can respond, and can
// continue a call that started on the other.
func testMCPReplicas(t *testing.T) {
	scaleOperator(t, 2)
	t.Cleanup(func() { cleanup("-n", "coder-system", "scale", "deploy/coder-k8s", "--replicas=1") })
	for _, protocol := range []string{legacyProtocol, modernProtocol} {
		t.Run(protocol, func(t *testing.T) {
			robot, did := newRobot(t, sampleNamespace, "e2e-twice-"+protocol, "edit"), newDeeds()
			a := robot.connect(t, protocol, robot.throughPods(t), did)
			for range 10 {
				a.does(t, "list_workspaces", map[string]any{})
			}
			apply(t, secondWorkspace)
			waitCondition(t, "Ready", "True", "Running", "-n", sampleNamespace, "cws", "coder.admin.second")
			if gone := a.confirmed(t, "delete_workspace", map[string]any{"name": "coder.admin.second", "wait": true}); gone["gone"] != true {
				t.Errorf("after the deletion: %v", gone)
			}
			byReplica(t, robot)
			checkAudit(t, robot, did)
		})
	}
	scaleOperator(t, 1)
}

// byReplica checks that each of two replicas served half of the reads, and that the
// deletion started on one and was done on the other.
func byReplica(t *testing.T, r robot) {
	t.Helper()
	var ends map[string]string
	reads := map[string]int{}
	// A line is logged after the response was sent.
	polltest.Eventually(t, "the calls are in the logs of the replicas", func() error {
		ends = map[string]string{}
		all := 0
		for pod := range replicaPods(t) {
			reads[pod] = 0
			for _, line := range auditLines(kubectl(t, "-n", "coder-system", "logs", pod), r) {
				switch line.Tool {
				case "list_workspaces":
					reads[pod]++
					all++
				case "delete_workspace":
					ends[line.Outcome] += pod
				}
			}
		}
		if all < 10 || ends["needsinput"] == "" || ends["ok"] == "" {
			return fmt.Errorf("there are %d of 10 reads, and the deletion ended on pods %v", all, ends)
		}
		return nil
	})
	for pod, had := range reads {
		if had != 5 {
			t.Errorf("pod %s had %d of 10 reads", pod, had)
		}
	}
	t.Logf("the deletion ended on pods %v", ends)
	if len(ends) != 2 || ends["needsinput"] == ends["ok"] {
		t.Errorf("the question and the deletion were not on two replicas: %v", ends)
	}
}

// ending is how a pod ended.
type ending struct {
	exitCode string
	took     time.Duration
}

// endingsColumns are what a watch of pods must print for endingOf.
const endingsColumns = `jsonpath={.metadata.name} {.metadata.deletionTimestamp} {.metadata.deletionGracePeriodSeconds} ` +
	`{.status.containerStatuses[0].state.terminated.exitCode} {.status.containerStatuses[0].state.terminated.finishedAt}{"\n"}`

// endingOf reads from a watch when the deletion of a pod started, and when its
// container had ended. Kubernetes writes the end of the grace period, in whole
// seconds.
func endingOf(w *watching, pod string) (ending, error) {
	for line := range strings.Lines(w.text()) {
		columns := strings.Fields(line)
		if len(columns) != 5 || columns[0] != pod {
			continue
		}
		limit, err1 := time.Parse(time.RFC3339, columns[1])
		grace, err2 := time.ParseDuration(columns[2] + "s")
		finished, err3 := time.Parse(time.RFC3339, columns[4])
		return ending{exitCode: columns[3], took: finished.Sub(limit.Add(-grace))}, errors.Join(err1, err2, err3)
	}
	return ending{}, fmt.Errorf("pod %s has not ended:\n%s", pod, w.text())
}

// testMCPRollout replaces the operator's pod while a client is connected: the pod ends
// immediately, and the client continues with the next one.
func testMCPRollout(t *testing.T) {
	robot, did := newRobot(t, sampleNamespace, "e2e-stayer", "view"), newDeeds()
	a := robot.connect(t, modernProtocol, robot.throughService(t), did)
	// No call of a tool, because the log of this pod ends with it.
	if _, err := a.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	old := slices.Collect(maps.Keys(replicaPods(t)))
	if len(old) != 1 {
		t.Fatalf("the operator has the pods %q, not one", old)
	}
	w := watch(t, "pods", "-n", "coder-system", "-l", operatorLabel, "-o", endingsColumns)
	polltest.Eventually(t, "the watch of the pods has begun", w.shows(old[0]))
	log := follow(t, "-n", "coder-system", "logs", "--follow", old[0])
	polltest.Eventually(t, "its log is followed", log.shows(`"msg"`))
	kubectl(t, "-n", "coder-system", "rollout", "restart", "deploy/coder-k8s")
	var end ending
	polltest.Eventually(t, "the pod before has ended", func() (err error) {
		end, err = endingOf(w, old[0])
		return err
	})
	t.Logf("it ended %s after it was told to, with exit code %s", end.took, end.exitCode)
	// After its grace period it would have been killed, with another exit code.
	if end.exitCode != "0" {
		t.Error("that is not exit code 0")
	}
	polltest.Eventually(t, "its log has come to its end", log.hasEnded)
	told := log.text()
	if !strings.Contains(told, `"msg":"Stopped"`) || strings.Contains(told, "Closing connections") || strings.Contains(told, "Cancelling calls") {
		t.Errorf("its MCP server did not end by itself:\n%s", told[max(0, len(told)-4000):])
	}
	scaleOperator(t, 1)
	serving(t)
	a.does(t, "list_control_planes", map[string]any{})
	noTokenTold(t, told, robot.token)
	checkAudit(t, robot, did)
}
