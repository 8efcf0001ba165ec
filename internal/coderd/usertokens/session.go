package usertokens

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"sigs.k8s.io/controller-runtime/pkg/log"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// Session is one Coder user. It is the Actor of requests made as that user.
type Session struct {
	manager  *Sessions
	key      key
	username string
	url      string
	rules    []coderv1alpha1.IdentityRule
	client   *coderd.Client

	// minting serializes the creation of tokens.
	minting sync.Mutex

	mu sync.Mutex
	// operator is the client that created the token.
	operator *coderd.Client
	token    coderd.Token
	madeAt   time.Time
	usedAt   time.Time
	// ended is true if the session must not create tokens any more.
	ended bool
}

var _ coderd.Actor = (*Session)(nil)

// ErrEnded means that the session has ended, because the mapping or the control plane changed, or
// because this replica is shutting down.
var ErrEnded = errors.New("the mapping of the user changed, or this replica is stopping; try again")

// Client returns a client that makes all its requests as the user. It is valid as long as the
// session.
func (s *Session) Client() *coderd.Client { return s.client }

// Username implements coderd.Actor.
func (s *Session) Username() string { return s.username }

// UserID returns the ID of the user in Coder.
func (s *Session) UserID() uuid.UUID { return s.key.user }

// CoderURL implements coderd.Actor.
func (s *Session) CoderURL() string { return s.url }

// Token implements coderd.Actor. It renews an old token, because a long-lived connection to a
// workspace may need a token hours later.
func (s *Session) Token(ctx context.Context) (string, error) {
	if token := s.usable(renewAfter); token != "" {
		return token, nil
	}
	all, err := s.manager.provider.ForNamespace(ctx, s.key.controlPlane.Namespace)
	for i := range all {
		if all[i].ControlPlane != s.key.controlPlane || all[i].UID != s.key.uid || !s.fits(all[i]) {
			continue
		}
		if err := s.renew(ctx, all[i].Client); err != nil {
			return "", err
		}
		return s.usable(usableFor), nil
	}
	if err == nil {
		err = ErrEnded
	}
	return "", fmt.Errorf("renewing the token of Coder user %q: %w", s.username, err)
}

// Refused implements coderd.Actor. The next request creates another token. The refused token is
// revoked, because a suspended user may become active again.
func (s *Session) Refused(token string) {
	m := s.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token.Value == token {
		m.retired = append(m.retired, s.retiring(s.token, m.clock.Now()))
		s.token = coderd.Token{}
	}
}

// retiring returns the entry with which a token of the session is revoked.
func (s *Session) retiring(token coderd.Token, after time.Time) retired {
	return retired{client: s.client.As(fixed{s, token.Value}), operator: s.operator, user: s.key.user.String(), id: token.ID, after: after}
}

// usable returns the token if it is younger than age, or "". It also records the use.
func (s *Session) usable(age time.Duration) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.manager.clock.Now()
	s.usedAt = now
	if s.token.Value == "" || now.Sub(s.madeAt) >= age {
		return ""
	}
	return s.token.Value
}

func (s *Session) lastUse() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usedAt
}

// take ends the session and returns its token for revocation, if there is one.
func (s *Session) take(after time.Time) (last retired, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok = s.retiring(s.token, after), s.token.Value != ""
	s.token, s.ended = coderd.Token{}, true
	return last, ok
}

// fits reports whether the session matches the connection's URL and current rules.
func (s *Session) fits(connection connections.Connection) bool {
	return s.url == connection.Client.URL() && sameRules(s.rules, connection.Rules)
}

// renew creates a token if there is none, or if it is older than renewAfter.
func (s *Session) renew(ctx context.Context, operator *coderd.Client) error {
	if s.usable(renewAfter) != "" {
		return nil
	}
	s.minting.Lock()
	defer s.minting.Unlock()
	if s.usable(renewAfter) != "" {
		return nil
	}
	made, err := operator.CreateToken(coderd.Apart(ctx), s.key.user.String(), coderd.TokenRequest{Name: s.manager.newName(), Lifetime: SessionLifetime})
	if err != nil {
		if s.usable(usableFor) != "" {
			log.FromContext(ctx).Info("Could not renew the token of a Coder user; using the current one", "coderUser", s.username, "error", err.Error())
			return nil
		}
		return err
	}
	unwanted, err := s.replace(made, operator)
	if unwanted != nil {
		s.manager.revoke(context.WithoutCancel(ctx), []retired{*unwanted})
	}
	return err
}

// replace starts to use a new token, and schedules the revocation of the old one. If the session
// has ended meanwhile, the new token is unwanted.
func (s *Session) replace(made coderd.Token, operator *coderd.Client) (unwanted *retired, err error) {
	m := s.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || m.closed {
		late := s.retiring(made, time.Time{})
		late.operator = operator
		return &late, ErrEnded
	}
	now := m.clock.Now()
	if s.token.Value != "" {
		m.retired = append(m.retired, s.retiring(s.token, now.Add(grace)))
	}
	s.token, s.madeAt, s.operator = made, now, operator
	return nil, nil
}

// fixed is an Actor with one token, with which the token revokes itself.
type fixed struct {
	*Session
	token string
}

// Token implements coderd.Actor.
func (f fixed) Token(context.Context) (string, error) { return f.token, nil }

// Refused implements coderd.Actor.
func (fixed) Refused(string) {}
