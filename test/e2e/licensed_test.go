//go:build e2e

package e2e

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// testRights requests permissions that the operator may not grant, and permissions in
// a namespace that does not exist: both are reported in conditions, and Coder works.
func testRights(t *testing.T) {
	explain(t, sampleNamespace)
	cp := []string{"-n", sampleNamespace, "ccp", "coder"}
	kubectl(t, "-n", sampleNamespace, "patch", "ccp", "coder", "--type=merge", "-p",
		`{"spec":{"rbac":{"extraRules":[{"apiGroups":["apiextensions.k8s.io"],"resources":["customresourcedefinitions"],"verbs":["delete"]}]}}}`)
	message := waitCondition(t, "WorkspaceAccess", "False", "GrantForbidden", cp...)
	t.Logf("a rule that may not be granted: %s", message)
	stillReady(t)

	kubectl(t, "-n", sampleNamespace, "patch", "ccp", "coder", "--type=merge", "-p", `{"spec":{"rbac":{"extraRules":null,"workspaceNamespaces":["e2e-nowhere"]}}}`)
	message = waitCondition(t, "WorkspaceAccess", "False", "NamespaceMissing", cp...)
	t.Logf("a namespace that does not exist: %s", message)
	stillReady(t)
	// A new namespace is detected within a minute, and at the next change.
	namespace(t, "e2e-nowhere")
	kubectl(t, "-n", sampleNamespace, "patch", "ccp", "coder", "--type=merge", "-p", `{"spec":{"rbac":{"enableDeployments":false}}}`)
	waitCondition(t, "WorkspaceAccess", "True", "Granted", cp...)

	kubectl(t, "-n", sampleNamespace, "patch", "ccp", "coder", "--type=merge", "-p", `{"spec":{"rbac":{"workspaceNamespaces":null,"enableDeployments":null}}}`)
	polltest.Eventually(t, "the rights are taken back", func() error {
		if out := kubectl(t, "-n", "e2e-nowhere", "get", "roles,rolebindings", "-o", "name"); strings.TrimSpace(out) != "" {
			return fmt.Errorf("there is %s", out)
		}
		return nil
	})
	sampleReady(t)
}

// stillReady checks that the sample control plane is Ready now.
func stillReady(t *testing.T) {
	t.Helper()
	if status, reason, message := condition(get(t, "-n", sampleNamespace, "ccp", "coder"), "Ready"); status != "True" {
		t.Errorf("Ready is %s, %s: %s", status, reason, message)
	}
}

// testLicensedParts uses licensed features with the AGPL build of Coder.
func testLicensedParts(t *testing.T) {
	explain(t, sampleNamespace)
	encode := base64.RawURLEncoding.EncodeToString
	license := encode([]byte(`{"alg":"EdDSA","typ":"JWT"}`)) + "." +
		encode(fmt.Appendf(nil, `{"iss":"e2e","license_expires":%d,"exp":%d,"version":3,"feature_set":"premium"}`,
			time.Now().Add(24*time.Hour).Unix(), time.Now().Add(48*time.Hour).Unix())) + "." + encode([]byte("no signature"))
	kubectl(t, "-n", sampleNamespace, "create", "secret", "generic", "license", "--from-literal=license="+license)
	patchSample(t, `{"licenseSecretRef":{"name":"license"}}`)
	message := waitCondition(t, "LicenseApplied", "False", "NotSupported", "-n", sampleNamespace, "ccp", "coder")
	t.Logf("LicenseApplied: %s", message)
	stillReady(t)

	kubectl(t, "apply", "-f", "../../config/samples/coderprovisioner.yaml", "-f", "../../config/samples/coderworkspaceproxy.yaml")
	for _, c := range []struct{ kind, name, part string }{
		{"coderprovisioner", "zone-a", "ExternalProvisionersEntitled"}, {"coderworkspaceproxy", "sydney", "Registered"},
	} {
		object := []string{"-n", sampleNamespace, c.kind, c.name}
		message := waitCondition(t, c.part, "False", "NotSupported", object...)
		t.Logf("%s: %s", c.part, message)
		waitCondition(t, "Ready", "False", "NotSupported", object...)
		waitCondition(t, "Stalled", "True", "NotSupported", object...)
	}
	out := kubectl(t, "get", "ccp,cprov,cwp", "-A")
	t.Logf("kubectl get ccp,cprov,cwp -A\n%s", out)
	all := kubectl(t, "-n", sampleNamespace, "get", "coder")
	for _, want := range []string{"codercontrolplane.coder.com/coder", "coderprovisioner.coder.com/zone-a", "coderworkspaceproxy.coder.com/sydney", "coder.admin.hello"} {
		if !strings.Contains(all, want) {
			t.Errorf("kubectl get coder does not show %s:\n%s", want, all)
		}
	}
	t.Logf("kubectl describe ccp coder\n%s", kubectl(t, "-n", sampleNamespace, "describe", "ccp", "coder"))
}

// rest is how long the idle operator is observed.
const rest = time.Minute

// coderBudget is the maximum number of requests per minute to an idle Coder.
const coderBudget = 60

// forgetKilledReplicas removes the Leases of replicas that this test has killed. The
// operator does that itself ten minutes later, which may be in the middle of a test.
func forgetKilledReplicas(t *testing.T) {
	t.Helper()
	pods := replicaPods(t)
	for _, name := range strings.Fields(kubectl(t, "-n", "coder-system", "get", "leases", "-o", "jsonpath={.items[*].metadata.name}")) {
		if pod, ok := strings.CutPrefix(name, "coder-k8s-apiserver-"); ok && pods[pod] == "" {
			t.Logf("a killed replica has left Lease %s", name)
			kubectl(t, "-n", "coder-system", "delete", "lease", name, "--ignore-not-found")
		}
	}
}

// testRest observes an idle control plane, provisioner and proxy: soon nothing is written for
// a minute, and only the mirror sends requests to Coder, within its budget.
func testRest(t *testing.T) {
	explain(t, sampleNamespace)
	forgetKilledReplicas(t)
	versions := func() string {
		return kubectl(t, "-n", sampleNamespace, "get",
			"ccp,cprov,cwp,deployments,replicasets,pods,services,serviceaccounts,secrets,configmaps,roles,rolebindings,events",
			"-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`)
	}
	// The effects of earlier steps end first: repeated Events, and that the mirror reads the newest jobs more often for
	// a minute after it saw a build begin or end.
	counts, start, last := countsOf(t), time.Now(), versions()
	var problem string
	for range 10 {
		polltest.Eventually(t, "the minute is over", func() bool { return time.Since(start) >= rest })
		now := countsOf(t)
		passed := time.Since(start) // With the time that reading the metrics took.
		did := now.since(counts)
		counts, start = now, time.Now()
		requests, before, objects := did.allCoderRequests(), last, versions()
		last = objects
		t.Logf("in %.0f s: %.0f writes to Kubernetes, %.0f requests to Coder: %v", passed.Seconds(), did.writes, requests, did.coderRequests)
		switch {
		case did.writes != 0 || requests > coderBudget*passed.Minutes():
			problem = fmt.Sprintf("there were %.0f writes and %.0f requests to Coder", did.writes, requests)
		case objects != before:
			problem = fmt.Sprintf("objects were written; before:\n%s\nafter:\n%s", before, objects)
		default:
			return
		}
	}
	t.Errorf("the operator is never at rest for a minute; in the last one %s", problem)
}

// testLicensedPartsDeleted deletes them, and removes the license.
func testLicensedPartsDeleted(t *testing.T) {
	explain(t, sampleNamespace)
	start := time.Now()
	kubectl(t, "-n", sampleNamespace, "delete", "coderprovisioner/zone-a", "coderworkspaceproxy/sydney", "--timeout=5m")
	t.Logf("provisioner and proxy deleted after %.1f s", time.Since(start).Seconds())
	patchSample(t, `{"licenseSecretRef":null}`)
	if status, _, message := condition(get(t, "-n", sampleNamespace, "ccp", "coder"), "LicenseApplied"); status != "" {
		t.Errorf("the condition LicenseApplied is still there: %s", message)
	}
	polltest.Eventually(t, "nothing of them is left", func() error {
		out := kubectl(t, "-n", sampleNamespace, "get", "deployments,secrets,serviceaccounts,roles,rolebindings", "-o", "name")
		if strings.Contains(out, "zone-a") || strings.Contains(out, "sydney") {
			return fmt.Errorf("there is\n%s", out)
		}
		return nil
	})
}
