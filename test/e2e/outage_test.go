//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// outage is how long the database is stopped.
const outage = time.Minute

// testCoderPodKilled kills the only pod of Coder without a grace period.
func testCoderPodKilled(t *testing.T) {
	explain(t, sampleNamespace)
	token := secretValue(t, sampleNamespace, "coder-operator-token", "token")
	// It may be over before the next poll, so the test uses a watch.
	w := watch(t, "ccp", "coder", "-o", `jsonpath=Ready is {.status.conditions[?(@.type=="Ready")].status} with {.status.readyReplicas} pods{"\n"}`)
	polltest.Eventually(t, "the watch has begun", w.shows("Ready is True with 1 pods"))
	start := time.Now()
	kubectl(t, "-n", sampleNamespace, "delete", "pod", "-l", "app.kubernetes.io/name=coder-control-plane", "--grace-period=0", "--force")
	polltest.Eventually(t, "the control plane is not Ready, and status.readyReplicas follows", func() error {
		return errors.Join(w.shows("Ready is False")(), w.showsOneOf("with 0 pods", "with  pods")())
	})
	sampleReady(t)
	t.Logf("Ready %.1f s after the kill", time.Since(start).Seconds())
	listed(t, "coder.admin.hello")
	oneToken(t, token)
}

// listed waits until a workspace is served.
func listed(t *testing.T, workspace string) {
	t.Helper()
	polltest.Eventually(t, "workspaces are listed", func(ctx context.Context) error {
		workspaces, err := tryList(ctx, "-n", sampleNamespace, "coderworkspaces")
		if err == nil && !contains(workspaces, workspace) {
			return fmt.Errorf("%s is not among %d workspaces", workspace, len(workspaces))
		}
		return err
	})
}

// accessSays is the output format for a watch of a control plane's access to Coder. A
// range would print only for the first event, because kubectl keeps the state of the
// range.
const accessSays = `{.status.conditions[?(@.type=="OperatorAccess")].status} ` +
	`{.status.conditions[?(@.type=="OperatorAccess")].reason} ` +
	`{.status.conditions[?(@.type=="OperatorAccess")].message}{"\n"}`

// testDatabaseStopped stops PostgreSQL for a minute while Coder runs. Coder's pods
// stay ready all the time.
func testDatabaseStopped(t *testing.T) {
	explain(t, sampleNamespace)
	token := secretValue(t, sampleNamespace, "coder-operator-token", "token")
	seen := watchAll(t, "coderworkspaces", "codertemplates")
	access := watch(t, "ccp", "coder", "-o", "jsonpath="+accessSays)
	polltest.Eventually(t, "the watch of the control plane has begun", access.shows("True"))
	counts := countsOf(t)
	t.Cleanup(func() { clusterScriptAfter("database.sh", "start") })
	stopped := time.Now()
	clusterScript(t, "database.sh", "stop")

	// Clients of the aggregated API get a warning, and the control plane reports the
	// cause.
	toldAway(t)
	message := waitCondition(t, "OperatorAccess", "False", "Unreachable", "-n", sampleNamespace, "ccp", "coder")
	t.Logf("told %.1f s after the stop: %s", time.Since(stopped).Seconds(), message)
	// The Event reports the start of the outage; the condition may have more details
	// by now.
	polltest.Eventually(t, "an Event says so", func() error {
		notes := kubectl(t, "-n", sampleNamespace, "get", "events.events.k8s.io", "--field-selector=reason=Unreachable", "-o", "jsonpath={.items[*].note}")
		for line := range strings.Lines(access.text()) {
			if said, ok := strings.CutPrefix(strings.TrimSpace(line), "False Unreachable "); ok && strings.Contains(notes, said) {
				return nil
			}
		}
		return fmt.Errorf("the Events with the reason Unreachable say %q, and the condition said\n%s", notes, access.text())
	})
	// A request that was in progress at that time may have reported another error.
	polltest.Eventually(t, "the condition names the database", func() error {
		_, _, message := condition(get(t, "-n", sampleNamespace, "ccp", "coder"), "OperatorAccess")
		if !namesDatabase(message) {
			return fmt.Errorf("it says %q", message)
		}
		return nil
	})
	polltest.Eventually(t, "the minute is over", func() error {
		if away := time.Since(stopped); away < outage {
			return fmt.Errorf("it is away for %s", away)
		}
		return nil
	})
	wrote, away := countsOf(t).since(counts), time.Since(stopped)
	t.Logf("during the outage of %s: %.0f writes to Kubernetes, %.0f requests to Coder", away, wrote.writes, wrote.allCoderRequests())
	if wrote.writes > 20*max(1, away.Minutes()) {
		t.Errorf("the operator wrote %.0f times", wrote.writes)
	}

	started := time.Now()
	clusterScript(t, "database.sh", "start")
	sampleReady(t)
	t.Logf("Ready %.1f s after the start", time.Since(started).Seconds())
	toldBack(t)
	seen.nothingDeleted(t)
	oneToken(t, token)
}

// namesDatabase reports whether a text contains the database as the cause: it refuses
// connections, or it is shutting down.
func namesDatabase(text string) bool {
	return strings.Contains(text, ":"+postgresPort()+": connect: connection refused") ||
		strings.Contains(text, "the database system is shutting down") ||
		strings.Contains(text, "terminating connection due to administrator command")
}

// toldAway waits until Coder's objects are not synced and a list contains the warning that Coder is
// unavailable. The list is never empty, and objects can be read by name.
func toldAway(t *testing.T) {
	t.Helper()
	polltest.Eventually(t, "the objects are not synced, and the list is not empty", func(ctx context.Context) error {
		workspaces, err := tryList(ctx, "-n", sampleNamespace, "coderworkspaces")
		hello := slices.IndexFunc(workspaces, func(w map[string]any) bool { return field(w, "metadata", "name") == "coder.admin.hello" })
		if err != nil && ctx.Err() != nil {
			return err
		}
		if err != nil || hello < 0 {
			t.Fatalf("the list is %v: %v", workspaces, err)
		}
		if status, reason, message := condition(workspaces[hello], "Synced"); status != "False" || reason != "CoderUnreachable" {
			return fmt.Errorf("condition Synced is %q, reason %q: %s", status, reason, message)
		}
		return nil
	})
	polltest.Eventually(t, "a list warns that Coder is away, and is not empty", func() error {
		out, warned, err := kubectlBoth(t, "-n", sampleNamespace, "get", "coderworkspaces", "-o", "name")
		if err != nil || !strings.Contains(out, "coder.admin.hello") {
			t.Fatalf("the list is %q: %v %s", out, err, warned)
		}
		if !strings.Contains(warned, "Warning: the objects of CoderControlPlane coder/coder are in their last known state") {
			return fmt.Errorf("it says %q", warned)
		}
		t.Logf("kubectl get coderworkspaces: %s", strings.TrimSpace(warned))
		return nil
	})
	waitCondition(t, "Synced", "False", "CoderUnreachable", "-n", sampleNamespace, "cws", "coder.admin.hello")
	out, err := tryKubectl(t, "-n", sampleNamespace, "get", "cws", "coder.admin.unknown")
	if err == nil || !strings.Contains(out, "ServiceUnavailable") || strings.Contains(out, "NotFound") {
		t.Errorf("a name that nobody can know of is answered with %v %s", err, out)
	}
}

// toldBack waits until the objects are synced and lists contain no warning.
func toldBack(t *testing.T) {
	t.Helper()
	waitCondition(t, "Synced", "True", "Synced", "-n", sampleNamespace, "cws", "coder.admin.hello")
	polltest.Eventually(t, "lists warn no more", func() error {
		out, warned, err := kubectlBoth(t, "-n", sampleNamespace, "get", "coderworkspaces", "-o", "name")
		if err != nil || warned != "" || !strings.Contains(out, "coder.admin.hello") {
			return fmt.Errorf("%w %s%s", err, out, warned)
		}
		return nil
	})
}

const (
	crashTemplate = `{"apiVersion": "aggregation.coder.com/v1alpha1", "kind": "CoderTemplate",
		"metadata": {"name": "coder.crash", "namespace": "coder", "labels": {"example.com/story": "crash"}},
		"spec": {"organization": "coder", "files": {"main.tf": %q, "README.md": %q}}}`
	crashWorkspace = `{"apiVersion": "aggregation.coder.com/v1alpha1", "kind": "CoderWorkspace",
		"metadata": {"name": "coder.admin.crash", "namespace": "coder", "labels": {"example.com/story": "crash"}},
		"spec": {"organization": "coder", "templateName": "crash", "running": %t}}`
)

// crashCounts returns the numbers of versions of the template, of builds of the
// workspace, and of versions that belong to no template.
func crashCounts(t *testing.T) string {
	t.Helper()
	return query(t, "coder", `SELECT
		(SELECT count(*) FROM template_versions WHERE template_id IS NULL OR template_id IN (SELECT id FROM templates WHERE name = 'crash')) || ' versions, ' ||
		(SELECT count(*) FROM workspaces WHERE name = 'crash') || ' workspaces, ' ||
		(SELECT count(*) FROM workspace_builds WHERE workspace_id IN (SELECT id FROM workspaces WHERE name = 'crash')) || ' builds'`)
}

// killedOnceTold runs kubectl and kills the operator as soon as Coder has received a
// change, if possible while kubectl waits for its response. Then it repeats the
// command, as users do, until it succeeds.
func killedOnceTold(t *testing.T, manifest string, args ...string) {
	t.Helper()
	pod := strings.TrimSpace(kubectl(t, "-n", "coder-system", "get", "pods", "-l", operatorLabel, "-o", "jsonpath={.items[0].metadata.name}"))
	kill, before, first := killer(t, pod), crashCounts(t), make(chan string, 1)
	go func() {
		out, err := kubectlInput(t, manifest, args...)
		first <- fmt.Sprintf("%v %s", err, strings.TrimSpace(out))
	}()
	ctx, cancel := context.WithTimeout(t.Context(), polltest.Timeout())
	defer cancel()
	every(ctx, 5*time.Millisecond, func() {
		if crashCounts(t) != before {
			kill()
			cancel()
		}
	})
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Fatalf("Coder still has %s: %s", before, <-first)
	}
	// A new pod starts without the back-off of a crashed container.
	kubectl(t, "-n", "coder-system", "delete", "pod", pod, "--grace-period=0", "--force")
	t.Logf("kubectl %s, under the kill: %s", args[0], <-first)
	serving(t)
	polltest.Eventually(t, "the same again is accepted", func() error {
		out, err := kubectlInput(t, manifest, args...)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// testKilledDuringWrites kills the operator in the middle of each kind of write:
// repeating the command completes the write, and nothing is created twice.
func testKilledDuringWrites(t *testing.T) {
	explain(t, sampleNamespace)
	main := fmt.Sprintf("# %d\nresource \"terraform_data\" \"crash\" {}\n", time.Now().UnixNano())
	template, workspace := []string{"-n", sampleNamespace, "ctpl", "coder.crash"}, []string{"-n", sampleNamespace, "cws", "coder.admin.crash"}
	apply := []string{"apply", "-f", "-"}
	expect := func(want string) {
		t.Helper()
		if now := crashCounts(t); now != want {
			t.Errorf("Coder has %s, not %s", now, want)
		}
	}

	killedOnceTold(t, fmt.Sprintf(crashTemplate, main, "one"), apply...)
	waitCondition(t, "Ready", "True", "Active", template...)
	expect("1 versions, 0 workspaces, 0 builds")
	killedOnceTold(t, fmt.Sprintf(crashTemplate, main, "two"), apply...)
	waitCondition(t, "Ready", "True", "Active", template...)
	expect("2 versions, 0 workspaces, 0 builds")

	// It is created, started by Coder, and then stopped by the replica that
	// mirrors at that time.
	killedOnceTold(t, fmt.Sprintf(crashWorkspace, false), apply...)
	waitCondition(t, "Ready", "True", "Stopped", workspace...)
	expect("2 versions, 1 workspaces, 2 builds")
	killedOnceTold(t, fmt.Sprintf(crashWorkspace, true), apply...)
	waitCondition(t, "Ready", "True", "Running", workspace...)
	expect("2 versions, 1 workspaces, 3 builds")
	if out := kubectl(t, "-n", sampleNamespace, "get", "cws,ctpl", "-l", "example.com/story=crash", "-o", "name"); strings.Count(out, "\n") != 2 {
		t.Errorf("the labels are not on both objects: %s", out)
	}

	killedOnceTold(t, "", "-n", sampleNamespace, "delete", "cws", "coder.admin.crash", "--ignore-not-found", "--timeout=60s")
	expect("2 versions, 1 workspaces, 4 builds")
	if _, err := login(t, sampleNamespace, "coder").WorkspaceByName(t.Context(), "admin", "crash"); !coderd.IsNotFound(err) {
		t.Errorf("the workspace is still in Coder: %v", err)
	}
	kubectl(t, "-n", sampleNamespace, "delete", "ctpl", "coder.crash", "--timeout=5m")
}
