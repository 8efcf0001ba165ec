//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const (
	operatorLabel = "app.kubernetes.io/name=coder-k8s"
	operatorLease = "coder-k8s-controller.coder.com"
)

// secondImage is the same Coder under another name.
var secondImage = coderImage + "-e2e"

const metricsReader = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: e2e-metrics, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-metrics}
rules: [{nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: e2e-metrics}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: e2e-metrics}
subjects: [{kind: ServiceAccount, name: e2e-metrics, namespace: default}]
`

// operatorCounts are the operator's own metrics since it started: its writes to
// objects, without its Lease and access reviews, and its requests to Coder by their labels.
type operatorCounts struct {
	writes        float64
	coderRequests map[string]float64
}

func (c operatorCounts) since(before operatorCounts) operatorCounts {
	since := operatorCounts{writes: c.writes - before.writes, coderRequests: map[string]float64{}}
	for labels, n := range c.coderRequests {
		if n -= before.coderRequests[labels]; n != 0 {
			since.coderRequests[labels] = n
		}
	}
	return since
}

func (c operatorCounts) allCoderRequests() (sum float64) {
	for _, n := range c.coderRequests {
		sum += n
	}
	return sum
}

// metricsOf reads the metrics of the only replica like Prometheus, as lines. A new
// account may not have access immediately.
func metricsOf(t *testing.T) (lines []string) {
	t.Helper()
	apply(t, metricsReader)
	polltest.Eventually(t, "the operator tells its metrics", func() (err error) {
		lines, err = readMetrics(t)
		return err
	})
	return lines
}

func readMetrics(t *testing.T) ([]string, error) {
	t.Helper()
	token := strings.TrimSpace(kubectl(t, "-n", "default", "create", "token", "e2e-metrics"))
	// The controllers work on the replica that leads.
	ip, err := tryKubectl(t, "-n", "coder-system", "get", "pod", leaderPod(t), "-o", "jsonpath={.status.podIP}")
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, ip)
	}
	return scrape(t.Context(), ip, token)
}

// scrape reads the metrics of one replica.
func scrape(ctx context.Context, ip, token string) ([]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+inURL(ip)+":8443/metrics", nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	// The process created its certificate itself. A connection that stays open would be one of its open files.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	client := &http.Client{Timeout: 30 * time.Second, Transport: transport}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %w", response.Status, err)
	}
	return strings.Split(string(body), "\n"), nil
}

// countsOf returns the counters of the only replica.
func countsOf(t *testing.T) operatorCounts {
	t.Helper()
	counts := operatorCounts{coderRequests: map[string]float64{}}
	found := false
	for _, line := range metricsOf(t) {
		name, value, _ := strings.Cut(line, "} ")
		number, _ := strconv.ParseFloat(value, 64)
		labels, ofCoder := strings.CutPrefix(name, "coder_k8s_coder_requests_total{")
		switch {
		case ofCoder:
			counts.coderRequests[labels] = number
		case !strings.HasPrefix(name, "rest_client_requests_total{"):
		case strings.Contains(name, `method="PATCH"`), strings.Contains(name, `method="DELETE"`):
			counts.writes += number
			found = true
		}
	}
	if !found {
		t.Fatal("the operator does not count its requests to Kubernetes")
	}
	return counts
}

// reportPanics fails the test if a process of the operator ends with exit code 2 before the
// test ends: after a panic or a fatal error of Go, or because its command line is invalid. A
// killed process has another exit code.
func reportPanics(t *testing.T) {
	t.Helper()
	a, err := theAPI()
	if err != nil {
		t.Fatal(err)
	}
	reported := map[string]bool{}
	check := func(object any) {
		pod, _ := object.(*corev1.Pod)
		for _, c := range pod.Status.ContainerStatuses {
			for previous, end := range map[bool]*corev1.ContainerStateTerminated{false: c.State.Terminated, true: c.LastTerminationState.Terminated} {
				if end == nil || end.ExitCode != 2 || reported[end.ContainerID] {
					continue
				}
				reported[end.ContainerID] = true
				logs, _ := tryKubectl(t, "-n", pod.Namespace, "logs", pod.Name, "--tail=200", fmt.Sprintf("--previous=%t", previous))
				t.Errorf("the operator in pod %s ended with exit code 2 at %s:\n%s", pod.Name, end.FinishedAt, logs)
			}
		}
	}
	_, pods := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewFilteredListWatchFromClient(a.core, "pods", "coder-system", func(o *metav1.ListOptions) { o.LabelSelector = operatorLabel }),
		ObjectType:    &corev1.Pod{},
		Handler:       cache.ResourceEventHandlerFuncs{AddFunc: check, UpdateFunc: func(_, object any) { check(object) }},
	})
	var running sync.WaitGroup
	running.Go(func() { pods.RunWithContext(t.Context()) })
	t.Cleanup(running.Wait)
}

// replicaSets returns the number of ReplicaSets of the sample control plane, and how
// many of them have pods.
func replicaSets(t *testing.T) (all, withPods int) {
	t.Helper()
	out := kubectl(t, "-n", sampleNamespace, "get", "replicasets", "-o", `jsonpath={range .items[*]}{.spec.replicas} {end}`)
	for _, n := range strings.Fields(out) {
		all++
		if n != "0" {
			withPods++
		}
	}
	return all, withPods
}

// oneToken checks that the operator has only its previous token in the sample's
// Coder.
func oneToken(t *testing.T, before string) {
	t.Helper()
	if tokens := tokensOf(t, login(t, sampleNamespace, "coder")); len(tokens) != 1 {
		t.Errorf("the operator has not one token: %v", tokens)
	}
	if secretValue(t, sampleNamespace, "coder-operator-token", "token") != before {
		t.Error("the token was minted anew")
	}
}

// patchSample changes the sample control plane's spec, and waits until the operator
// has observed the change and the control plane is Ready.
func patchSample(t *testing.T, spec string) {
	t.Helper()
	kubectl(t, "-n", sampleNamespace, "patch", "ccp", "coder", "--type=merge", "-p", `{"spec":`+spec+`}`)
	sampleReady(t)
}

// sampleReady waits until the sample control plane is Ready for its current spec.
func sampleReady(t *testing.T) {
	t.Helper()
	polltest.Eventually(t, "the control plane is Ready as its spec is now", func() error {
		object := get(t, "-n", sampleNamespace, "ccp", "coder")
		status, reason, message := condition(object, "Ready")
		if seen := field(object, "status", "observedGeneration"); seen != field(object, "metadata", "generation") {
			return fmt.Errorf("generation %s was seen", seen)
		}
		if status != "True" {
			return fmt.Errorf("Ready is %s, %s: %s", status, reason, message)
		}
		return nil
	})
}

// sampleImage is the image of all pods of the sample control plane.
func sampleImage(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(kubectl(t, "-n", sampleNamespace, "get", "pods", "-l", "app.kubernetes.io/name=coder-control-plane",
		"--field-selector=status.phase=Running", "-o", `jsonpath={.items[*].spec.containers[0].image}`))
}

// testKilledDuringUpgrade kills the operator while it rolls out another image.
func testKilledDuringUpgrade(t *testing.T) {
	explain(t, sampleNamespace)
	nodeShell(t, "ctr", "-n", "k8s.io", "images", "tag", "--force", coderImage, secondImage)
	token := secretValue(t, sampleNamespace, "coder-operator-token", "token")
	before, _ := replicaSets(t)

	start := time.Now()
	kubectl(t, "-n", sampleNamespace, "patch", "ccp", "coder", "--type=merge", "-p", `{"spec":{"image":"`+secondImage+`"}}`)
	kubectl(t, "-n", "coder-system", "delete", "pod", "-l", operatorLabel, "--grace-period=0", "--force")
	sampleReady(t)
	polltest.Eventually(t, "only pods of the new image are left", func() error {
		if image := sampleImage(t); image != secondImage {
			return fmt.Errorf("the pods' images are %q", image)
		}
		return nil
	})
	t.Logf("upgraded in spite of the kill after %.1f s", time.Since(start).Seconds())
	if all, withPods := replicaSets(t); all != before+1 || withPods != 1 {
		t.Errorf("there were %d ReplicaSets and are %d, of which %d have pods", before, all, withPods)
	}
	serving(t)
	oneToken(t, token)
}

// testLeaderKilled kills the leader of two replicas while it rolls back to the first
// image.
func testLeaderKilled(t *testing.T) {
	explain(t, sampleNamespace)
	token := secretValue(t, sampleNamespace, "coder-operator-token", "token")
	before, _ := replicaSets(t)
	kubectl(t, "-n", "coder-system", "scale", "deploy/coder-k8s", "--replicas=2")
	t.Cleanup(func() { cleanup("-n", "coder-system", "scale", "deploy/coder-k8s", "--replicas=1") })
	kubectl(t, "-n", "coder-system", "rollout", "status", "deploy/coder-k8s", "--timeout=5m")
	leader := livingLeader(t)

	start := time.Now()
	kubectl(t, "-n", sampleNamespace, "patch", "ccp", "coder", "--type=merge", "-p", `{"spec":{"image":"`+coderImage+`"}}`)
	kubectl(t, "-n", "coder-system", "delete", "pod", leader, "--grace-period=0", "--force")
	polltest.Eventually(t, "another replica leads", func() error {
		if now := leaderPod(t); now == leader || now == "" {
			return fmt.Errorf("the leader is %q", now)
		}
		return nil
	})
	sampleReady(t)
	polltest.Eventually(t, "only pods of the first image are left", func() error {
		if image := sampleImage(t); image != coderImage {
			return fmt.Errorf("the pods' images are %q", image)
		}
		return nil
	})
	t.Logf("the image is back after %.1f s, with another leader", time.Since(start).Seconds())
	// The ReplicaSet of the first image still exists and is used again.
	if all, withPods := replicaSets(t); all != before || withPods != 1 {
		t.Errorf("there were %d ReplicaSets and are %d, of which %d have pods", before, all, withPods)
	}
	oneToken(t, token)
	scaleOperator(t, 1)
	serving(t)
	livingLeader(t)
}

// livingLeader waits until the leader is an existing pod: until the Lease expires,
// its holder can be a killed pod.
func livingLeader(t *testing.T) string {
	t.Helper()
	var leader string
	polltest.Eventually(t, "a pod leads that is there", func() error {
		leader = leaderPod(t)
		if pods := replicaPods(t); pods[leader] == "" {
			return fmt.Errorf("the pods are %v, and %s leads", pods, leader)
		}
		return nil
	})
	return leader
}

// leaderPod returns the name of the pod that holds the Lease, or "" if no pod holds
// it.
func leaderPod(t *testing.T) string {
	t.Helper()
	holder := field(get(t, "-n", "coder-system", "lease", operatorLease), "spec", "holderIdentity")
	name, _, _ := strings.Cut(holder, "_")
	return name
}

// nodeShell runs a command on the node.
func nodeShell(t *testing.T, args ...string) {
	t.Helper()
	clusterScript(t, "node-shell.sh", args...)
}

// clusterScript runs one of the scripts of the cluster.
func clusterScript(t *testing.T, script string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "../../hack/cluster/"+script, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("hack/cluster/%s %s: %v\n%s", script, strings.Join(args, " "), err, out)
	}
}
