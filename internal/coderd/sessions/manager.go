package sessions

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
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

const (
<<<<<<< HEAD
	// Lifetime is the lifetime of a token. It is compared with durations only, so the clocks of
	// Coder and of this machine may differ.
	Lifetime = time.Hour
	// renewAfter is the age at which a token is replaced on use.
	renewAfter = Lifetime / 2
	// usableFor is the maximum age of a token that could not be replaced.
	usableFor = Lifetime - 5*time.Minute
	// grace is how long a replaced token stays valid for running requests.
	grace = time.Minute
	// sweepInterval is the interval at which tokens are revoked, if there are any.
	sweepInterval = 5 * time.Second
	// forgetAfter is longer than any use of a session.
	forgetAfter = 25 * time.Hour
	// revocations limits how many tokens are revoked concurrently.
	revocations = 16
	// TokenPrefix is the prefix of the names of the tokens in Coder.
=======
	// Lifetime is the lifetime of a token. Only durations are compared with it, so the clocks of
	// Coder and of this machine may differ.
	Lifetime = time.Hour
	// renewAfter is the age at which a token is replaced when it is used.
	renewAfter = Lifetime / 2
	// usableFor is the age up to which a token is used if it cannot be replaced.
	usableFor = Lifetime - 5*time.Minute
	// grace is how long a replaced token stays valid for requests in flight.
	grace = time.Minute
	// sweepInterval is how often Run looks for tokens to revoke.
	sweepInterval = 5 * time.Second
	// forgetAfter is the idle time after which a session is dropped. It is longer than any use of a
	// session.
	forgetAfter = 25 * time.Hour
	// revocations is the maximum number of concurrent revocations.
	revocations = 16
	// TokenPrefix is the prefix of the tokens' names in Coder.
>>>>>>> prose3
	TokenPrefix = "coder-k8s-as-"
)

// Manager manages the sessions of this replica. It is safe for concurrent use.
type Manager struct {
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
<<<<<<< HEAD
	// client makes requests with the token itself, operator with the operator's token.
=======
	// client authenticates with the token itself, operator as the operator.
>>>>>>> prose3
	client, operator *coderd.Client
	user, id         string
	after            time.Time
}

<<<<<<< HEAD
// New returns a Manager without sessions. Replica identifies this process.
=======
// New returns a manager without sessions. replica identifies this process.
>>>>>>> prose3
func New(provider connections.Provider, replica string, c clock.PassiveClock) *Manager {
	hash := sha256.Sum256([]byte(replica))
	return &Manager{provider: provider, clock: c, prefix: TokenPrefix + hex.EncodeToString(hash[:4]) + "-", sessions: map[key]*Session{}}
}

// Get returns the session of a Coder user, with a valid token. If Coder refuses to create the
<<<<<<< HEAD
// token, coderd.IsForbidden, IsInvalid or IsNotFound reports true for the error.
=======
// token, the error is one of coderd.IsForbidden, IsInvalid or IsNotFound.
>>>>>>> prose3
func (m *Manager) Get(ctx context.Context, connection connections.Connection, user coderd.User) (*Session, error) {
	s := m.session(connection, user)
	return s, s.renew(ctx, connection.Client)
}

// session returns the session of a user under the current rules.
func (m *Manager) session(connection connections.Connection, user coderd.User) *Session {
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

<<<<<<< HEAD
// retire ends a session and schedules the revocation of its token. The caller holds the lock.
=======
// retire schedules the token of a session to be revoked. The caller holds m.mu.
>>>>>>> prose3
func (m *Manager) retire(s *Session, after time.Time) {
	if last, ok := s.take(after); ok {
		m.retired = append(m.retired, last)
	}
}

<<<<<<< HEAD
// Run revokes retired tokens periodically, until the context is canceled.
=======
// Run revokes tokens that are no longer to be used, until the context is done.
>>>>>>> prose3
func (m *Manager) Run(ctx context.Context) error {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			m.Sweep(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

<<<<<<< HEAD
// Sweep ends the sessions whose control plane is gone or has other rules, and revokes the tokens
// that are due.
=======
// Sweep ends the sessions whose control plane is deleted or has different rules, and revokes the
// tokens that are due.
>>>>>>> prose3
func (m *Manager) Sweep(ctx context.Context) {
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

func (m *Manager) end(members []connections.Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	for k, s := range m.sessions {
		i := slices.IndexFunc(members, func(member connections.Member) bool {
			return member.ControlPlane == k.controlPlane && !member.Deleting
		})
<<<<<<< HEAD
		// Nothing is known about a control plane without a connection.
=======
		// If a control plane cannot be called now, its sessions are kept.
>>>>>>> prose3
		gone := i < 0 || members[i].Connection != nil && (members[i].Connection.UID != k.uid || !s.fits(*members[i].Connection))
		if gone {
			m.retire(s, now)
		}
		if gone || now.Sub(s.lastUse()) > forgetAfter {
			delete(m.sessions, k)
		}
	}
}

func (m *Manager) due() (due []retired) {
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

<<<<<<< HEAD
// revoke revokes each token with itself, because the operator's token may already be invalid. If
// that is unauthorized, it uses the operator's token. A token that cannot be revoked expires.
=======
// revoke revokes each token, authenticated with the token itself, because the operator's token may
// be revoked already. If Coder refuses that, it uses the operator's token. A token that cannot be
// revoked expires.
>>>>>>> prose3
func (m *Manager) revoke(ctx context.Context, tokens []retired) {
	var group sync.WaitGroup
	places := make(chan struct{}, revocations)
	for _, r := range tokens {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			err := r.client.DeleteToken(coderd.Apart(ctx), coderd.Me, r.id)
			if coderd.IsUnauthorized(err) && r.operator != nil {
				// The user may have been suspended.
				err = r.operator.DeleteToken(coderd.Apart(ctx), r.user, r.id)
			}
			if err != nil && !coderd.IsUnauthorized(err) && !coderd.IsNotFound(err) {
				log.FromContext(ctx).Info("Leaving the token of a Coder user until it expires", "error", err.Error())
			}
		})
	}
	group.Wait()
}

<<<<<<< HEAD
// Close revokes all tokens. No token is created after that.
=======
// Close revokes all tokens. No token is created afterwards.
>>>>>>> prose3
func (m *Manager) Close(ctx context.Context) {
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

func (m *Manager) newName() string { return m.prefix + strings.ToLower(rand.Text()[:12]) }

<<<<<<< HEAD
// sameRules reports whether the mapping is unchanged.
=======
// sameRules reports whether the rules are equal.
>>>>>>> prose3
func sameRules(a, b []coderv1alpha1.IdentityRule) bool {
	return len(a) == 0 && len(b) == 0 || equality.Semantic.DeepEqual(a, b)
}
