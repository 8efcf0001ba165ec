package coderdtest_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

func newClient(t *testing.T, server *coderdtest.Server, token string) *coderd.Client {
	t.Helper()
	client, err := coderd.New(coderd.Config{URL: server.URL, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestFaultsChooseTheirRequests(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	ask := func() error { _, err := client.WorkspacePage(t.Context(), 0, 1); return err }
	for _, test := range []struct {
		name  string
		fault coderdtest.Fault
		fails []bool
	}{
		{"every request", coderdtest.Fault{}, []bool{true, true, true}},
		{"twice", coderdtest.Fault{Times: 2}, []bool{true, true, false}},
		{"another path", coderdtest.Fault{PathPrefix: "/api/v2/templates"}, []bool{false}},
		{"this path", coderdtest.Fault{PathPrefix: "/api/v2/work"}, []bool{true}},
		{"another method", coderdtest.Fault{Method: http.MethodPost}, []bool{false}},
		{"only late", coderdtest.Fault{Delay: time.Nanosecond}, []bool{false}},
	} {
		remove := server.Fail(test.fault)
		for i, want := range test.fails {
			if err := ask(); (err != nil) != want {
				t.Errorf("%s: request %d: %v", test.name, i+1, err)
			}
		}
		remove()
		if err := ask(); err != nil {
			t.Errorf("%s: after the fault: %v", test.name, err)
		}
	}
	server.Fail(coderdtest.Fault{})
	server.ClearFaults()
	if err := ask(); err != nil {
		t.Errorf("after all faults: %v", err)
	}
}

func TestAFaultSaysWhenToComeBack(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	server.Fail(coderdtest.Fault{Status: 429, Message: "Slow down.", RetryAfter: 9 * time.Second})
	_, err := client.WorkspacePage(t.Context(), 0, 1)
	var e *coderd.Error
	if !errors.As(err, &e) || e.StatusCode != 429 || e.Message != "Slow down." || e.RetryAfter != 9*time.Second {
		t.Errorf("%+v", err)
	}
}

func TestABlockedRequestWaits(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	gate := make(chan struct{})
	server.Fail(coderdtest.Fault{PathPrefix: "/api/v2/users", Block: gate, Times: 1})
	done := make(chan error, 1)
	go func() { _, err := client.Me(context.WithoutCancel(t.Context())); done <- err }()
	// A blocked request does not block others.
	for server.Requests()["GET /api/v2/users/{user}"] == 0 {
		if _, err := client.BuildInfo(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-done:
		t.Fatalf("the request went through: %v", err)
	default:
	}
	close(gate)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestRequestsAreCountedByTheirClass(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	id := server.AddWorkspace("ada", server.AddTemplate("coder", "small", nil), "dev")
	_, _ = client.Workspace(t.Context(), id)
	_, _ = client.Workspace(t.Context(), id)
	_, _ = client.Build(t.Context(), id, coderd.BuildRequest{Transition: coderd.TransitionStop})
	want := map[string]int{"GET /api/v2/workspaces/{workspace}": 2, "POST /api/v2/workspaces/{workspace}/builds": 1}
	if diff := cmp.Diff(want, server.Requests()); diff != "" || server.Writes() != 1 {
		t.Errorf("%d writes, requests (-want +got):\n%s", server.Writes(), diff)
	}
	server.ResetRequests()
	if got := server.Requests(); len(got) != 0 {
		t.Errorf("requests after the reset: %v", got)
	}
}

func TestTokensRunOutByTheClock(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC))
	server := coderdtest.New(t, coderdtest.WithClock(clock), coderdtest.WithMaxTokenLifetimes(2*time.Hour, time.Hour))
	client := newClient(t, server, server.AddUser("ada", "owner"))
	_, err := client.CreateToken(t.Context(), "me", coderd.TokenRequest{Name: "long", Lifetime: 3 * time.Hour})
	if !coderd.IsInvalid(err) {
		t.Errorf("longer than allowed: %v", err)
	}
	token, err := client.CreateToken(t.Context(), "me", coderd.TokenRequest{Name: "short", Lifetime: 2 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	holder := newClient(t, server, token.Value)
	clock.SetTime(clock.Now().Add(time.Hour))
	if _, err := holder.Me(t.Context()); err != nil {
		t.Error(err)
	}
	clock.SetTime(clock.Now().Add(2 * time.Hour))
	if _, err := holder.Me(t.Context()); !coderd.IsUnauthorized(err) {
		t.Errorf("%v, want unauthorized", err)
	}
	if _, err := client.Me(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSuspendedUsersAndPasswords(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	if _, err := client.Login(t.Context(), "ada@example.com", "ada-Passw0rd!"); err != nil || server.Sessions("ada") != 1 {
		t.Errorf("%d sessions, %v", server.Sessions("ada"), err)
	}
	server.SuspendUser("ada")
	if _, err := client.Me(t.Context()); !coderd.IsUnauthorized(err) {
		t.Errorf("%v, want unauthorized", err)
	}

	closed := coderdtest.New(t, coderdtest.WithPasswordLoginDisabled())
	client = newClient(t, closed, closed.AddUser("ada", "owner"))
	// According to Coder's documentation owners can log in. Coder v2.30 refuses them.
	if _, err := client.Login(t.Context(), "ada@example.com", "ada-Passw0rd!"); !coderd.IsForbidden(err) {
		t.Errorf("%v, want forbidden", err)
	}
}

func TestMembersSeeTheirOwn(t *testing.T) {
	server := coderdtest.New(t)
	owner := newClient(t, server, server.AddUser("ada", "owner"))
	member := newClient(t, server, server.AddUser("bob"))
	template := server.AddTemplate("coder", "small", nil)
	hers := server.AddWorkspace("ada", template, "dev")
	server.AddWorkspace("bob", template, "dev")
	for client, want := range map[*coderd.Client]int{owner: 2, member: 1} {
		if all, err := client.WorkspacePage(t.Context(), 0, coderd.MaxWorkspacePage); err != nil || len(all.Workspaces) != want {
			t.Errorf("%d workspaces, %v; want %d", len(all.Workspaces), err, want)
		}
	}
	if _, err := member.Build(t.Context(), hers, coderd.BuildRequest{Transition: coderd.TransitionStop}); !coderd.IsNotFound(err) {
		t.Errorf("%v, want not found", err)
	}
	if err := member.DeleteTemplate(t.Context(), template); !coderd.IsForbidden(err) {
		t.Errorf("%v, want forbidden", err)
	}
}

func TestBuildsWaitForTheTest(t *testing.T) {
	server := coderdtest.New(t, coderdtest.WithManualBuilds())
	client := newClient(t, server, server.AddUser("ada", "owner"))
	id := server.AddWorkspace("ada", server.AddTemplate("coder", "small", nil), "dev")
	if _, err := client.Build(t.Context(), id, coderd.BuildRequest{Transition: coderd.TransitionDelete}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"pending", "deleting", "deleted"} {
		if got := server.WorkspaceStatus(id); got != want {
			t.Errorf("status %q, want %q", got, want)
		}
		server.AdvanceBuilds()
	}
	if server.ActiveBuilds() != 0 {
		t.Errorf("%d builds", server.ActiveBuilds())
	}
	if _, err := client.Workspace(t.Context(), id); !coderd.IsNotFound(err) {
		t.Errorf("%v, want not found", err)
	}
}

func TestChangesBehindEverybodysBack(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	template := server.AddTemplate("coder", "small", map[string]string{"main.tf": "x"})
	id := server.AddWorkspace("ada", template, "dev")
	server.RenameWorkspace(id, "renamed")
	server.BuildWorkspace(id, "stop")
	second := server.AddTemplateVersion(template, "second", map[string]string{"main.tf": "y"})
	if err := client.SetActiveVersion(t.Context(), template, second); err != nil {
		t.Fatal(err)
	}
	w, err := client.WorkspaceByName(t.Context(), "ada", "renamed")
	if err != nil || w.ID != id || w.LatestBuild.Status != "stopped" || !w.Outdated {
		t.Errorf("%+v, %v", w, err)
	}
	if diff := cmp.Diff([]string{"start", "stop"}, server.Transitions(id)); diff != "" {
		t.Errorf("builds (-want +got):\n%s", diff)
	}
}
