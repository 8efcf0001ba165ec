//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const (
	// afterDrain limits how long a request is repeated while a node is drained on which Coder does not run.
	afterDrain = 10 * time.Second
	// afterNode limits it while a node is lost: until kube-controller-manager notices, after 40 to 50 seconds, kube-proxy
	// sends half of the connections to the lost replica.
	afterNode = 2 * time.Minute
	// afterCoderNode limits it while Coder starts on another node.
	afterCoderNode = 4 * time.Minute
)

// TestNodeFaults drains, cuts off, pauses and stops nodes of a cluster of three
// (CLUSTER_NODES=3), while twenty clients read and write.
func TestNodeFaults(t *testing.T) {
	reportPanics(t)
	if !t.Run("install", testInstall) || !t.Run("samples", testSamples) {
		return
	}
	cloneWorkspaces(t, 20, 0)
	polltest.Eventually(t, "the workspaces of the clients are there", func() error { return ran(tryKubectl(t, "-n", sampleNamespace, "get", "cws", clonedName(20))) })
	t.Run("drain", testDrain)
	t.Run("spread again", testSpreadAgain)
	t.Run("lost leader", testLostLeader)
	t.Run("Coder's node lost", testCoderNodeLost)
}

// crowd is clients that read, list and write workspaces through kube-apiserver. They repeat
// what was answered with 503, or not at all, until it succeeds.
type crowd struct {
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	requests int
	// repeated counts the answers because of which a request was repeated, and worst is the longest time until a repeated
	// request succeeded.
	repeated map[string]int
	worst    time.Duration
	// wrong are answers that a client must never get.
	wrong []string
}

// newCrowd starts twenty clients, each with a workspace of cloneWorkspaces.
func newCrowd(t *testing.T) *crowd {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	c := &crowd{ctx: ctx, stop: cancel, repeated: map[string]int{}}
	t.Cleanup(func() {
		cancel()
		c.running.Wait()
	})
	for i := range 20 {
		kube, name, value := throughKubernetes(t), clonedName(i+1), 0
		c.running.Go(func() {
			every(ctx, 2*time.Second, func() {
				value++
				c.round(kube, name, fmt.Sprint(time.Now().UnixNano(), "-", value))
			})
		})
	}
	return c
}

// round writes a value to a workspace, and then reads and lists it.
func (c *crowd) round(kube *caller, name, value string) {
	const key = "example.com/client"
	c.succeed(kube, http.MethodPatch, "/coderworkspaces/"+name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value))
	for _, path := range []string{"/coderworkspaces/" + name, "/coderworkspaces?fieldSelector=metadata.name=" + name} {
		body := c.succeed(kube, http.MethodGet, path, "")
		if c.ctx.Err() == nil && !strings.Contains(body, strconv.Quote(value)) {
			c.note(func() {
				c.wrong = append(c.wrong, fmt.Sprintf("GET %s has no annotation %s: %s: %.600s", path, key, value, body))
			})
		}
	}
}

func (c *crowd) note(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

// succeed repeats a request until it succeeds, and returns the answer.
func (c *crowd) succeed(kube *caller, method, path, patch string) string {
	var failing time.Time
	contentType := ""
	if patch != "" {
		contentType = "application/merge-patch+json"
	}
	for c.ctx.Err() == nil {
		start := time.Now()
		status, body, err := kube.do(c.ctx, method, path, contentType, patch)
		if c.ctx.Err() != nil {
			break
		}
		if err == nil && status == http.StatusOK {
			c.note(func() {
				c.requests++
				if !failing.IsZero() {
					c.worst = max(c.worst, time.Since(failing))
				}
			})
			return body
		}
		if failing.IsZero() {
			failing = start
		}
		var answer struct{ Message string }
		_ = json.Unmarshal([]byte(body), &answer)
		why := strings.TrimSpace(fmt.Sprintf("%s %d %.120s", method, status, answer.Message))
		if err != nil {
			why = fmt.Sprintf("%s: no answer", method)
		}
		c.note(func() {
			c.repeated[why]++
			if err == nil && status != http.StatusServiceUnavailable {
				c.wrong = append(c.wrong, why)
			}
		})
		select {
		case <-c.ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	return ""
}

// end waits until all clients had an answer again, and checks what they saw.
func (c *crowd) end(t *testing.T, what string, within time.Duration) {
	t.Helper()
	before := 0
	c.note(func() { before = c.requests })
	polltest.Eventually(t, "the clients go on", func() (err error) {
		c.note(func() {
			if c.requests < before+200 {
				err = fmt.Errorf("%d requests succeeded", c.requests-before)
			}
		})
		return err
	})
	c.stop()
	c.running.Wait()
	t.Logf("FAULT %s: %d requests succeeded; the longest time until a repeated one did: %.1f s", what, c.requests, c.worst.Seconds())
	for _, why := range slices.Sorted(maps.Keys(c.repeated)) {
		t.Logf("FAULT %s: repeated %d times: %s", what, c.repeated[why], why)
	}
	if c.worst > within {
		t.Errorf("%s: a request was repeated for %.1f s, want at most %s", what, c.worst.Seconds(), within)
	}
	if len(c.wrong) > 0 {
		t.Errorf("%s: %d wrong answers, such as %s", what, len(c.wrong), strings.Join(c.wrong[:min(3, len(c.wrong))], "\n"))
	}
}

// nodeNames returns the names of the nodes: that of node N of the scripts is the one at N-1.
func nodeNames(t *testing.T) []string {
	t.Helper()
	names := strings.Fields(kubectl(t, "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"))
	slices.Sort(names)
	if len(names) != 3 {
		t.Fatalf("the cluster has the nodes %q, not three", names)
	}
	return names
}

// nodesOf returns the nodes of the pods with a label, sorted.
func nodesOf(t *testing.T, namespace, label string) (nodes []string) {
	t.Helper()
	for _, pod := range list(t, "-n", namespace, "pods", "-l", label) {
		nodes = append(nodes, field(pod, "spec", "nodeName"))
	}
	slices.Sort(nodes)
	return nodes
}

const coderLabel = "app.kubernetes.io/name=coder-control-plane"

// drain evicts all pods of a node. CoreDNS, of which there is one, stays.
func drain(t *testing.T, node string) {
	t.Helper()
	t.Cleanup(func() { cleanup("uncordon", node) })
	kubectl(t, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--pod-selector=k8s-app!=kube-dns", "--timeout=5m")
}

// spreadOverTwo waits until the operator has two ready pods on two nodes.
func spreadOverTwo(t *testing.T) {
	t.Helper()
	serving(t)
	if nodes := nodesOf(t, "coder-system", operatorLabel); len(nodes) != 2 || nodes[0] == nodes[1] {
		t.Errorf("the operator's pods are on the nodes %q, not on two", nodes)
	}
}

// testDrain drains each node in turn.
func testDrain(t *testing.T) {
	explain(t, sampleNamespace)
	scaleOperator(t, 2)
	for _, node := range nodeNames(t) {
		within, what := afterDrain, "drain of a node"
		if slices.Contains(nodesOf(t, sampleNamespace, coderLabel), node) {
			within, what = afterCoderNode, "drain of Coder's node"
		}
		if slices.Contains(nodesOf(t, "coder-system", operatorLabel), node) {
			what += " with a replica"
		}
		c := newCrowd(t)
		start := time.Now()
		drain(t, node)
		t.Logf("FAULT %s: kubectl drain took %.0f s", what, time.Since(start).Seconds())
		spreadOverTwo(t)
		sampleReady(t)
		c.end(t, what, within)
		kubectl(t, "uncordon", node)
	}
}

// testSpreadAgain puts both replicas on one node, as two drains at the same time do. Kubernetes
// moves no running pod, so a restart spreads them.
func testSpreadAgain(t *testing.T) {
	nodes := nodeNames(t)
	for _, node := range nodes[1:] {
		drain(t, node)
	}
	serving(t)
	if on := nodesOf(t, "coder-system", operatorLabel); !slices.Equal(on, []string{nodes[0], nodes[0]}) {
		t.Fatalf("the operator's pods are on %q", on)
	}
	for _, node := range nodes[1:] {
		kubectl(t, "uncordon", node)
	}
	kubectl(t, "-n", "coder-system", "rollout", "restart", "deploy/coder-k8s")
	spreadOverTwo(t)
	sampleReady(t)
}

// fault runs node-fault.sh, or node-start.sh, for a node.
func fault(t *testing.T, node int, script string, args ...string) {
	t.Helper()
	if err := faultOf(t.Context(), node, script, args...); err != nil {
		t.Fatal(err)
	}
}

func faultOf(ctx context.Context, node int, script string, args ...string) error {
	cmd := exec.CommandContext(ctx, "../../hack/cluster/"+script, args...) //nolint:gosec // Our own scripts.
	cmd.Env = append(os.Environ(), fmt.Sprintf("CLUSTER_NODE=%d", node))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("node %d: %s %s: %w\n%s", node, script, strings.Join(args, " "), err, out)
	}
	return nil
}

// reports waits until a node is ready, or is not known to be any more.
func reports(t *testing.T, node string, ready bool) {
	t.Helper()
	polltest.Eventually(t, fmt.Sprintf("node %s is ready: %t", node, ready), func() error {
		if status, _, _ := condition(get(t, "node", node), "Ready"); (status == "True") != ready {
			return fmt.Errorf("Ready is %s", status)
		}
		return nil
	})
}

// pinCoder keeps Coder on a node.
func pinCoder(t *testing.T, node string) {
	t.Helper()
	patchSample(t, fmt.Sprintf(`{"nodeSelector":{"kubernetes.io/hostname":%q}}`, node))
}

// testLostLeader takes the node of the leader away, in three ways, and gives it back when
// Kubernetes has noticed.
func testLostLeader(t *testing.T) {
	explain(t, sampleNamespace)
	nodes := nodeNames(t)
	pinCoder(t, nodes[0])
	// The node with kube-apiserver is not lost, so the replicas are on the others.
	kubectl(t, "cordon", nodes[0])
	t.Cleanup(func() { cleanup("uncordon", nodes[0]) })
	scaleOperator(t, 2)
	kubectl(t, "-n", "coder-system", "rollout", "restart", "deploy/coder-k8s")
	for _, c := range []struct{ what, bad, script, good string }{
		{"the node of the leader loses 20 % of the packets", "lose", "node-fault.sh", "deliver"},
		{"the node of the leader is cut off", "cut", "node-fault.sh", "join"},
		{"the node of the leader is paused", "pause", "node-fault.sh", "resume"},
		{"the node of the leader is switched off", "stop", "node-start.sh", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			spreadOverTwo(t)
			var pod map[string]any
			polltest.Eventually(t, "a replica mirrors", func() error {
				name := mirrorLeaderPod(t)
				if name == "" {
					return fmt.Errorf("no pod does")
				}
				if pod = get(t, "-n", "coder-system", "pod", name); pod == nil {
					return fmt.Errorf("pod %s is gone", name)
				}
				return nil
			})
			n := slices.Index(nodes, field(pod, "spec", "nodeName")) + 1
			clients := newCrowd(t)
			start := time.Now()
			good := []string{}
			if c.good != "" {
				good = append(good, c.good)
			}
			back := sync.OnceValue(func() error { return faultOf(context.WithoutCancel(t.Context()), n, c.script, good...) })
			t.Cleanup(func() { _ = back() })
			fault(t, n, "node-fault.sh", c.bad)
			if c.bad == "lose" {
				<-time.After(time.Minute)
			} else {
				reports(t, nodes[n-1], false)
				t.Logf("FAULT %s: NotReady after %.0f s", c.what, time.Since(start).Seconds())
				polltest.Eventually(t, "the other replica mirrors", func() error {
					if mirrorLeaderPod(t) == field(pod, "metadata", "name") {
						return fmt.Errorf("the lost one does")
					}
					return nil
				})
			}
			if err := back(); err != nil {
				t.Fatal(err)
			}
			reports(t, nodes[n-1], true)
			serving(t)
			clients.end(t, c.what, afterNode)
		})
	}
}

// testCoderNodeLost stops the node of Coder: the condition names it.
func testCoderNodeLost(t *testing.T) {
	explain(t, sampleNamespace)
	nodes := nodeNames(t)
	pinCoder(t, nodes[2])
	start := time.Now()
	t.Cleanup(func() { _ = faultOf(context.Background(), 3, "node-start.sh") })
	fault(t, 3, "node-fault.sh", "stop")
	reports(t, nodes[2], false)
	noticed := time.Now()
	message := waitCondition(t, "DeploymentAvailable", "False", "NodeLost", "-n", sampleNamespace, "ccp", "coder")
	t.Logf("FAULT Coder's node is switched off: NotReady after %.0f s, the condition NodeLost %.0f s later: %s", noticed.Sub(start).Seconds(), time.Since(noticed).Seconds(), message)
	if !strings.Contains(message, nodes[2]) || time.Since(noticed) > time.Minute {
		t.Errorf("the condition does not name the node %s, or came late: %s", nodes[2], message)
	}
	fault(t, 3, "node-start.sh")
	reports(t, nodes[2], true)
	sampleReady(t)
	listed(t, "coder.admin.hello")
}
