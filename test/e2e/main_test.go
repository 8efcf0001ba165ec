//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func TestMain(m *testing.M) {
	for _, name := range []string{"KUBECONFIG", "E2E_POSTGRES_URL", "E2E_HOST_IPS", "E2E_CODER_IMAGE", "E2E_WORKSPACE_IMAGE", "E2E_WORKSPACE_ROOT", "E2E_POSTGRES_IMAGE"} {
		if os.Getenv(name) == "" {
			fmt.Fprintf(os.Stderr, "%s is not set: the end-to-end tests run on a cluster of their own; call make test-e2e\n", name)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// sampleNamespace is the namespace of the samples.
const sampleNamespace = "coder"

// Each of the tests below is a scenario on its own cluster, which is empty at first
// (test/e2e/run.sh). Each step depends on the state that the earlier steps left. If the
// installation fails, the scenario ends.

// TestMainJob uses the aggregated API with kubectl, the kubectl plugin and AI tools.
func TestMainJob(t *testing.T) {
	reportPanics(t)
	if !t.Run("install", testInstall) {
		return
	}
	t.Run("namespace without control plane", testNamespaceWithoutControlPlane)
	if !t.Run("main job", testMainJob) {
		return
	}
	t.Run("closed network", testClosedNetwork)
	t.Run("users", testUsers)
	t.Run("kubectl", testKubectl)
	if t.Run("templates", testTemplates) {
		t.Run("workspaces", testWorkspaces)
	}
	t.Run("MCP", testMCP)
	t.Run("plugin", testPlugin)
	t.Run("people act as themselves", testActing)
	t.Run("workspace with an agent", testLiveWorkspace)
	t.Run("export", testExport)
	t.Run("support bundle", testSupportBundle)
	t.Run("nothing secret is told", testNothingSecretIsTold)
	// The whole cluster goes back, so nothing can be tested on it afterwards.
	t.Run("etcd restored", testEtcdRestored)
}

// TestOperation first installs, changes and removes a release of the operator's Helm chart. Then it tests the operation of a
// control plane: backups, monitoring, replicas that start and stop, outages of Coder, the database and the storage, kills,
// changes of its spec, licensed features, and control planes that fail from the start. At the end everything is removed.
func TestOperation(t *testing.T) {
	reportPanics(t)
	if !t.Run("Helm chart", testHelmChart) || !t.Run("install", testInstall) {
		return
	}
	if t.Run("samples", testSamples) {
		t.Run("backup", testBackup)
		t.Run("token refused", testTokenRefused)
		t.Run("nothing secret is told", testNothingSecretIsTold)
		t.Run("Prometheus", testPrometheus)
		t.Run("replicas", testReplicas)
		t.Run("records by hand", testRecordsByHand)
		t.Run("storage faults", testStorageFaults)
		t.Run("killed during writes", testKilledDuringWrites)
		t.Run("Coder unreachable", testCoderUnreachable)
		t.Run("Coder's pod killed", testCoderPodKilled)
		t.Run("database stopped", testDatabaseStopped)
		t.Run("killed during an upgrade", testKilledDuringUpgrade)
		t.Run("leader killed", testLeaderKilled)
		t.Run("secret changed", testSecretChanged)
		t.Run("restarted", testRestarted)
		t.Run("scaled", testScaled)
		if t.Run("TLS", testTLS) && t.Run("everything on", testEverythingOn) {
			t.Run("everything off", testEverythingOff)
		}
		t.Run("rights", testRights)
		if t.Run("licensed parts", testLicensedParts) {
			t.Run("at rest", testRest)
			t.Run("licensed parts deleted", testLicensedPartsDeleted)
		}
	}
	// These have nothing to do with each other, so they are waited for together.
	t.Run("begun in trouble", func(t *testing.T) {
		t.Run("database unreachable", parallel(testDatabaseUnreachable))
		t.Run("image missing", parallel(testImageMissing))
		t.Run("not owned", parallel(testNotOwned))
	})
	if t.Run("killed half way", testKilledHalfWay) {
		if t.Run("namespace deleted", testNamespaceDeleted) {
			t.Run("deployment with users", testDeploymentWithUsers)
		}
	}
	t.Run("remove", testRemove)
}

// TestInstallation installs the operator in each way that kubectl has, one over the other, while a Coder stays unchanged, and upgrades
// from the previous release, without an operator at first. Then it tests backups to S3 and the migration of a Helm release of Coder at
// the same time, and breaks things for AI tools. It is part of make test-nightly.
func TestInstallation(t *testing.T) {
	reportPanics(t)
	if !t.Run("ways of installation", testWaysOfInstallation) || !t.Run("upgrade", testUpgrade) {
		return
	}
	if !t.Run("install", testInstall) || !t.Run("samples", testSamples) {
		return
	}
	t.Run("side by side", func(t *testing.T) {
		t.Run("backup-s3", parallel(testBackupToS3))
		t.Run("migrate", parallel(testMigrate))
	})
	t.Run("evals", testEvals)
}

// TestCoderLifecycle upgrades Coder through its releases, takes an upgrade back, and runs the commands of the tutorials. It is part
// of make test-nightly.
func TestCoderLifecycle(t *testing.T) {
	reportPanics(t)
	withPlugin(t)
	if !t.Run("install", testInstall) {
		return
	}
	t.Run("upgrade of Coder", testCoderUpgrade)
	if t.Run("samples", testSamples) {
		t.Run("upgrade taken back", testUpgradeTakenBack)
	}
	// The tutorials install the operator again, so they come last.
	t.Run("tutorials", testTutorials)
}

func parallel(test func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		test(t)
	}
}

// testInstall installs the operator with the manifests that a user applies: two replicas,
// also on one node, with a budget that allows one eviction. The steps after it start with
// one replica, and set the number that they need.
func testInstall(t *testing.T) {
	explain(t)
	kubectl(t, "apply", "-f", manifests(t, "network-policies"))
	openToThisMachine(t, "coder-system")
	// If a cache differs from the log, the process panics, which reportPanics detects.
	kubectl(t, "-n", "coder-system", "set", "env", "deploy/coder-k8s", "KUBE_WATCHCACHE_CONSISTENCY_CHECKER=true")
	serving(t)
	if pods := replicaPods(t); len(pods) != 2 || pods[livingLeader(t)] == "" {
		t.Errorf("the operator's pods are %v, not two of which one leads", pods)
	}
	kubectl(t, "-n", "coder-system", "wait", "--for=jsonpath={.status.disruptionsAllowed}=1", "pdb/coder-k8s", "--timeout=1m")
	scaleOperator(t, 1)

	if out := kubectl(t, "get", "coderworkspaces,codertemplates", "-A"); strings.Contains(out, "NAME") {
		t.Errorf("there are objects before the first control plane:\n%s", out)
	}
	// kube-apiserver collects the OpenAPI of a new group with a delay.
	polltest.Eventually(t, "kubectl explain shows the documentation of a field", func() error {
		out, err := tryKubectl(t, "explain", "coderworkspace.spec.running")
		if err != nil || !strings.Contains(out, "true if the workspace should run") {
			return fmt.Errorf("the answer is %q (%w)", out, err)
		}
		return nil
	})
	// kube-apiserver's discovery of all groups includes the group of another server with
	// a delay.
	polltest.Eventually(t, "the category coder has the nine kinds", func() error {
		out, err := tryKubectl(t, "api-resources", "--categories=coder", "--no-headers")
		if err != nil || strings.Count(out, "\n") != 9 {
			return fmt.Errorf("it has %s (%w)", out, err)
		}
		return nil
	})
}

// serving waits until the operator serves requests through kube-apiserver. It checks the
// pods, because just after a kill the Deployment and the APIService still show the
// previous state, and the process of a deleted pod responds until it has ended.
func serving(t *testing.T) {
	t.Helper()
	kubectl(t, "-n", "coder-system", "rollout", "status", "deploy/coder-k8s", "--timeout=5m")
	polltest.Eventually(t, "the operator's pods are ready and reached", func() error { return podsServe(t) })
	kubectl(t, "wait", "--for=condition=Available", "apiservice/v1alpha1.aggregation.coder.com", "--timeout=5m")
	polltest.Eventually(t, "the aggregated API answers", func() error {
		out, err := tryKubectl(t, "get", "coderworkspaces", "-A")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// podsServe returns an error unless the operator has the right number of pods, all of
// them ready and none terminating, and its Services select exactly these.
func podsServe(t *testing.T) error {
	t.Helper()
	var pods []string
	for _, pod := range list(t, "-n", "coder-system", "pods", "-l", operatorLabel) {
		if status, _, _ := condition(pod, "Ready"); status != "True" || field(pod, "metadata", "deletionTimestamp") != "" {
			return fmt.Errorf("pod %s is not ready, or ends", field(pod, "metadata", "name"))
		}
		pods = append(pods, field(pod, "metadata", "name"))
	}
	if want := field(get(t, "-n", "coder-system", "deployment", "coder-k8s"), "spec", "replicas"); want != strconv.Itoa(len(pods)) {
		return fmt.Errorf("there are %d pods of %s", len(pods), want)
	}
	slices.Sort(pods)
	for _, service := range []string{"coder-k8s", "coder-k8s-apiserver"} {
		for family, to := range podsBehind(t, service) {
			if !slices.Equal(to, pods) {
				return fmt.Errorf("service %s leads with %s to %q, and the pods are %q", service, family, to, pods)
			}
		}
	}
	return nil
}

// podsBehind returns the pods behind a Service of the operator, for each of its families.
func podsBehind(t *testing.T, service string) map[string][]string {
	t.Helper()
	behind := map[string][]string{}
	families, _, _ := unstructured.NestedStringSlice(get(t, "-n", "coder-system", "service", service), "spec", "ipFamilies")
	for _, family := range families {
		behind[family] = nil
	}
	for _, slice := range list(t, "-n", "coder-system", "endpointslices", "-l", "kubernetes.io/service-name="+service) {
		endpoints, _ := slice["endpoints"].([]any)
		for _, entry := range endpoints {
			endpoint, _ := entry.(map[string]any)
			if field(endpoint, "conditions", "ready") == "true" {
				family := field(slice, "addressType")
				behind[family] = append(behind[family], field(endpoint, "targetRef", "name"))
			}
		}
	}
	for _, pods := range behind {
		slices.Sort(pods)
	}
	return behind
}

// testSamples creates a control plane, a template and a workspace in a new namespace.
func testSamples(t *testing.T) {
	explain(t, sampleNamespace)
	kubectl(t, "create", "namespace", sampleNamespace)
	closeSamples(t)
	url := database(t, "coder")
	kubectl(t, "-n", sampleNamespace, "create", "secret", "generic", "coder-db", "--from-literal=url="+url)

	accepted(t, withLoadedImage(sample(t, "codercontrolplane")))
	waitCondition(t, "Ready", "True", "", "-n", sampleNamespace, "codercontrolplane", "coder")
	accepted(t, sample(t, "codertemplate"))
	waitCondition(t, "Ready", "True", "", "-n", sampleNamespace, "codertemplate", "coder.hello")
	kubectl(t, "apply", "-f", "../../config/samples/coderworkspace.yaml")
	waitCondition(t, "Ready", "True", "", "-n", sampleNamespace, "coderworkspace", "coder.admin.hello")
}

// testMainJob tests the main purpose of the project: from an empty namespace to a running
// workspace, observed and changed through Kubernetes and in Coder.
func testMainJob(t *testing.T) {
	testSamples(t)
	plane := get(t, "-n", sampleNamespace, "codercontrolplane", "coder")
	for path, want := range map[string]string{"phase": "Ready", "readyReplicas": "1", "operatorAccessReady": "true", "version": strings.TrimPrefix(coderImage, "ghcr.io/coder/coder:")} {
		if got := field(plane, "status", path); !strings.HasPrefix(got, want) {
			t.Errorf("status.%s is %q, not %q", path, got, want)
		}
	}

	out := kubectl(t, "get", "codercontrolplanes,codertemplates,coderworkspaces", "-A")
	t.Logf("kubectl get codercontrolplanes,codertemplates,coderworkspaces -A\n%s", out)
	for _, want := range []string{"coder.hello", "coder.admin.hello", "Running"} {
		if !strings.Contains(out, want) {
			t.Errorf("the list does not show %q", want)
		}
	}

	client := login(t, sampleNamespace, "coder")
	workspace := []string{"-n", sampleNamespace, "coderworkspace", "coder.admin.hello"}

	t.Run("stopped with kubectl, seen in Coder", func(t *testing.T) {
		kubectl(t, "-n", sampleNamespace, "patch", "cws", "coder.admin.hello", "--type=merge", "-p", `{"spec":{"running":false}}`)
		buildStatus(t, client, "admin", "hello", "stopped")
		waitCondition(t, "Ready", "True", "Stopped", workspace...)
	})
	t.Run("started in Coder, seen with kubectl", func(t *testing.T) {
		ws := buildStatus(t, client, "admin", "hello", "stopped")
		build(t, client, ws, "start")
		waitCondition(t, "Ready", "True", "Running", workspace...)
	})
	t.Run("stopped in Coder, seen with kubectl", func(t *testing.T) {
		ws := buildStatus(t, client, "admin", "hello", "running")
		build(t, client, ws, "stop")
		waitCondition(t, "Ready", "True", "Stopped", workspace...)
	})
	t.Run("dry-run changes nothing in Coder", func(t *testing.T) {
		before := buildStatus(t, client, "admin", "hello", "stopped")
		kubectl(t, "-n", sampleNamespace, "patch", "cws", "coder.admin.hello", "--type=merge", "-p", `{"spec":{"running":true}}`, "--dry-run=server")
		kubectl(t, "-n", sampleNamespace, "delete", "cws", "coder.admin.hello", "--dry-run=server")
		if out, err := tryKubectl(t, "-n", sampleNamespace, "delete", "ctpl", "coder.hello", "--dry-run=server"); err == nil || !strings.Contains(out, "delete its workspaces first") {
			t.Errorf("a dry deletion of a template that is used: %v\n%s", err, out)
		}
		after := buildStatus(t, client, "admin", "hello", "stopped")
		if before.LatestBuild.ID != after.LatestBuild.ID {
			t.Errorf("a dry run made build %d", after.LatestBuild.Number)
		}
	})
	t.Run("an applied template is not uploaded again", func(t *testing.T) {
		before := field(get(t, "-n", sampleNamespace, "codertemplate", "coder.hello"), "status", "latestVersionID")
		kubectl(t, "apply", "-f", "../../config/samples/codertemplate.yaml")
		after := field(get(t, "-n", sampleNamespace, "codertemplate", "coder.hello"), "status", "latestVersionID")
		if before == "" || before != after {
			t.Errorf("the newest version was %q and is %q", before, after)
		}
	})
	t.Run("a new template version becomes active after its build", func(t *testing.T) {
		before := field(get(t, "-n", sampleNamespace, "codertemplate", "coder.hello"), "status", "activeVersionID")
		kubectl(t, "-n", sampleNamespace, "patch", "ctpl", "coder.hello", "--type=merge", "-p", `{"spec":{"files":{"README.md":"Changed.\n"}}}`)
		polltest.Eventually(t, "the new version is active", func() error {
			object := get(t, "-n", sampleNamespace, "codertemplate", "coder.hello")
			ready, _, _ := condition(object, "Ready")
			if active := field(object, "status", "activeVersionID"); active == before || ready != "True" {
				return fmt.Errorf("active version %s, Ready=%s", active, ready)
			}
			return nil
		})
	})
}

// testNamespaceWithoutControlPlane deletes a namespace without a control plane: if the
// aggregated API returned anything but an empty list there, no namespace of a cluster
// could be deleted.
func testNamespaceWithoutControlPlane(t *testing.T) {
	explain(t)
	kubectl(t, "create", "namespace", "plain")
	if out := kubectl(t, "-n", "plain", "get", "coderworkspaces,codertemplates", "-o", "name"); strings.TrimSpace(out) != "" {
		t.Errorf("the list is not empty: %s", out)
	}
	kubectl(t, "delete", "namespace", "plain", "--timeout=5m")
}
