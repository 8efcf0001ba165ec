//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// testWorkspaceTokens asks a real Coder what a token can do that is restricted to one
// workspace. The callers have no rule, so it is one of admin, an Owner in Coder.
func testWorkspaceTokens(t *testing.T, object string) {
	admin := login(t, sampleNamespace, "coder")
	const other = "coder.admin.other"
	apply(t, fmt.Sprintf(strings.ReplaceAll(liveWorkspaceManifest, "running: true", "running: false"), "other"))
	t.Cleanup(func() { cleanup("-n", sampleNamespace, "delete", "cws", other, "--ignore-not-found", "--timeout=5m") })
	idOf := func(name string) uuid.UUID {
		return uuid.MustParse(field(get(t, "-n", sampleNamespace, "cws", name), "metadata", "uid"))
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
	if log := operatorLogs(t); strings.Contains(log, value) || !strings.Contains(log, "Made a token for a workspace") {
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
