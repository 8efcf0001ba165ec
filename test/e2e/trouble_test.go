//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const controlPlane = `
apiVersion: coder.com/v1alpha1
kind: CoderControlPlane
metadata: {name: %s, namespace: %s}
spec:
  image: %s
  resources: {}
  extraEnv: [{name: CODER_PG_CONNECTION_URL, valueFrom: {secretKeyRef: {name: db, key: url}}}]
`

// coderImage is the Coder that the cluster has. test/e2e/group.sh sets it.
var coderImage = os.Getenv("E2E_CODER_IMAGE")

// testDatabaseUnreachable checks what is reported, how soon, and that the password
// appears nowhere.
func testDatabaseUnreachable(t *testing.T) {
	explain(t, "trouble-db")
	namespace(t, "trouble-db")
	const password = "s3cretPassw0rd"
	kubectl(t, "-n", "trouble-db", "create", "secret", "generic", "db", "--from-literal=url=postgres://coder:"+password+"@127.0.0.1:1/coder?sslmode=disable")
	apply(t, fmt.Sprintf(controlPlane, "coder", "trouble-db", coderImage))
	message := waitCondition(t, "DeploymentAvailable", "False", "DatabaseUnreachable", "-n", "trouble-db", "ccp", "coder")
	t.Logf("condition: %s", message)
	polltest.Eventually(t, "an Event says so", func() error {
		events := kubectl(t, "-n", "trouble-db", "get", "events.events.k8s.io", "--field-selector=reason=DatabaseUnreachable", "-o", "name")
		if strings.TrimSpace(events) == "" {
			return fmt.Errorf("there is none with the reason DatabaseUnreachable")
		}
		return nil
	})
	told := kubectl(t, "-n", "trouble-db", "get", "ccp,deployments,events,events.events.k8s.io", "-o", "yaml") +
		kubectl(t, "-n", "coder-system", "logs", "deploy/coder-k8s")
	if strings.Contains(told, password) {
		t.Error("the password of the database is told")
	}
}

// testImageMissing checks what is reported for an image that no node can pull.
func testImageMissing(t *testing.T) {
	explain(t, "trouble-image")
	namespace(t, "trouble-image")
	kubectl(t, "-n", "trouble-image", "create", "secret", "generic", "db", "--from-literal=url=postgres://127.0.0.1:1/coder")
	apply(t, fmt.Sprintf(controlPlane, "coder", "trouble-image", "registry.invalid/coder:none"))
	message := waitCondition(t, "DeploymentAvailable", "False", "ImagePullFailed", "-n", "trouble-image", "ccp", "coder")
	if !strings.Contains(message, "registry.invalid/coder:none") {
		t.Errorf("the message does not name the image: %s", message)
	}
}

// testNotOwned checks that a Service of someone else is not changed.
func testNotOwned(t *testing.T) {
	explain(t, "trouble-owner")
	namespace(t, "trouble-owner")
	kubectl(t, "-n", "trouble-owner", "create", "service", "clusterip", "coder", "--tcp=1234:1234")
	before := field(get(t, "-n", "trouble-owner", "service", "coder"), "metadata", "resourceVersion")
	kubectl(t, "-n", "trouble-owner", "create", "secret", "generic", "db", "--from-literal=url=postgres://127.0.0.1:1/coder")
	apply(t, fmt.Sprintf(controlPlane, "coder", "trouble-owner", coderImage))
	message := waitCondition(t, "ResourcesApplied", "False", "NotOwned", "-n", "trouble-owner", "ccp", "coder")
	if !strings.Contains(message, "Service") || !strings.Contains(message, "coder") {
		t.Errorf("the message does not name the Service: %s", message)
	}
	if after := field(get(t, "-n", "trouble-owner", "service", "coder"), "metadata", "resourceVersion"); after != before {
		t.Errorf("the Service was changed: %s to %s", before, after)
	}
}

// testKilledHalfWay kills the operator repeatedly while it creates a control plane:
// the control plane must become Ready, with one account and one token.
func testKilledHalfWay(t *testing.T) {
	explain(t, "killed")
	kubectl(t, "create", "namespace", "killed")
	kubectl(t, "-n", "killed", "create", "secret", "generic", "db", "--from-literal=url="+database(t, "killed"))
	apply(t, fmt.Sprintf(controlPlane, "coder", "killed", coderImage))
	kills := 0
	polltest.Eventually(t, "Ready in spite of the kills", func() error {
		status, reason, _ := condition(get(t, "-n", "killed", "ccp", "coder"), "Ready")
		if status == "True" {
			return nil
		}
		if kills < 4 {
			_, _ = tryKubectl(t, "-n", "coder-system", "delete", "pod", "-l", "app.kubernetes.io/name=coder-k8s", "--grace-period=0", "--force")
			_, _ = tryKubectl(t, "-n", "coder-system", "rollout", "status", "deploy/coder-k8s", "--timeout=5m")
			kills++
		}
		return fmt.Errorf("Ready=%q %s after %d kills", status, reason, kills)
	})
	serving(t)
	client := login(t, "killed", "coder")
	tokens := tokensOf(t, client)
	if len(tokens) != 1 {
		t.Errorf("the operator has %d tokens in Coder, not 1: %v", len(tokens), tokens)
	}
	// The Job that created the operator's account is deleted a moment later.
	polltest.Eventually(t, "there is just one Deployment and one Service", func() error {
		if out := kubectl(t, "-n", "killed", "get", "deployments,services,jobs", "-o", "name"); strings.Count(out, "\n") != 2 {
			return fmt.Errorf("there is\n%s", out)
		}
		return nil
	})
}

// testNamespaceDeleted deletes a whole namespace: its workspaces are removed from the
// API and remain in Coder, because nobody requested their deletion.
func testNamespaceDeleted(t *testing.T) {
	explain(t, "killed")
	for _, sample := range []string{"codertemplate", "coderworkspace"} {
		manifest, err := os.ReadFile("../../config/samples/" + sample + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		accepted(t, strings.ReplaceAll(string(manifest), "namespace: coder", "namespace: killed"))
		name := map[string]string{"codertemplate": "coder.hello", "coderworkspace": "coder.admin.hello"}[sample]
		waitCondition(t, "Ready", "True", "", "-n", "killed", sample, name)
	}
	start := time.Now()
	kubectl(t, "delete", "namespace", "killed", "--timeout=5m")
	t.Logf("the namespace is gone after %.1f s", time.Since(start).Seconds())
	if n := query(t, "killed", "SELECT count(*) FROM workspaces WHERE NOT deleted"); n != "1" {
		t.Errorf("Coder has %s workspaces, not the one", n)
	}
	if n := query(t, "killed", "SELECT count(*) FROM workspace_builds WHERE transition = 'delete'"); n != "0" {
		t.Errorf("%s builds delete a workspace", n)
	}
}

// testDeploymentWithUsers creates a control plane with a database that has users and a
// workspace: a Job creates the operator's account, also with additions to the pods, no
// initial admin is created, and the workspace is unchanged.
func testDeploymentWithUsers(t *testing.T) {
	explain(t, "users")
	namespace(t, "users")
	// Pod Security rejects every pod that is not restricted, including that of the
	// Job.
	kubectl(t, "label", "namespace", "users", "pod-security.kubernetes.io/enforce=restricted")
	kubectl(t, "-n", "users", "create", "secret", "generic", "db", "--from-literal=url="+databaseURL("killed"))
	apply(t, fmt.Sprintf(controlPlane, "coder", "users", coderImage)+"  podTemplate:\n"+indented(podTemplate, 4))
	waitCondition(t, "Ready", "True", "", "-n", "users", "ccp", "coder")
	checkPodTemplate(t, "users")
	polltest.Eventually(t, "the workspace is there again", func() error {
		out, err := tryKubectl(t, "-n", "users", "get", "coderworkspaces", "-o", "name")
		if err != nil || !strings.Contains(out, "coder.admin.hello") {
			return fmt.Errorf("the list is %q (%w)", out, err)
		}
		return nil
	})
	if get(t, "-n", "users", "secret", "coder-initial-admin") != nil {
		t.Error("an initial admin was made where people have accounts already")
	}
	polltest.Eventually(t, "the Job is removed", func() error {
		if out := kubectl(t, "-n", "users", "get", "jobs", "-o", "name"); strings.TrimSpace(out) != "" {
			return fmt.Errorf("there is still %s", out)
		}
		return nil
	})
	kubectl(t, "-n", "users", "delete", "ccp", "coder", "--timeout=5m")
}

// testTokenRefused deletes the operator's token in Coder: it is renewed.
func testTokenRefused(t *testing.T) {
	explain(t, sampleNamespace)
	client := login(t, sampleNamespace, "coder")
	before := secretValue(t, sampleNamespace, "coder-operator-token", "token")
	for _, token := range tokensOf(t, client) {
		if err := client.DeleteToken(t.Context(), "coder-k8s-operator", token.ID); err != nil {
			t.Fatal(err)
		}
	}
	// The mirror polls Coder and detects it, whether or not there are readers.
	polltest.Eventually(t, "the token is renewed", func() error {
		if secretValue(t, sampleNamespace, "coder-operator-token", "token") == before {
			return fmt.Errorf("the Secret still holds the old token")
		}
		return nil
	})
	listed(t, "coder.admin.hello")
}

// testCoderUnreachable scales Coder to 0: no objects are lost, and no list is empty.
func testCoderUnreachable(t *testing.T) {
	explain(t, sampleNamespace)
	seen := watchAll(t, "coderworkspaces", "codertemplates")
	kubectl(t, "-n", sampleNamespace, "patch", "ccp", "coder", "--type=merge", "-p", `{"spec":{"replicas":0}}`)
	t.Cleanup(func() {
		cleanup("-n", sampleNamespace, "patch", "ccp", "coder", "--type=merge", "-p", `{"spec":{"replicas":1}}`)
	})
	toldAway(t)
	kubectl(t, "-n", sampleNamespace, "patch", "ccp", "coder", "--type=merge", "-p", `{"spec":{"replicas":1}}`)
	// It is Ready with 0 replicas too, so check that it is Ready for its current spec.
	sampleReady(t)
	toldBack(t)
	seen.nothingDeleted(t)
}
