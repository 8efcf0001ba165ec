//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// testUsers makes a user of a manifest, changes the user from both sides, moves the user by
// an export, and takes the user away. It needs the control plane of testMainJob.
func testUsers(t *testing.T) {
	client := login(t, sampleNamespace, "coder")
	user := []string{"-n", sampleNamespace, "coderuser", "zoe"}
	inCoder := func(what string, ok func(coderd.User) bool) {
		t.Helper()
		polltest.Eventually(t, what, func() error {
			u, err := client.UserByName(t.Context(), "zoe")
			if err == nil && !ok(u) {
				err = fmt.Errorf("%+v", u)
			}
			return err
		})
	}
	// This Coder has no licensed features.
	robot := "apiVersion: aggregation.coder.com/v1alpha1\nkind: CoderUser\nmetadata: {name: robot, namespace: " + sampleNamespace + "}\nspec: {serviceAccount: true}\n"
	if out, err := kubectlInput(t, robot, "apply", "--server-side", "-f", "-"); err == nil || !strings.Contains(out, "this Coder has no service accounts") {
		t.Errorf("a service account: %v\n%s", err, out)
	}
	list := kubectl(t, "get", "coderusers", "-n", sampleNamespace, "-o", "wide")
	t.Logf("kubectl get coderusers\n%s", list)
	if !strings.Contains(list, "admin") || !strings.Contains(list, "owner") {
		t.Errorf("the list does not show the Owner admin:\n%s", list)
	}

	const password = "Correct-Horse-Battery-1"
	kubectl(t, "-n", sampleNamespace, "create", "secret", "generic", "zoe", "--from-literal=password="+password)
	t.Cleanup(func() { cleanup("-n", sampleNamespace, "delete", "secret", "zoe", "--ignore-not-found") })
	manifest := `apiVersion: aggregation.coder.com/v1alpha1
kind: CoderUser
metadata: {name: zoe, namespace: ` + sampleNamespace + `}
spec:
  email: zoe@example.com
  fullName: Zoe
  loginType: password
  passwordFrom: {secretKeyRef: {name: zoe, key: password}}
  roles: [auditor, template-admin]
  organizations: [{name: coder, roles: [organization-auditor]}]
`
	if out, err := kubectlInput(t, manifest, "apply", "--server-side", "-f", "-"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	waitCondition(t, "Ready", "True", "", user...)
	inCoder("zoe has what the manifest sets", func(u coderd.User) bool {
		return u.Name == "Zoe" && slices.Equal(u.Roles, []string{"auditor", "template-admin"})
	})
	if _, err := client.Login(t.Context(), "zoe@example.com", password); err != nil {
		t.Errorf("logging in with the password of the Secret: %v", err)
	}
	if got := field(get(t, user...), "status", "organizations"); got != "[map[name:coder roles:[organization-auditor]]]" {
		t.Errorf("status.organizations is %s", got)
	}
	if out := kubectl(t, "get", "coderusers,coderuserrecords.internal.coder.com", "-n", sampleNamespace, "-o", "yaml"); strings.Contains(out, password) {
		t.Error("an object or a record has the password")
	}

	// Somebody changes the user in Coder: a role, which the manifest owns, and that the user
	// is suspended, which it does not.
	zoe, err := client.UserByName(t.Context(), "zoe")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.SetSuspended(t.Context(), zoe, true); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := client.SetRoles(t.Context(), "zoe", []string{"user-admin"}); err != nil {
		t.Fatal(err)
	}
	inCoder("the roles are corrected, and nothing else", func(u coderd.User) bool {
		return slices.Equal(u.Roles, []string{"auditor", "template-admin"}) && u.IsSuspended()
	})
	waitCondition(t, "Ready", "True", "Suspended", user...)
	t.Logf("corrected and shown after %s", time.Since(began).Round(time.Second))

	// An export applied to a Coder that has no such user, and exported again.
	export := func(name string) string {
		folder := filepath.Join(t.TempDir(), name)
		if _, stderr, code := coderK8s(t, "export", "--users", "-n", sampleNamespace, "-o", folder); code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		text, err := os.ReadFile(filepath.Join(folder, "users", "zoe.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := export("before")
	if strings.Contains(before, password) {
		t.Error("the export has the password")
	}
	if err := client.DeleteUser(t.Context(), zoe); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "the object of a user who was deleted in Coder is gone", func() error {
		if object := get(t, user...); object != nil {
			return fmt.Errorf("it is still served: %v", object)
		}
		return nil
	})
	apply(t, before)
	waitCondition(t, "Ready", "True", "Suspended", user...)
	if after := export("after"); after != before {
		t.Errorf("the second export is\n%s\nthe first was\n%s", after, before)
	}

	// Deleting the object suspends the user, and with the other policy deletes the user.
	kubectl(t, "-n", sampleNamespace, "patch", "coderuser", "zoe", "--type=merge", "-p", `{"spec":{"suspended":false}}`)
	inCoder("zoe is not suspended", func(u coderd.User) bool { return !u.IsSuspended() })
	kubectl(t, append([]string{"delete"}, user...)...)
	inCoder("zoe is suspended", coderd.User.IsSuspended)
	waitCondition(t, "Ready", "True", "Suspended", user...)
	kubectl(t, "-n", sampleNamespace, "patch", "coderuser", "zoe", "--type=merge", "-p", `{"spec":{"reclaimPolicy":"Delete"}}`)
	kubectl(t, append([]string{"delete"}, user...)...)
	if u, err := client.UserByName(t.Context(), "zoe"); !coderd.IsNotFound(err) {
		t.Errorf("the user is in Coder: %+v, %v", u, err)
	}
}

// testWorkspaceTokens asks a real Coder what a token can do that is restricted to one
// workspace. The callers have no rule, so it is one of admin, an Owner in Coder.
func testWorkspaceTokens(t *testing.T, object string) {
	admin := login(t, sampleNamespace, "coder")
	const other = "coder.admin.other"
	apply(t, fmt.Sprintf(strings.ReplaceAll(liveWorkspaceManifest, "running: true", "running: false"), "other"))
	t.Cleanup(func() { cleanup("-n", sampleNamespace, "delete", "cws", other, "--ignore-not-found", "--timeout=5m") })
	idOf := func(name string) uuid.UUID {
		return uuid.MustParse(field(get(t, "-n", sampleNamespace, "cws", name), "status", "id"))
	}
	create := func(name string) (value string, client *coderd.Client) {
		t.Helper()
		value = strings.TrimSpace(coderGives(t, 0, "", "A token of Coder user admin", "token", "create", "-n", sampleNamespace, name, "--duration", "10m"))
		client, err := coderd.New(coderd.Config{URL: coderURL(t, sampleNamespace, "coder"), Token: value})
		if err != nil {
			t.Fatal(err)
		}
		return value, client
	}
	value, agent := create(object)

	if _, err := agent.Workspace(t.Context(), idOf(object)); err != nil {
		t.Errorf("the token's own workspace: %v", err)
	}
	wanted := coderd.BuildRequest{Transition: coderd.TransitionStop}
	for name, refused := range map[string]func() error{
		"another workspace": func() error {
			_, err := agent.Workspace(t.Context(), idOf(other))
			return err
		},
		"a build of another workspace": func() error {
			_, err := agent.Build(t.Context(), idOf(other), wanted)
			return err
		},
		"an unrestricted token": func() error {
			_, err := agent.CreateToken(t.Context(), coderd.Me, coderd.TokenRequest{Name: "escape", Lifetime: time.Minute})
			return err
		},
		"the roles of a user": func() error { return agent.SetRoles(t.Context(), "admin", []string{"owner"}) },
	} {
		if err := refused(); err == nil {
			t.Errorf("the token of one workspace is enough for %s", name)
		}
	}
	if w, err := admin.Workspace(t.Context(), idOf(other)); err != nil || w.LatestBuild.Number > 2 {
		t.Errorf("the other workspace has %d builds: %v", w.LatestBuild.Number, err)
	}
	// kubectl speaks the protocol of TokenRequest.
	cmd := exec.CommandContext(polltest.Context(t), "kubectl", "create", "--raw",
		"/apis/aggregation.coder.com/v1alpha1/namespaces/coder/coderworkspaces/"+object+"/token", "-f", "-") //nolint:gosec // A name of ours.
	cmd.Stdin = strings.NewReader(`{"apiVersion":"aggregation.coder.com/v1alpha1","kind":"CoderWorkspaceToken","spec":{"expirationSeconds":3601}}`)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "must be 60 to 3600") {
		t.Errorf("a token of more than an hour: %v, %s", err, out)
	}
	tokens := func() (names []string) {
		t.Helper()
		all, err := admin.AllTokens(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range all {
			if strings.HasPrefix(token.Name, "coder-k8s-workspace-") {
				names = append(names, token.Name)
			}
		}
		return names
	}
	if names := tokens(); len(names) != 1 || !strings.Contains(names[0], idOf(object).String()) {
		t.Errorf("Coder has the tokens %q", names)
	}
	coderGives(t, 0, "admin", "", "token", "list", "-n", sampleNamespace, object)
	coderGives(t, 0, "revoked", "", "token", "revoke", "-n", sampleNamespace, object, "--all", "--yes")
	if _, err := agent.Workspace(t.Context(), idOf(object)); !coderd.IsUnauthorized(err) {
		t.Errorf("a token that was revoked: %v, want 401", err)
	}
	if log := operatorLogs(t); strings.Contains(log, value) || !strings.Contains(log, "Created a token for a workspace") {
		t.Error("the operator's log has the token, or does not say that one was made")
	}
	// It ends with the workspace.
	_, agent = create(other)
	kubectl(t, "-n", sampleNamespace, "delete", "cws", other, "--timeout=5m")
	polltest.Eventually(t, "the token of a deleted workspace is revoked", func() error {
		if names := tokens(); len(names) > 0 {
			return fmt.Errorf("there is still %q", names)
		}
		return nil
	})
	if _, err := agent.Me(t.Context()); !coderd.IsUnauthorized(err) {
		t.Errorf("the token of a deleted workspace: %v, want 401", err)
	}
}
