//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const sharedWorkspace = `
apiVersion: aggregation.coder.com/v1alpha1
kind: CoderWorkspace
metadata: {name: %s, namespace: coder}
spec:
  organization: coder
  templateName: kubernetes
  running: true
  parameters: [{name: cpu, value: "1"}, {name: memory, value: "1"}, {name: home_size, value: "1"}]
  sharedWith: %s
`

// testSharing lets a user of Coder enter the workspace of another one, as long as it is shared. RBAC allows both to
// enter all workspaces of the namespace.
func testSharing(t *testing.T) {
	client := login(t, sampleNamespace, "coder")
	if err := client.CheckSharing(t.Context()); err != nil {
		t.Skip(err)
	}
	organization, err := client.OrganizationByName(t.Context(), "coder")
	if err != nil {
		t.Fatal(err)
	}
	const object = "coder.dora.shared"
	as := map[string]string{}
	var rules []string
	for _, name := range []string{"dora", "emil"} {
		_, err := client.CreateUser(t.Context(), coderd.NewUser{
			Username: name, Email: name + "@example.com", Password: "Not-a-secret-1", OrganizationIDs: []uuid.UUID{organization.ID},
		})
		if err != nil && !coderd.IsConflict(err) {
			t.Fatal(err)
		}
		r := newAccount(t, sampleNamespace, "e2e-"+name, "edit", "coder-k8s-workspace-access")
		as[name] = "--as=" + r.user()
		rules = append(rules, fmt.Sprintf("- match: {serviceAccount: {namespace: %s, name: %s}}\n  coderUser: {username: %s}", sampleNamespace, r.name, name))
	}
	identify(t, rules)
	polltest.Eventually(t, "whoami says emil", func() error {
		if out, errs, _ := coder(t, "whoami", "-n", sampleNamespace, as["emil"]); !strings.Contains(out, "Coder user emil") {
			return fmt.Errorf("it says %s%s", out, errs)
		}
		return nil
	})
	t.Cleanup(func() { cleanup("-n", sampleNamespace, "delete", "cws", object, "--ignore-not-found", "--timeout=5m") })
	share := func(list string) string { return fmt.Sprintf(sharedWorkspace, object, list) }
	gives := func(who string, code int, out, errs string, args ...string) {
		t.Helper()
		coderGives(t, code, out, errs, append(args, "-n", sampleNamespace, as[who])...)
	}
	enter := func(code int, out, errs string) {
		t.Helper()
		stdout, stderr, got := coder(t, "exec", "-n", sampleNamespace, as["emil"], object, "--", "echo", "hello")
		if got != code || stdout != out || !strings.Contains(stderr, errs) {
			t.Errorf("emil enters: exit code %d, want %d with %q; it wrote %s%s", got, code, errs, stdout, stderr)
		}
	}
	shown := func(want string) {
		t.Helper()
		polltest.Eventually(t, "sharedWith is "+want, func() error {
			ws := get(t, "-n", sampleNamespace, "cws", object)
			if spec, status := field(ws, "spec", "sharedWith"), field(ws, "status", "sharedWith"); spec != want || status != strings.TrimPrefix(want, "[]") {
				return fmt.Errorf("spec has %s and status %s", spec, status)
			}
			return nil
		})
	}

	if out, err := kubectlInput(t, share("[{user: nobody-there}]"), "apply", as["dora"], "--server-side", "-f", "-", "--dry-run=server"); err == nil || !strings.Contains(out, "no such user") {
		t.Errorf("a dry run with an unknown user: %v %s", err, out)
	}
	if out, err := kubectlInput(t, share("[{user: emil}]"), "apply", as["dora"], "--server-side", "-f", "-"); err != nil {
		t.Fatalf("dora makes a shared workspace: %v %s", err, out)
	}
	waitCondition(t, "Ready", "True", "Running", "-n", sampleNamespace, "cws", object)
	shown("[map[role:use user:emil]]")
	waitCondition(t, "AgentsConnected", "True", "", "-n", sampleNamespace, "cws", object)
	enter(0, "hello\n", "")
	for what, args := range map[string][]string{
		"share":              {"patch", "cws", object, "--type=merge", "-p", `{"spec":{"sharedWith":[]}}`},
		"share in a dry run": {"patch", "cws", object, "--type=merge", "--dry-run=server", "-p", `{"spec":{"sharedWith":[]}}`},
		"delete":             {"delete", "cws", object, "--timeout=1m"},
	} {
		if out, err := tryKubectl(t, append(args, "-n", sampleNamespace, as["emil"])...); err == nil || !strings.Contains(out, `user "emil"`) {
			t.Errorf("emil may %s: %v %s", what, err, out)
		}
	}
	gives("emil", 0, "stopped", "", "stop", object, "--wait", "--yes")
	gives("emil", 0, "started", "", "start", object, "--wait")
	waitCondition(t, "AgentsConnected", "True", "", "-n", sampleNamespace, "cws", object)
	enter(0, "hello\n", "")

	if out, err := kubectlInput(t, share("[]"), "apply", as["dora"], "--server-side", "-f", "-"); err != nil {
		t.Fatalf("dora ends it: %v %s", err, out)
	}
	shown("[]")
	enter(1, "", "you do not have access to this resource")
	// In Coder itself, as the dashboard does.
	emil, err := client.UserByName(t.Context(), "emil")
	if err != nil {
		t.Fatal(err)
	}
	id := uuid.MustParse(field(get(t, "-n", sampleNamespace, "cws", object), "status", "id"))
	if err := client.ShareWorkspace(t.Context(), id, []coderd.Share{{ID: emil.ID, Role: coderd.RoleAdmin}}); err != nil {
		t.Fatal(err)
	}
	shown("[map[role:admin user:emil]]")
	enter(0, "hello\n", "")
	kubectl(t, "-n", sampleNamespace, "patch", "cws", object, as["emil"], "--type=merge", "-p", `{"spec":{"sharedWith":[{"user":"emil","role":"admin"},{"group":"Everyone"}]}}`)
	shown("[map[role:admin user:emil] map[group:Everyone role:use]]")
}
