package usertokens

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// provider provides a single control plane.
type provider struct {
	connection connections.Connection
	// gone reports that the control plane is being deleted, away that it has no connection.
	gone, away bool
}

func (p *provider) ForNamespace(context.Context, string) ([]connections.Connection, error) {
	return []connections.Connection{p.connection}, nil
}

func (p *provider) Members(context.Context) ([]connections.Member, error) {
	m := connections.Member{ControlPlane: p.connection.ControlPlane, Connection: &p.connection, Deleting: p.gone}
	if p.away {
		m.Connection = nil
	}
	return []connections.Member{m}, nil
}

type fixture struct {
	t *testing.T
	*Sessions
	coder    *coderdtest.Server
	clock    *clocktesting.FakePassiveClock
	provider *provider
	ada      coderd.User
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newSkewed(t, 0)
}

// skewed is a clock that is always ahead of another one, or behind it.
type skewed struct {
	clock.PassiveClock
	by time.Duration
}

func (s skewed) Now() time.Time                  { return s.PassiveClock.Now().Add(s.by) }
func (s skewed) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

// newSkewed makes a fixture whose Coder has another time.
func newSkewed(t *testing.T, by time.Duration, options ...coderdtest.Option) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))}
	f.coder = coderdtest.New(t, append(options, coderdtest.WithClock(skewed{f.clock, by}))...)
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
	f.Sessions = NewSessions(f.provider, "replica", f.clock)
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

// names returns the names of the tokens that this package created.
func (f *fixture) names() []string {
	return slices.DeleteFunc(f.coder.TokenNames("ada"), func(name string) bool { return !strings.HasPrefix(name, SessionPrefix) })
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
	// Hours later, a long-lived connection to a workspace needs a token again.
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

// TestClocksNeedNotAgree: the life of a token is judged by durations alone.
func TestClocksNeedNotAgree(t *testing.T) {
	for name, by := range map[string]time.Duration{"Coder is ahead": 26 * time.Hour, "Coder is behind": -26 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			f := newSkewed(t, by)
			for range 12 {
				f.get()
				f.pass(grace)
				f.Sweep(t.Context())
				f.want(1)
				f.pass(renewAfter/4 - grace)
			}
			// It is not used when Coder's clock says that it has expired.
			f.pass(SessionLifetime)
			f.get()
			f.pass(grace)
			f.Sweep(t.Context())
			f.want(1)
		})
	}
}

// TestCoderIsAwayWhileATokenIsRenewed: the old token is used as long as it is good, and
// after that nothing is, also not the operator's.
func TestCoderIsAwayWhileATokenIsRenewed(t *testing.T) {
	for name, fault := range map[string]coderdtest.Fault{
		"no answer":              {Method: http.MethodPost, DropConnection: true},
		"a proxy without Coder":  {Method: http.MethodPost, Status: http.StatusBadGateway, HTML: true},
		"the answer is lost":     {Method: http.MethodPost, DropConnection: true, Processed: true},
		"it asks to ask less":    {Method: http.MethodPost, Status: http.StatusTooManyRequests, RetryAfter: time.Minute},
		"its database is broken": {Method: http.MethodPost, Status: http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			s := f.get()
			remove := f.coder.Fail(fault)
			f.pass(renewAfter)
			if f.get() != s {
				t.Error("the connections to agents are not shared any more")
			}
			f.pass(usableFor - renewAfter)
			_, err := f.Get(t.Context(), f.provider.connection, f.ada)
			if !coderd.IsUnreachable(err) && !coderd.IsRateLimited(err) {
				t.Errorf("%v, want an error that passes", err)
			}
			if me, err := s.Client().Me(t.Context()); err == nil {
				t.Errorf("a request is made as %q", me.Username)
			}
			remove()
			f.get()
		})
	}
}

// TestReplicasDoNotShareTokens: each has its own for the same user, and what one revokes is
// its own. So do two processes of one name, one of which has just been killed.
func TestReplicasDoNotShareTokens(t *testing.T) {
	for name, other := range map[string]string{"two replicas": "other", "a restart": "replica"} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			second := NewSessions(f.provider, other, f.clock)
			var group sync.WaitGroup
			for _, m := range []*Sessions{f.Sessions, second} {
				for range 8 {
					group.Go(func() {
						if _, err := m.Get(t.Context(), f.provider.connection, f.ada); err != nil {
							t.Error(err)
						}
					})
				}
			}
			group.Wait()
			f.want(2)
			f.Close(t.Context())
			f.want(1)
			s, err := second.Get(t.Context(), f.provider.connection, f.ada)
			if err != nil {
				t.Fatal(err)
			}
			if me, err := s.Client().Me(t.Context()); err != nil || me.Username != "ada" {
				t.Errorf("the other one's session is %q's: %v", me.Username, err)
			}
		})
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

// TestNoTokenOutlivesASuspension checks that a user who is active again has no leftover token.
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

// TestRequestsAsSomebody checks that writes use the actor of the context and reads use the
// operator's token, and that a refusal of the actor does not count as one of the operator.
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
