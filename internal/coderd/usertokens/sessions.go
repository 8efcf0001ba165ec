package usertokens

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
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
	if last, ok := s.take(after); ok {
		m.retired = append(m.retired, last)
	}
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
	m.revoke(ctx, m.due())
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

func (m *Sessions) due() (due []retired) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	m.retired = slices.DeleteFunc(m.retired, func(r retired) bool {
		if r.after.After(now) {
			return false
		}
		due = append(due, r)
		return true
	})
	return due
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

func (m *Sessions) newName() string { return m.prefix + strings.ToLower(rand.Text()[:12]) }

// sameRules reports whether the mapping is unchanged.
func sameRules(a, b []coderv1alpha1.IdentityRule) bool {
	return len(a) == 0 && len(b) == 0 || equality.Semantic.DeepEqual(a, b)
}
