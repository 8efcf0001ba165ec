//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"
)

// testTemplateTests tests the template of live workspaces twice, with a user that the operator creates: with the sample, which succeeds, and
// with a command that fails. No workspace is left. It needs the template.
func testTemplateTests(t *testing.T) {
	kubectl(t, "-n", sampleNamespace, "patch", "ccp", "coder", "--type=merge", "-p", `{"spec":{"templateTests":{"ownerUsername":"template-tester","createOwner":true}}}`)
	t.Cleanup(func() { cleanup("-n", sampleNamespace, "delete", "ctt", "--all", "--timeout=5m") })
	finish := func(name, manifest string) map[string]any {
		t.Helper()
		start := time.Now()
		apply(t, manifest)
		kubectl(t, "-n", sampleNamespace, "wait", "ctt/"+name, "--for=condition=Finished", "--timeout=5m")
		t.Logf("the test %s took %.1f s:\n%s", name, time.Since(start).Seconds(), kubectl(t, "-n", sampleNamespace, "get", "ctt", name, "-o", "wide"))
		kubectl(t, "-n", sampleNamespace, "wait", "ctt/"+name, "--for=condition=WorkspaceDeleted", "--timeout=5m")
		return get(t, "-n", sampleNamespace, "ctt", name)
	}
	good := sample(t, "codertemplatetest")
	if object := finish("kubernetes", good); field(object, "status", "phase") != "Succeeded" || !strings.Contains(field(object, "status", "commands"), "git version") {
		t.Errorf("the status is %v", object["status"])
	}
	bad := strings.NewReplacer("name: kubernetes\n", "name: bad\n", "git --version && python3 --version", "echo nothing here; exit 3").Replace(good)
	object := finish("bad", bad)
	_, reason, message := condition(object, "Ready")
	if reason != "CommandFailed" || field(object, "status", "failedCheck") != "Command/tools" || !strings.Contains(message, "exit code 3: nothing here") {
		t.Errorf("the reason is %s at %s: %s", reason, field(object, "status", "failedCheck"), message)
	}
	if left := kubectl(t, "-n", sampleNamespace, "get", "cws", "-o", "name"); strings.Contains(left, "template-tester") {
		t.Errorf("workspaces are left: %s", left)
	}
}
