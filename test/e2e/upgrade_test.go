//go:build e2e

package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// testUpgrade upgrades from the previous release to this version, rolls back, and upgrades again.
// It starts and ends with a cluster without the operator. Clients write and watch all the time. No
// existing object is recreated, restarted, changed or lost.
func testUpgrade(t *testing.T) {
	explain(t, sampleNamespace)
	if get(t, "-n", "coder-system", "deployment", "coder-k8s") != nil {
		t.Fatal("the operator is installed: this test begins with that of the previous release")
	}
	previousInstallation := previousRelease(t)
	install(t, previousInstallation)
	thisInstallation := manifests(t, "default")
	begin(t)
	before := stateOf(t)
	inCoder := heldInCoder(t)
	for _, step := range []struct{ to, installation string }{
		{"to this version", thisInstallation}, {"back", previousInstallation}, {"to this version again", thisInstallation},
	} {
		t.Run(step.to, func(t *testing.T) {
			start := time.Now()
			goTo(t, step.installation)
			t.Logf("%s after %.1f s", step.to, time.Since(start).Seconds())
			now := stateOf(t)
			compareStates(t, before, now)
			before = now
			if diff := cmp.Diff(inCoder, heldInCoder(t)); diff != "" {
				t.Errorf("Coder has something else (-before +now):\n%s", diff)
			}
			if out, err := tryKubectl(t, "diff", "-f", step.installation); err != nil {
				t.Errorf("what is installed is not what was applied: %v\n%s", err, out)
			}
		})
	}
	storedVersions(t)
	end(t)
}

// previousRelease returns a file with the previous release's manifests, and loads its image
// into the node. The test is skipped if the clone has no history.
func previousRelease(t *testing.T) string {
	t.Helper()
	// It was built before if this variable is set.
	dir := os.Getenv("E2E_PREVIOUS")
	if dir == "" {
		dir = t.TempDir()
	}
	out, err := exec.CommandContext(t.Context(), "../../test/e2e/previous.sh", dir).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 {
		fmt.Fprintf(os.Stderr, "NOT TESTED: the upgrade from the previous release. %s", out)
		t.Skipf("%s", out)
	}
	if err != nil {
		t.Fatalf("building the previous release: %v\n%s", err, out)
	}
	clusterScript(t, "load-image.sh", filepath.Join(dir, "image.tar"))
	return printed(t, exec.CommandContext(t.Context(), "kubectl", "kustomize", filepath.Join(dir, "config", "default")))
}

// install applies the manifests and waits until one of their replicas is the leader and has
// reconciled every object once.
func install(t *testing.T, installation string) {
	t.Helper()
	kubectl(t, "apply", "-f", installation)
	kubectl(t, "-n", "coder-system", "rollout", "status", "deploy/coder-k8s", "--timeout=5m")
	serving(t)
	livingLeader(t)
}

// begin creates objects that a user of the previous release may have.
func begin(t *testing.T) {
	t.Helper()
	kubectl(t, "create", "namespace", sampleNamespace)
	kubectl(t, "-n", sampleNamespace, "create", "secret", "generic", "coder-db", "--from-literal=url="+database(t, "coder"))
	apply(t, withLoadedImage(sample(t, "codercontrolplane")))
	waitCondition(t, "Ready", "True", "", "-n", sampleNamespace, "ccp", "coder")
	kubectl(t, "apply", "-f", "../../config/samples/coderprovisioner.yaml", "-f", "../../config/samples/coderworkspaceproxy.yaml")
	kubectl(t, "apply", "-f", "../../config/samples/codertemplate.yaml")
	waitCondition(t, "Ready", "True", "", "-n", sampleNamespace, "ctpl", "coder.hello")
	kubectl(t, "apply", "-f", "../../config/samples/coderworkspace.yaml")
	apply(t, strings.Replace(secondWorkspace, "running: true", "running: false", 1))
	waitCondition(t, "Ready", "True", "Running", "-n", sampleNamespace, "cws", "coder.admin.hello")
	waitCondition(t, "Ready", "True", "Stopped", "-n", sampleNamespace, "cws", "coder.admin.second")
	for _, object := range []string{"ctpl/coder.hello", "cws/coder.admin.hello", "cws/coder.admin.second"} {
		kubectl(t, "-n", sampleNamespace, "label", object, "example.com/team=platform")
		kubectl(t, "-n", sampleNamespace, "annotate", object, "example.com/note=two words")
	}
	finalizers(t, `["example.com/keep"]`)
	for kind, name := range map[string]string{"cprov": "zone-a", "cwp": "sydney"} {
		waitCondition(t, "Ready", "False", "NotSupported", "-n", sampleNamespace, kind, name)
	}
}

// finalizers sets the finalizers of the second workspace.
func finalizers(t *testing.T, list string) {
	t.Helper()
	kubectl(t, "-n", sampleNamespace, "patch", "cws", "coder.admin.second", "--type=merge", "-p", `{"metadata":{"finalizers":`+list+`}}`)
}

// goTo installs another version during a stream of reads, writes and watches.
func goTo(t *testing.T, installation string) {
	t.Helper()
	seen := watchAll(t, "coderworkspaces", "codertemplates")
	s := newStream(t)
	s.follow(t, throughKubernetes(t))
	s.write(t, 5)
	s.writeMeanwhile(func() {
		install(t, installation)
		allReconciled(t)
	})
	s.end(t, afterStop)
	seen.nothingDeleted(t)
}

// allReconciled waits until each controller of this process has reconciled once.
func allReconciled(t *testing.T) {
	t.Helper()
	polltest.Eventually(t, "each controller has made a pass", func() error {
		passes := map[string]float64{"codercontrolplane": 0, "coderprovisioner": 0, "coderworkspaceproxy": 0}
		lines := metricsOf(t)
		for controller := range passes {
			for _, line := range lines {
				if strings.HasPrefix(line, `controller_runtime_reconcile_total{controller="`+controller+`"`) {
					n, _ := strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
					passes[controller] += n
				}
			}
			if passes[controller] == 0 {
				return fmt.Errorf("that of %s has not", controller)
			}
		}
		return nil
	})
}

// stateOf returns the state of each object, by kind and name, without the parts that change by
// themselves: the status, and the values of the stream. Secrets are represented by checksums of
// their data, pods also by their restarts.
func stateOf(t *testing.T) map[string]string {
	t.Helper()
	state := map[string]string{}
	for namespace, kinds := range map[string]string{
		sampleNamespace: "ccp,cprov,cwp,cws,ctpl,deployments,replicasets,pods,services,serviceaccounts,secrets,roles,rolebindings",
		"coder-system":  "secrets",
	} {
		var list struct{ Items []map[string]any }
		if err := json.Unmarshal([]byte(kubectl(t, "-n", namespace, "get", kinds, "-o", "json")), &list); err != nil {
			t.Fatal(err)
		}
		for _, object := range list.Items {
			state[namespace+"/"+field(object, "kind")+"/"+field(object, "metadata", "name")] = contentOf(t, object)
		}
	}
	return state
}

// contentOf returns an object's state for stateOf.
func contentOf(t *testing.T, object map[string]any) string {
	t.Helper()
	kind := field(object, "kind")
	metadata, _ := object["metadata"].(map[string]any)
	delete(metadata, "resourceVersion")
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		delete(annotations, streamed)
	}
	if kind == "Secret" {
		object["data"] = fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, object["data"])))
	}
	if kind == "Pod" {
		object["restarts"] = restarts(object)
	}
	if spec, _ := object["spec"].(map[string]any); kind == "CoderWorkspace" {
		// The previous version shows no field for a workspace without a TTL or a schedule.
		maps.DeleteFunc(spec, func(name string, value any) bool {
			return name == "ttlMillis" && value == 0.0 || name == "autostartSchedule" && value == ""
		})
	}
	delete(object, "status")
	content, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// restarts returns how often the containers of a pod were restarted.
func restarts(pod map[string]any) int {
	status, _ := pod["status"].(map[string]any)
	containers, _ := status["containerStatuses"].([]any)
	count := 0
	for _, entry := range containers {
		container, _ := entry.(map[string]any)
		n, _ := container["restartCount"].(float64)
		count += int(n)
	}
	return count
}

// compareStates checks that all objects are unchanged, and that the only new objects are Secrets of
// the operator itself.
func compareStates(t *testing.T, before, now map[string]string) {
	t.Helper()
	for name, was := range before {
		if diff := cmp.Diff(was, now[name]); diff != "" {
			t.Errorf("%s is not what it was (-before +now):\n%s", name, diff)
		}
	}
	for name := range now {
		if _, was := before[name]; !was && !strings.HasPrefix(name, "coder-system/") {
			t.Errorf("%s is new", name)
		}
	}
}

// heldInCoder returns the objects in Coder, with the ids of all tokens and sessions.
func heldInCoder(t *testing.T) []string {
	t.Helper()
	return []string{
		written(t), query(t, "coder", "SELECT count(*) FROM users"),
		query(t, "coder", "SELECT string_agg(id || ' ' || token_name, ', ' ORDER BY id) FROM api_keys"),
	}
}

// storedVersions checks that etcd has no version of an object that this release's
// custom resource definitions do not serve.
func storedVersions(t *testing.T) {
	t.Helper()
	out := kubectl(t, "get", "crd", "-l", operatorLabel, "-o", `jsonpath={range .items[*]}{.metadata.name} {.status.storedVersions}{"\n"}{end}`)
	if strings.Count(out, `["v1alpha1"]`) != 12 {
		t.Errorf("the versions that are stored are\n%s", out)
	}
}

// end deletes all of these objects.
func end(t *testing.T) {
	t.Helper()
	finalizers(t, "null")
	kubectl(t, "-n", sampleNamespace, "delete", "cprov/zone-a", "cwp/sydney", "--timeout=5m")
	kubectl(t, "-n", sampleNamespace, "delete", "cws", "--all", "--timeout=5m")
	kubectl(t, "-n", sampleNamespace, "delete", "ctpl", "--all", "--timeout=5m")
	kubectl(t, "-n", sampleNamespace, "delete", "ccp", "coder", "--timeout=5m")
	if n := query(t, "coder", "SELECT count(*) FROM api_keys WHERE token_name LIKE 'coder-k8s-operator-%'"); n != "0" {
		t.Errorf("%s tokens of the operator are left in Coder", n)
	}
	kubectl(t, "delete", "namespace", sampleNamespace, "--timeout=5m")
	kubectl(t, "delete", "-f", manifests(t, "default"), "--ignore-not-found", "--timeout=5m")
	// Only the previous release has this definition.
	kubectl(t, "delete", "crd", "coderobjectmetadata.internal.coder.com", "--timeout=1m")
}
