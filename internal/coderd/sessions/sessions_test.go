package sessions

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// provider provides one control plane.
type provider struct {
	connection connections.Connection
	gone       bool
}

func (p *provider) ForNamespace(context.Context, string) ([]connections.Connection, error) {
	return []connections.Connection{p.connection}, nil
}

func (p *provider) All(ctx context.Context) ([]connections.Connection, error) {
	return p.ForNamespace(ctx, "")
}

func (p *provider) Members(context.Context) ([]connections.Member, error) {
	return []connections.Member{{ControlPlane: p.connection.ControlPlane, Connection: &p.connection, Deleting: p.gone}}, nil
}

type fixture struct {
	t *testing.T
	*Manager
	coder    *coderdtest.Server
	clock    *clocktesting.FakePassiveClock
	provider *provider
	ada      coderd.User
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))}
	f.coder = coderdtest.New(t, coderdtest.WithClock(f.clock))
	token := f.coder.AddUser("operator", "owner")
	f.coder.AddUser("ada")
	client, err := coderd.New(coderd.Config{URL: f.coder.URL, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	f.provider = &provider{connection: connections.Connection{
		ControlPlane: types.NamespacedName{Namespace: "team", Name: "cp"}, Client: client,
		Rules: []coderv1alpha1.IdentityRule{{Match: coderv1alpha1.IdentityMatch{UserName: "ada"}, CoderUser: &coderv1alpha1.CoderUserReference{Username: "ada"}}},
	}}
	if f.ada, err = client.UserByName(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	f.Manager = New(f.provider, "replica", f.clock)
	return f
}

func (f *fixture) get() *Session {
	f.t.Helper()
	s, err := f.Get(f.t.Context(), f.provider.connection, f.ada)
	if err != nil {
		f.t.Fatal(err)
	}
	if me, err := s.Client().Me(f.t.Context()); err != nil || me.Username != "ada" {
		f.t.Fatalf("the session is %q's: %v", me.Username, err)
	}
	return s
}

// names returns the names of the tokens that the manager created.
func (f *fixture) names() []string {
	return slices.DeleteFunc(f.coder.TokenNames("ada"), func(name string) bool { return !strings.HasPrefix(name, TokenPrefix) })
}

func (f *fixture) want(n int) {
	f.t.Helper()
	if got := f.names(); len(got) != n {
		f.t.Errorf("ada has the tokens %v, want %d", got, n)
	}
}

func (f *fixture) pass(d time.Duration) { f.clock.SetTime(f.clock.Now().Add(d)) }

func TestTokensAreRenewedWhileTheyAreUsed(t *testing.T) {
	f := newFixture(t)
	s := f.get()
	f.get()
	f.want(1)
	f.pass(renewAfter)
	first := f.names()[0]
	if f.get() != s {
		t.Error("renewing makes another session, whose connections to agents are not shared")
	}
	f.want(2)
	f.Sweep(t.Context())
	f.want(2)
	f.pass(grace)
	f.Sweep(t.Context())
	if got := f.names(); len(got) != 1 || got[0] == first {
		t.Errorf("%v, before %s", got, first)
	}
	// Hours later, a session in a workspace connects again.
	f.pass(5 * time.Hour)
	if _, err := s.Client().Me(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNothingIsAskedAtRest(t *testing.T) {
	f := newFixture(t)
	f.get()
	f.coder.ResetRequests()
	for range 100 {
		f.pass(time.Minute)
		f.Sweep(t.Context())
	}
	if got := f.coder.Requests(); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

func TestATokenThatCannotBeRenewedIsUsedUp(t *testing.T) {
	f := newFixture(t)
	f.get()
	defer f.coder.Fail(coderdtest.Fault{Method: http.MethodPost, Status: http.StatusForbidden})()
	f.pass(renewAfter)
	f.get()
	f.pass(usableFor - renewAfter)
	if _, err := f.Get(t.Context(), f.provider.connection, f.ada); !coderd.IsForbidden(err) {
		t.Errorf("%v, want 403", err)
	}
}

func TestARevokedTokenIsReplaced(t *testing.T) {
	f := newFixture(t)
	s := f.get()
	token, err := s.Token(t.Context())
	if err != nil || !f.coder.RevokeToken(token) {
		t.Fatal(err)
	}
	if _, err := s.Client().Me(t.Context()); !coderd.IsUnauthorized(err) || coderd.ActedAs(err) != "ada" {
		t.Errorf("%v as %q, want 401 as ada", err, coderd.ActedAs(err))
	}
	f.get()
	f.want(1)
}

// TestNoTokenOutlivesASuspension checks that no forgotten token becomes valid when a suspended user
// is active again.
func TestNoTokenOutlivesASuspension(t *testing.T) {
	f := newFixture(t)
	s := f.get()
	f.coder.SuspendUser("ada")
	if _, err := s.Client().Me(t.Context()); !coderd.IsUnauthorized(err) {
		t.Fatal(err)
	}
	f.Sweep(t.Context())
	f.want(0)
}

func TestTokensAreRevoked(t *testing.T) {
	for name, end := range map[string]func(*fixture){
		"other rules":      func(f *fixture) { f.provider.connection.Rules = nil; f.Sweep(f.t.Context()) },
		"no control plane": func(f *fixture) { f.provider.gone = true; f.Sweep(f.t.Context()) },
		"the end":          func(f *fixture) { f.Close(f.t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			s := f.get()
			end(f)
			f.want(0)
			if _, err := s.Token(t.Context()); !errors.Is(err, ErrEnded) {
				t.Errorf("a session that ended gives a token: %v", err)
			}
			f.want(0)
		})
	}
}

// TestRequestsAsSomebody checks that writes use the token of the context's actor, that reads use
// the operator's token, and that a refusal of the actor's token is not reported as a refusal of the
// operator's.
func TestRequestsAsSomebody(t *testing.T) {
	f := newFixture(t)
	refused := false
	operator, err := coderd.New(coderd.Config{URL: f.coder.URL, Token: f.coder.AddUser("second", "owner"), OnUnauthorized: func() { refused = true }})
	if err != nil {
		t.Fatal(err)
	}
	s := f.get()
	ctx := coderd.WithActor(t.Context(), s)
	if me, err := operator.Me(ctx); err != nil || me.Username != "second" {
		t.Errorf("a read is made as %q: %v", me.Username, err)
	}
	if err := operator.SetRoles(ctx, "second", nil); !coderd.IsForbidden(err) && !coderd.IsNotFound(err) || coderd.ActedAs(err) != "ada" {
		t.Errorf("a change as ada: %v", err)
	}
	token, _ := s.Token(t.Context())
	f.coder.RevokeToken(token)
	if err := operator.SetRoles(ctx, "second", nil); !coderd.IsUnauthorized(err) || refused {
		t.Errorf("%v, the operator's token counts as refused: %t", err, refused)
	}
	other := coderdtest.New(t)
	stranger, err := coderd.New(coderd.Config{URL: other.URL, Token: other.AddUser("operator", "owner")})
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.SetRoles(ctx, "operator", nil); err == nil || other.Writes() > 0 {
		t.Errorf("the token goes to another Coder: %v", err)
	}
}
