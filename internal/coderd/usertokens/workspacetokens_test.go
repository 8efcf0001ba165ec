package usertokens

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

func TestWorkspaceTokenNames(t *testing.T) {
	id := uuid.New()
	for name, c := range map[string]struct{ user, want string }{
		"a person":           {"alice", "alice"},
		"an email":           {"oidc:alice@example.com", "oidc:alice@example.com"},
		"a ServiceAccount":   {"system:serviceaccount:ci:build", "system:serviceaccount:ci:build"},
		"a space":            {"alice smith", "alice_smith_"},
		"an underscore":      {"alice_smith", "alice_smith_"},
		"a line and a quote": {"a\n\"b\"", "a__b__"},
		"another alphabet":   {"жанна", "______"},
		"a long name":        {strings.Repeat("x", 300), strings.Repeat("x", maxBy-byHash-1) + "_"},
		"nobody":             {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := newWorkspaceName(id, c.user)
			workspace, by, ok := parseWorkspaceName(text)
			if !ok || workspace != id || !strings.HasPrefix(by, c.want) || len(by) > maxBy || by != requesterOf(c.user) {
				t.Errorf("%s is of %s, asked for by %q, %t", text, workspace, by, ok)
			}
			if c.user != c.want && len(by) != len(c.want)+byHash {
				t.Errorf("%q has no hash, so that another user may have this name", by)
			}
		})
	}
	if requesterOf("a b") == requesterOf("a_b") || requesterOf("a b") == requesterOf("a\tb") {
		t.Error("two users have one name")
	}
	for _, other := range []string{"", "mine", WorkspacePrefix, WorkspacePrefix + "x", WorkspacePrefix + strings.Repeat("z", 50), WorkspacePrefix + id.String(), "coder-k8s-as-" + id.String() + "-a.b"} {
		if _, _, ok := parseWorkspaceName(other); ok {
			t.Errorf("%q counts as one of ours", other)
		}
	}
}

type workspaceFixture struct {
	*WorkspaceTokens
	t        *testing.T
	coder    *coderdtest.Server
	client   *coderd.Client
	provider *provider
	clock    *clocktesting.FakePassiveClock
	ada      coderd.User
}

func newWorkspaceFixture(t *testing.T, options ...coderdtest.Option) *workspaceFixture {
	t.Helper()
	f := newSkewed(t, 0, options...)
	return &workspaceFixture{
		WorkspaceTokens: NewWorkspaceTokens(f.provider, f.clock), t: t, coder: f.coder, client: f.provider.connection.Client,
		provider: f.provider, clock: f.clock, ada: f.ada,
	}
}

func (f *workspaceFixture) create(id uuid.UUID) (string, WorkspaceToken) {
	f.t.Helper()
	value, token, err := f.Create(f.t.Context(), f.client, WorkspaceTokenRequest{Workspace: id, User: f.ada.ID, By: "alice", Lifetime: time.Hour})
	if err != nil {
		f.t.Fatal(err)
	}
	return value, token
}

// names returns the names of ada's tokens of this package.
func (f *workspaceFixture) names() []string {
	return slices.DeleteFunc(f.coder.TokenNames("ada"), func(name string) bool { return !strings.HasPrefix(name, WorkspacePrefix) })
}

func TestATokenIsOfOneWorkspace(t *testing.T) {
	f := newWorkspaceFixture(t)
	template := f.coder.AddTemplate("coder", "starter", nil)
	one, two := f.coder.AddWorkspace("ada", template, "one"), f.coder.AddWorkspace("ada", template, "two")
	value, made := f.create(one)
	if made.By != "alice" || made.ID == "" || made.ExpiresAt.Sub(f.clock.Now()).Round(time.Second) != time.Hour || strings.Contains(made.Name, value) {
		t.Errorf("%+v", made)
	}
	agent, err := coderd.New(coderd.Config{URL: f.coder.URL, Token: value})
	if err != nil {
		t.Fatal(err)
	}
	if w, err := agent.Workspace(t.Context(), one); err != nil || w.Name != "one" {
		t.Errorf("its own workspace: %v", err)
	}
	if _, err := agent.Workspace(t.Context(), two); !coderd.IsNotFound(err) {
		t.Errorf("another workspace of the user: %v, want 404", err)
	}
	if _, err := agent.CreateToken(t.Context(), coderd.Me, coderd.TokenRequest{Name: "escape", Lifetime: time.Hour}); err == nil {
		t.Error("it makes an unrestricted token")
	}
	f.create(two)
	list, err := f.List(t.Context(), f.client, one)
	if err != nil || len(list) != 1 || list[0].ID != made.ID || list[0].Username != "ada" || list[0].By != "alice" {
		t.Errorf("%+v: %v", list, err)
	}
}

// TestNoUnrestrictedTokenIsReturned: a token whose restriction Coder ignores or does not confirm is
// revoked.
func TestNoUnrestrictedTokenIsReturned(t *testing.T) {
	request := func(f *workspaceFixture) WorkspaceTokenRequest {
		return WorkspaceTokenRequest{Workspace: uuid.New(), User: f.ada.ID, By: "alice", Lifetime: time.Hour}
	}
	old := newWorkspaceFixture(t, coderdtest.WithRelease(coderdtest.ReleaseBefore))
	value, _, err := old.Create(t.Context(), old.client, request(old))
	if !coderd.IsUnrestricted(err) || value != "" || len(old.names()) > 0 {
		t.Errorf("a Coder without scopes: %q, %v, and %v are left", value, err, old.names())
	}
	f := newWorkspaceFixture(t)
	remove := f.coder.Fail(coderdtest.Fault{Method: http.MethodGet, PathPrefix: "/api/v2/users/" + f.ada.ID.String() + "/keys/", Status: http.StatusInternalServerError})
	token, _, err := f.client.CreateWorkspaceToken(t.Context(), f.ada.ID.String(), uuid.New(), coderd.TokenRequest{Name: newWorkspaceName(uuid.New(), "alice"), Lifetime: time.Hour})
	remove()
	if err == nil || token.Value != "" || len(f.names()) > 0 {
		t.Errorf("a token that was not looked at: %q, %v, and %v are left", token.Value, err, f.names())
	}
}

func TestTokensAreBounded(t *testing.T) {
	f := newWorkspaceFixture(t)
	id := uuid.New()
	for range MaxWorkspaceTokens {
		f.create(id)
	}
	request := WorkspaceTokenRequest{Workspace: id, User: f.ada.ID, By: "alice", Lifetime: time.Hour}
	var many *TooManyTokensError
	if _, _, err := f.Create(t.Context(), f.client, request); !errors.As(err, &many) {
		t.Errorf("%v", err)
	}
	f.create(uuid.New())
	f.clock.SetTime(f.clock.Now().Add(MaxWorkspaceLifetime + time.Second))
	f.create(id)
	if list, err := f.List(t.Context(), f.client, id); err != nil || len(list) != 1 {
		t.Errorf("%d are listed, want the one that has not expired: %v", len(list), err)
	}
}

func TestTokensEndWithTheirWorkspace(t *testing.T) {
	f := newWorkspaceFixture(t)
	plane := f.provider.connection.ControlPlane
	one, two := uuid.New(), uuid.New()
	f.create(one)
	f.create(one)
	_, kept := f.create(two)
	f.coder.ResetRequests()
	f.Sweep(t.Context())
	if got := f.coder.Requests(); len(got) > 0 {
		t.Errorf("Coder is asked at rest: %v", got)
	}
	// Coder is away, or the control plane cannot be called: the sweep is retried later.
	f.Gone(plane, one)
	f.provider.away = true
	f.Sweep(t.Context())
	f.provider.away = false
	f.Sweep(t.Context())
	if len(f.names()) != 3 {
		t.Errorf("it is not waited before the next try: %v", f.names())
	}
	f.clock.SetTime(f.clock.Now().Add(retryAfter))
	remove := f.coder.Fail(coderdtest.Fault{Method: http.MethodDelete, Status: http.StatusInternalServerError})
	f.Sweep(t.Context())
	remove()
	f.clock.SetTime(f.clock.Now().Add(retryAfter))
	f.Sweep(t.Context())
	if got := f.names(); len(got) != 1 || got[0] != kept.Name {
		t.Errorf("%v are left, want %s", got, kept.Name)
	}
	f.coder.ResetRequests()
	f.Sweep(t.Context())
	if got := f.coder.Requests(); len(got) > 0 {
		t.Errorf("Coder is asked after that: %v", got)
	}
	// Workspaces of a control plane that is gone for good are forgotten after a while.
	f.Gone(types.NamespacedName{Namespace: "gone", Name: "coder"}, two)
	f.clock.SetTime(f.clock.Now().Add(2 * MaxWorkspaceLifetime))
	f.Sweep(t.Context())
	if len(f.gone) > 0 {
		t.Errorf("%v", f.gone)
	}
}

// TestTokensOfACoderWithAnotherTime checks that valid tokens are listed and bounded, and expired ones are not, if the
// clock of Coder is wrong.
func TestTokensOfACoderWithAnotherTime(t *testing.T) {
	for name, by := range map[string]time.Duration{"ahead": 26 * time.Hour, "behind": -26 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			skewed := newSkewed(t, by)
			f := &workspaceFixture{
				WorkspaceTokens: NewWorkspaceTokens(skewed.provider, skewed.clock), t: t, coder: skewed.coder,
				client: skewed.provider.connection.Client, clock: skewed.clock, ada: skewed.ada,
			}
			id := uuid.New()
			for range MaxWorkspaceTokens {
				f.create(id)
			}
			if list, err := f.List(t.Context(), f.client, id); err != nil || len(list) != MaxWorkspaceTokens {
				t.Errorf("%d valid tokens are listed: %v", len(list), err)
			}
			var many *TooManyTokensError
			request := WorkspaceTokenRequest{Workspace: id, User: f.ada.ID, By: "alice", Lifetime: time.Hour}
			if _, _, err := f.Create(t.Context(), f.client, request); !errors.As(err, &many) {
				t.Errorf("one more: %v", err)
			}
			f.clock.SetTime(f.clock.Now().Add(MaxWorkspaceLifetime + time.Second))
			f.create(id)
			if list, err := f.List(t.Context(), f.client, id); err != nil || len(list) != 1 {
				t.Errorf("%d are listed, want the one that has not expired: %v", len(list), err)
			}
		})
	}
}
