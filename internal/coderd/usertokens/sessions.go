package usertokens

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

const (
	// SessionLifetime is the lifetime of a token. It is compared with durations only, so the clocks of
	// Coder and of this machine may differ.
	SessionLifetime = time.Hour
	// renewAfter is the age at which a token is replaced on use.
	renewAfter = SessionLifetime / 2
	// usableFor is the maximum age of a token that could not be replaced.
	usableFor = SessionLifetime - 5*time.Minute
	// grace is how long a replaced token stays valid for running requests.
	grace = time.Minute
	// sweepInterval is the interval at which tokens are revoked, if there are any to revoke.
	sweepInterval = 5 * time.Second
	// forgetAfter is longer than any use of a session.
	forgetAfter = 25 * time.Hour
	// revocations limits how many tokens are revoked concurrently.
	revocations = 16
	// SessionPrefix is the prefix of the names of the tokens in Coder.
	SessionPrefix = "coder-k8s-as-"
)

// Sessions holds the sessions of this replica. It is safe for concurrent use.
type Sessions struct {
	provider connections.Provider
	clock    clock.PassiveClock
	// prefix is the prefix of the names of this replica's tokens.
	prefix string

	mu       sync.Mutex
	sessions map[key]*Session
	retired  []retired
	closed   bool
}

type key struct {
	controlPlane types.NamespacedName
	uid          types.UID
	user         uuid.UUID
}

// retired is a token to be revoked.
type retired struct {
	// client makes requests with the token itself, operator with the operator's token.
	client, operator *coderd.Client
	user, id         string
	after            time.Time
}

// NewSessions returns a Sessions without sessions. Replica identifies this process.
func NewSessions(provider connections.Provider, replica string, c clock.PassiveClock) *Sessions {
	hash := sha256.Sum256([]byte(replica))
	return &Sessions{provider: provider, clock: c, prefix: SessionPrefix + hex.EncodeToString(hash[:4]) + "-", sessions: map[key]*Session{}}
}

// Get returns the session of a Coder user, with a valid token. If Coder refuses to create the
// token, coderd.IsForbidden, IsInvalid or IsNotFound reports true for the error.
func (m *Sessions) Get(ctx context.Context, connection connections.Connection, user coderd.User) (*Session, error) {
	s := m.session(connection, user)
	return s, s.renew(ctx, connection.Client)
}

// session returns the session of a user under the current rules.
func (m *Sessions) session(connection connections.Connection, user coderd.User) *Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := key{connection.ControlPlane, connection.UID, user.ID}
	known := m.sessions[k]
	if known != nil && known.fits(connection) {
		return known
	}
	if known != nil {
		m.retire(known, m.clock.Now())
	}
	s := &Session{
		manager: m, key: k, username: user.Username, url: connection.Client.URL(),
		rules: slices.Clone(connection.Rules), usedAt: m.clock.Now(),
	}
	s.client = connection.Client.As(s)
	m.sessions[k] = s
	return s
}

// retire ends a session and schedules the revocation of its token. The caller holds the lock.
func (m *Sessions) retire(s *Session, after time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token.Value != "" {
		m.retired = append(m.retired, s.retiring(s.token, after))
	}
	s.token, s.ended = coderd.Token{}, true
}

// Run revokes retired tokens periodically, until the context is canceled.
func (m *Sessions) Run(ctx context.Context) error {
	wait.UntilWithContext(ctx, m.Sweep, sweepInterval)
	return nil
}

// Sweep ends the sessions whose control plane is gone or has other rules, and revokes the tokens
// that are due.
func (m *Sessions) Sweep(ctx context.Context) {
	m.mu.Lock()
	idle := len(m.sessions) == 0 && len(m.retired) == 0
	m.mu.Unlock()
	if idle {
		return
	}
	if members, err := m.provider.Members(ctx); err == nil {
		m.end(members)
	}
	var due []retired
	m.mu.Lock()
	now := m.clock.Now()
	m.retired = slices.DeleteFunc(m.retired, func(r retired) bool {
		if r.after.After(now) {
			return false
		}
		due = append(due, r)
		return true
	})
	m.mu.Unlock()
	m.revoke(ctx, due)
}

func (m *Sessions) end(members []connections.Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	for k, s := range m.sessions {
		i := slices.IndexFunc(members, func(member connections.Member) bool {
			return member.ControlPlane == k.controlPlane && !member.Deleting
		})
		// Nothing is known about a control plane without a connection.
		gone := i < 0 || members[i].Connection != nil && (members[i].Connection.UID != k.uid || !s.fits(*members[i].Connection))
		if gone {
			m.retire(s, now)
		}
		if gone || now.Sub(s.lastUse()) > forgetAfter {
			delete(m.sessions, k)
		}
	}
}

// revoke revokes each token with itself, because the operator's token may already be invalid. If
// that is unauthorized, it uses the operator's token. A token that cannot be revoked expires.
func (m *Sessions) revoke(ctx context.Context, tokens []retired) {
	var group errgroup.Group
	group.SetLimit(revocations)
	for _, r := range tokens {
		group.Go(func() error {
			err := r.client.DeleteToken(coderd.Apart(ctx), coderd.Me, r.id)
			if coderd.IsUnauthorized(err) && r.operator != nil {
				// The user may be suspended.
				err = r.operator.DeleteToken(coderd.Apart(ctx), r.user, r.id)
			}
			if err != nil && !coderd.IsUnauthorized(err) && !coderd.IsNotFound(err) {
				log.FromContext(ctx).Info("Could not revoke the token of a Coder user; it expires by itself", "error", err.Error())
			}
			return nil
		})
	}
	_ = group.Wait()
}

// Close revokes all tokens. No token is created after that.
func (m *Sessions) Close(ctx context.Context) {
	m.mu.Lock()
	m.closed = true
	for _, s := range m.sessions {
		m.retire(s, time.Time{})
	}
	tokens := m.retired
	m.sessions, m.retired = map[key]*Session{}, nil
	m.mu.Unlock()
	m.revoke(ctx, tokens)
}

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

// fits reports whether the session matches the connection's URL and current rules.
func (s *Session) fits(connection connections.Connection) bool {
	return s.url == connection.Client.URL() && equality.Semantic.DeepEqual(s.rules, connection.Rules)
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
	made, err := operator.CreateToken(coderd.Apart(ctx), s.key.user.String(), coderd.TokenRequest{
		Name: s.manager.prefix + strings.ToLower(rand.Text()[:12]), Lifetime: SessionLifetime,
	})
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

func (f fixed) Token(context.Context) (string, error) { return f.token, nil }

func (fixed) Refused(string) {}
