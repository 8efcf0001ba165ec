//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// publicWorkspaceImage is the public workspace image, which the node of the tests cannot
// pull.
const publicWorkspaceImage = "docker.io/codercom/enterprise-base:ubuntu"

// liveTemplate is examples/templates/kubernetes in Coder.
const liveTemplate = "coder.kubernetes"

const liveWorkspaceManifest = `
apiVersion: aggregation.coder.com/v1alpha1
kind: CoderWorkspace
metadata: {name: coder.admin.%s, namespace: coder}
spec:
  organization: coder
  templateName: kubernetes
  running: true
  parameters: [{name: cpu, value: "1"}, {name: memory, value: "1"}, {name: home_size, value: "1"}]
`

// withPlugin puts kubectl-coder, and the script that completes its arguments, into PATH.
func withPlugin(t *testing.T) {
	t.Helper()
	directory, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", directory+":"+os.Getenv("PATH"))
}

// pushLiveTemplate pushes examples/templates/kubernetes with the image of the test's
// cluster, if it is not there yet.
func pushLiveTemplate(t *testing.T) {
	t.Helper()
	coderGives(t, 0, "codertemplate.aggregation.coder.com/"+liveTemplate, "", "template", "push", "-n", sampleNamespace, liveTemplate,
		"../../examples/templates/kubernetes", "--create", "--wait", "--variable", "image="+os.Getenv("E2E_WORKSPACE_IMAGE"))
}

// liveWorkspace creates the workspace coder.admin.NAME, waits until its agent is
// connected, and deletes it after the test. It needs the samples and the plugin.
func liveWorkspace(t *testing.T, name string) (object string) {
	t.Helper()
	pushLiveTemplate(t)
	object = "coder.admin." + name
	apply(t, fmt.Sprintf(liveWorkspaceManifest, name))
	t.Cleanup(func() { cleanup("-n", sampleNamespace, "delete", "cws", object, "--ignore-not-found", "--timeout=5m") })
	waitCondition(t, "Ready", "True", "Running", "-n", sampleNamespace, "cws", object)
	waitCondition(t, "AgentsConnected", "True", "", "-n", sampleNamespace, "cws", object)
	return object
}

// inWorkspace runs a shell command in a workspace, and fails the test if it fails.
func inWorkspace(t *testing.T, object, command string) string {
	t.Helper()
	stdout, stderr, code := coder(t, "exec", "-n", sampleNamespace, object, "--", "sh", "-c", command)
	if code != 0 {
		t.Fatalf("%s in workspace %s: exit code %d\n%s%s", command, object, code, stdout, stderr)
	}
	return stdout
}

// testLiveWorkspace tests the life cycle of a workspace that is a pod with an agent and a
// volume.
func testLiveWorkspace(t *testing.T) {
	explain(t, sampleNamespace)
	withPlugin(t)
	// Pods of this template comply with the strictest level.
	kubectl(t, "label", "namespace", sampleNamespace, "pod-security.kubernetes.io/enforce=restricted", "--overwrite")
	t.Cleanup(func() { cleanup("label", "namespace", sampleNamespace, "pod-security.kubernetes.io/enforce-") })
	object := liveWorkspace(t, "live")
	t.Cleanup(func() {
		cleanup("-n", sampleNamespace, "delete", "ctpl", liveTemplate, "--ignore-not-found", "--timeout=5m")
	})
	agent := field(get(t, "-n", sampleNamespace, "cws", object), "status", "agents")
	if !strings.Contains(agent, "status:connected") {
		t.Errorf("status.agents is %s", agent)
	}

	t.Run("exec", func(t *testing.T) {
		stdout, stderr, code := coder(t, "exec", "-n", sampleNamespace, object, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
		if stdout != "out\n" || stderr != "err\n" || code != 7 {
			t.Errorf("exec wrote %q and %q and ended with %d", stdout, stderr, code)
		}
		tools := inWorkspace(t, object, "id -u; git --version; python3 --version; curl --version")
		if !containsAll(tools, "1000", "git version", "Python 3", "curl ") {
			t.Errorf("the workspace has %s", tools)
		}
	})
	if t.Run("template tests", testTemplateTests) {
		t.Run("activation after a test", testGate)
	}
	t.Run("the web app answers", func(t *testing.T) {
		polltest.Eventually(t, "the file server answers", func() error {
			stdout, stderr, code := coder(t, "exec", "-n", sampleNamespace, object, "--", "curl", "-sSf", "http://localhost:8000/")
			if code != 0 || !strings.Contains(stdout, "Directory listing") {
				return fmt.Errorf("exit code %d: %s%s", code, stdout, stderr)
			}
			return nil
		})
	})
	testLiveAccess(t, object)
	t.Run("tokens", func(t *testing.T) { testWorkspaceTokens(t, object) })
	t.Run("shared", testSharing)
	t.Run("MCP", func(t *testing.T) { testLiveMCP(t, object) })
	// Its end replaces the operator's pod.
	serving(t)
	t.Run("entered while a replica is killed", func(t *testing.T) {
		scaleOperator(t, 2)
		t.Cleanup(func() { cleanup("-n", "coder-system", "scale", "deploy/coder-k8s", "--replicas=1") })
		for pod := range replicaPods(t) {
			kill, before := killer(t, pod), restarts(get(t, "-n", "coder-system", "pod", pod))
			inWorkspace(t, object, "true")
			kill()
			// The Service still leads to it.
			if out := inWorkspace(t, object, "echo hello"); out != "hello\n" {
				t.Errorf("the command wrote %q", out)
			}
			// Until the kubelet notices, the pod counts as ready, and the other one must not be killed.
			polltest.Eventually(t, "the kubelet starts pod "+pod+" again", func() error {
				if restarts(get(t, "-n", "coder-system", "pod", pod)) <= before {
					return errors.New("it was not restarted")
				}
				return nil
			})
			scaleOperator(t, 2)
		}
		scaleOperator(t, 1)
	})
	t.Run("home survives stop and start", func(t *testing.T) {
		inWorkspace(t, object, "echo kept >~/file; echo gone >/tmp/file")
		coderGives(t, 0, "stopped", "", "stop", "-n", sampleNamespace, object, "--wait", "--yes")
		polltest.Eventually(t, "the pod is gone", func() error { return noneOf(t, "pods", "live") })
		coderGives(t, 0, "started", "", "start", "-n", sampleNamespace, object, "--wait")
		waitCondition(t, "Ready", "True", "Running", "-n", sampleNamespace, "cws", object)
		if out := inWorkspace(t, object, "cat ~/file; ls /tmp/file 2>&1 || true"); !strings.HasPrefix(out, "kept\n") || !strings.Contains(out, "No such file") {
			t.Errorf("after stop and start there is %q", out)
		}
	})
	t.Run("deleted with its pod and its volume", func(t *testing.T) {
		if noneOf(t, "pods", "live") == nil || noneOf(t, "persistentvolumeclaims", "live") == nil {
			t.Error("the labels do not find the pod and the claim")
		}
		kubectl(t, "-n", sampleNamespace, "delete", "cws", object, "--timeout=5m")
		for _, kind := range []string{"deployments", "pods", "persistentvolumeclaims"} {
			polltest.Eventually(t, "the "+kind+" are gone", func() error { return noneOf(t, kind, "live") })
		}
		polltest.Eventually(t, "the volume is gone", func() error {
			if volumes := kubectl(t, "get", "persistentvolumes", "-o", "name"); volumes != "" {
				return fmt.Errorf("there is still %s", volumes)
			}
			return nil
		})
	})
}

// noneOf returns an error while a workspace has objects of a kind.
func noneOf(t *testing.T, kind, workspace string) error {
	t.Helper()
	if objects := list(t, "-n", sampleNamespace, kind, "-l", "com.coder.workspace.name="+workspace); len(objects) > 0 {
		return fmt.Errorf("there is %s %s", kind, field(objects[0], "metadata", "name"))
	}
	return nil
}
