package workspacetokens

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

const (
	// MinLifetime is the minimum lifetime of a token.
	MinLifetime = time.Minute
	// MaxLifetime is the maximum lifetime of a token.
	MaxLifetime = time.Hour
	// MaxTokens is the maximum number of valid tokens of a user for one workspace.
	MaxTokens = 50
	// shownFor is how long expired tokens are still listed, because the clocks of Coder and of this
	// machine may differ.
	shownFor = 5 * time.Minute
	// sweepInterval is the interval at which the tokens of deleted workspaces are revoked, if there
	// are deleted workspaces.
	sweepInterval = 5 * time.Second
	// retryAfter is the delay before a failed revocation is retried.
	retryAfter = time.Minute
	// maxGone is the maximum number of deleted workspaces whose tokens are still to be revoked.
	maxGone = 20_000
)

// Request is a request for a token.
type Request struct {
	// Workspace is the workspace to which the token is restricted.
	Workspace uuid.UUID
	// User is the Coder user to whom the token belongs.
	User uuid.UUID
	// By is the Kubernetes user who requests the token.
	By       string
	Lifetime time.Duration
}

// Token is a token of a workspace.
type Token struct {
	coderd.TokenInfo
	// By is the Kubernetes user who requested the token.
	By string
}

// TooManyError reports that a user already has MaxTokens for a workspace.
type TooManyError struct{ Tokens int }

// Error implements error.
func (e *TooManyError) Error() string {
	return fmt.Sprintf("this Coder user already has %d valid tokens for the workspace, and %d are allowed: revoke some, or wait until they expire", e.Tokens, MaxTokens)
}

// Manager creates, lists and revokes tokens. It is safe for concurrent use.
type Manager struct {
	provider connections.Provider
	clock    clock.PassiveClock

	mu sync.Mutex
	// gone maps the deleted workspaces to the time of their deletion.
	gone map[workspace]time.Time
	// next is the time of the next sweep.
	next time.Time
}

type workspace struct {
	controlPlane types.NamespacedName
	id           uuid.UUID
}

// New returns a Manager.
func New(provider connections.Provider, c clock.PassiveClock) *Manager {
	return &Manager{provider: provider, clock: c, gone: map[workspace]time.Time{}}
}

// Create creates a token. The request is made by the Actor of the context, or else the client's
// user.
func (m *Manager) Create(ctx context.Context, client *coderd.Client, r Request) (value string, made Token, err error) {
	known, err := client.TokensOf(ctx, r.User.String())
	if err != nil {
		return "", Token{}, err
	}
	if n := len(m.of(known, r.Workspace)); n >= MaxTokens {
		return "", Token{}, &TooManyError{n}
	}
	token, info, err := client.CreateWorkspaceToken(ctx, r.User.String(), r.Workspace,
		coderd.TokenRequest{Name: newName(r.Workspace, r.By), Lifetime: r.Lifetime})
	return token.Value, Token{TokenInfo: info, By: nameOf(r.By)}, err
}

// List returns the tokens of a workspace, the oldest first.
func (m *Manager) List(ctx context.Context, client *coderd.Client, id uuid.UUID) ([]Token, error) {
	all, err := client.AllTokens(ctx)
	if err != nil {
		return nil, err
	}
	return m.of(all, id), nil
}

// of returns the tokens of a workspace, without those that expired more than shownFor ago.
func (m *Manager) of(all []coderd.TokenInfo, id uuid.UUID) (tokens []Token) {
	now := m.clock.Now()
	for _, info := range all {
		if of, by, ok := parseName(info.Name); ok && of == id && now.Before(info.ExpiresAt.Add(shownFor)) {
			tokens = append(tokens, Token{info, by})
		}
	}
	slices.SortFunc(tokens, func(a, b Token) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return tokens
}

// Gone schedules the revocation of the tokens of a deleted workspace.
func (m *Manager) Gone(controlPlane types.NamespacedName, id uuid.UUID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.gone) < maxGone {
		m.gone[workspace{controlPlane, id}] = m.clock.Now()
	}
}

// Run revokes the tokens of deleted workspaces until the context is done.
func (m *Manager) Run(ctx context.Context) error {
	wait.UntilWithContext(ctx, m.Sweep, sweepInterval)
	return nil
}

// Sweep revokes the tokens of deleted workspaces. It lists the tokens of each Coder once,
// independent of the number of deleted workspaces.
func (m *Manager) Sweep(ctx context.Context) {
	planes := m.due()
	if len(planes) == 0 {
		return
	}
	members, err := m.provider.Members(ctx)
	failed := err != nil
	for _, member := range members {
		ids := planes[member.ControlPlane]
		if len(ids) == 0 {
			continue
		}
		if member.Connection == nil {
			failed = true
			continue
		}
		if err := revokeAll(ctx, member.Connection.Client, ids); err != nil {
			failed = true
			log.FromContext(ctx).Info("Could not revoke the tokens of deleted workspaces; retrying later", "controlPlane", member.ControlPlane, "error", err.Error())
			continue
		}
		m.done(member.ControlPlane, ids)
	}
	if failed {
		m.mu.Lock()
		m.next = m.clock.Now().Add(retryAfter)
		m.mu.Unlock()
	}
}

// due returns the deleted workspaces of each control plane. It forgets workspaces that were deleted
// so long ago that their tokens have expired.
func (m *Manager) due() map[types.NamespacedName]map[uuid.UUID]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	maps.DeleteFunc(m.gone, func(_ workspace, at time.Time) bool { return now.Sub(at) > MaxLifetime+shownFor })
	if now.Before(m.next) {
		return nil
	}
	planes := map[types.NamespacedName]map[uuid.UUID]time.Time{}
	for w, at := range m.gone {
		if planes[w.controlPlane] == nil {
			planes[w.controlPlane] = map[uuid.UUID]time.Time{}
		}
		planes[w.controlPlane][w.id] = at
	}
	return planes
}

func (m *Manager) done(controlPlane types.NamespacedName, ids map[uuid.UUID]time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, at := range ids {
		if w := (workspace{controlPlane, id}); m.gone[w].Equal(at) {
			delete(m.gone, w)
		}
	}
}

func revokeAll(ctx context.Context, client *coderd.Client, ids map[uuid.UUID]time.Time) error {
	all, err := client.AllTokens(ctx)
	if err != nil {
		return err
	}
	for _, info := range all {
		id, _, ok := parseName(info.Name)
		if _, gone := ids[id]; !ok || !gone {
			continue
		}
		if err := client.DeleteToken(coderd.Apart(ctx), info.UserID.String(), info.ID); err != nil && !coderd.IsNotFound(err) {
			return err
		}
		log.FromContext(ctx).Info("Revoked a token of a deleted workspace", "id", id, "coderUser", info.Username)
	}
	return nil
}

const (
	// NamePrefix is the prefix of the tokens' names in Coder.
	NamePrefix = "coder-k8s-workspace-"
	// maxBy is the maximum length of the part of a name that identifies the requesting user.
	maxBy = 80
	// byHash is the number of hash digits at the end of a user name that had to be changed.
	byHash = 8
	// idLength is the length of a UUID.
	idLength = 36
)

// newName returns a unique name of a token.
func newName(workspace uuid.UUID, by string) string {
	return NamePrefix + workspace.String() + "-" + strings.ToLower(rand.Text()[:12]) + "." + nameOf(by)
}

// nameOf returns a Kubernetes user name in the form for the name of a token. Unusual characters
// become underscores, and long names are truncated. A hash then distinguishes the user from others.
func nameOf(user string) string {
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-@:/", r) {
			return r
		}
		return '_'
	}, user)
	if !strings.Contains(plain, "_") && len(user) <= maxBy {
		return user
	}
	hash := sha256.Sum256([]byte(user))
	return plain[:min(len(plain), maxBy-byHash-1)] + "_" + hex.EncodeToString(hash[:])[:byHash]
}

// parseName returns the workspace of a token and the user who requested it. It reports whether the
// token was created by this package.
func parseName(name string) (workspace uuid.UUID, by string, ok bool) {
	rest, ok := strings.CutPrefix(name, NamePrefix)
	if !ok || len(rest) < idLength {
		return uuid.Nil, "", false
	}
	workspace, err := uuid.Parse(rest[:idLength])
	if err != nil {
		return uuid.Nil, "", false
	}
	_, by, ok = strings.Cut(rest[idLength:], ".")
	return workspace, by, ok
}
