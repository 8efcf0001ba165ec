//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
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
		t.Logf("the test %s took %.1f s with the deletion of its workspace", name, time.Since(start).Seconds())
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
	// The condition says what is in Coder. The aggregated API may show the workspace until it has read Coder again.
	start := time.Now()
	polltest.Eventually(t, "no workspace of a test is left", func(ctx context.Context) error {
		workspaces, err := tryList(ctx, "-n", sampleNamespace, "cws")
		if err == nil && !contains(workspaces, "coder.admin.hello") {
			return fmt.Errorf("coder.admin.hello is not among %d workspaces", len(workspaces))
		}
		for _, w := range workspaces {
			if name := field(w, "metadata", "name"); strings.Contains(name, "template-tester") {
				return fmt.Errorf("%s is left", name)
			}
		}
		return err
	})
	t.Logf("the aggregated API showed the last workspace of a test for %.1f s more", time.Since(start).Seconds())
}

// testGate tests spec.activation AfterTest with the template of live workspaces: a version whose test succeeds becomes active, and one
// whose test fails does not. It ends with the source and the activation as before.
func testGate(t *testing.T) {
	t.Cleanup(func() { cleanup("-n", sampleNamespace, "delete", "ctt", "--all", "--timeout=5m") })
	kubernetes := []string{"-n", sampleNamespace, "ctpl", "coder.kubernetes"}
	push := func(notes, activation, command string) {
		t.Helper()
		kubectl(t, append([]string{"patch", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"activation":%s,"files":{"notes.md":%s},"tests":[{"name":"tools",
			"parameters":[{"name":"cpu","value":"1"},{"name":"memory","value":"1"},{"name":"home_size","value":"1"}],
			"checks":{"commands":[{"name":"tools","command":["sh","-c",%q]}]},"timeoutSeconds":300}]}}`, activation, notes, command)}, kubernetes...)...)
	}
	active := func() string { return field(get(t, kubernetes...), "status", "activeVersionID") }
	first := active()
	kubectl(t, append([]string{"patch", "--type=merge", "--dry-run=server", "-p", `{"spec":{"activation":"AfterTest","tests":[{"name":"tools"}]}}`}, kubernetes...)...)
	if out, err := tryKubectl(t, append([]string{"patch", "--type=merge", "-p", `{"spec":{"tests":[{"name":"tools","timeoutSeconds":1}]}}`}, kubernetes...)...); err == nil || !strings.Contains(out, "spec.tests[0].timeoutSeconds") {
		t.Errorf("a test that no CoderTemplateTest could be: %s", out)
	}

	start := time.Now()
	push(`"one"`, `"AfterTest"`, "git --version")
	waitCondition(t, "Reconciling", "True", "TestsRunning", kubernetes...)
	if now := active(); now != first {
		t.Errorf("version %s is active before its test", now)
	}
	waitCondition(t, "Ready", "True", "Active", kubernetes...)
	second := active()
	if second == first {
		t.Errorf("version %s is active after the test", first)
	}
	t.Logf("tested and promoted %.1f s after the push:\n%s", time.Since(start).Seconds(), kubectl(t, "-n", sampleNamespace, "get", "ctt", "-o", "wide"))

	push(`"two"`, `"AfterTest"`, "echo nothing here; exit 3")
	message := waitCondition(t, "Stalled", "True", "TestsFailed", kubernetes...)
	if !containsAll(message, `test "tools"`, "Command/tools", "exit code 3: nothing here") || active() != second {
		t.Errorf("version %s is active, and Stalled is %s", active(), message)
	}
	coderGives(t, 0, "candidate, test tools failed", "", "template", "history", "kubernetes", "-n", sampleNamespace)
	events := func() int {
		return len(strings.Fields(kubectl(t, "-n", sampleNamespace, "get", "events.events.k8s.io", "--field-selector=reason=TestsFailed", "-o", "name")))
	}
	polltest.Eventually(t, "an Event reports the failure", func() error {
		if events() == 0 {
			return errors.New("there is none")
		}
		return nil
	})
	push("null", "null", "true")
	waitCondition(t, "Ready", "True", "Active", kubernetes...)
	if n := events(); n != 1 {
		t.Errorf("%d Events report the failure", n)
	}
}
