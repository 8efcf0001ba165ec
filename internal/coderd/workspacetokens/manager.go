package workspacetokens

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

const (
	// MinLifetime is how long a token lives at least.
	MinLifetime = time.Minute
	// MaxLifetime is how long a token lives at most.
	MaxLifetime = time.Hour
	// MaxTokens is how many tokens of a user may be valid for one workspace.
	MaxTokens = 50
	// shownFor is how long after their end tokens are still listed: the clocks of Coder and
	// of this machine may differ.
	shownFor = 5 * time.Minute
	// sweepInterval is how often the tokens of deleted workspaces are looked for, if there
	// are deleted workspaces.
	sweepInterval = 5 * time.Second
	// retryAfter is when that is tried again after a failure.
	retryAfter = time.Minute
	// maxGone limits the deleted workspaces whose tokens are looked for at once.
	maxGone = 20_000
)

// Request is a token that somebody asks for.
type Request struct {
	// Workspace is the one to which the token is restricted.
	Workspace uuid.UUID
	// User is the Coder user whose token it is.
	User uuid.UUID
	// By is the Kubernetes user who asks for it.
	By       string
	Lifetime time.Duration
}

// Token is a token of a workspace.
type Token struct {
	coderd.TokenInfo
	// By is who asked for it.
	By string
}

// TooManyError is that a user has MaxTokens for a workspace.
type TooManyError struct{ Tokens int }

// Error implements error.
func (e *TooManyError) Error() string {
	return fmt.Sprintf("%d tokens of this Coder user are valid for the workspace, and no more than %d may be: revoke some, or wait until they expire", e.Tokens, MaxTokens)
}

// Manager makes, lists and revokes tokens. It is safe for concurrent use.
type Manager struct {
	provider connections.Provider
	clock    clock.PassiveClock

	mu sync.Mutex
	// gone are the workspaces that were deleted, by when.
	gone map[workspace]time.Time
	// next is when they are looked at again.
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

// Create makes a token. The client's account makes it, or the Actor of the context.
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

// of returns the tokens that are a workspace's and have not ended for long.
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

// Gone has the tokens of a deleted workspace revoked soon.
func (m *Manager) Gone(controlPlane types.NamespacedName, id uuid.UUID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.gone) < maxGone {
		m.gone[workspace{controlPlane, id}] = m.clock.Now()
	}
}

// Run revokes the tokens of deleted workspaces until the context is done.
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

// Sweep revokes the tokens of deleted workspaces. It lists the tokens of a Coder once,
// however many of its workspaces were deleted.
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
			log.FromContext(ctx).Info("Leaving the tokens of deleted workspaces for now", "controlPlane", member.ControlPlane, "error", err.Error())
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

// due returns the deleted workspaces of each control plane. It forgets those that were
// deleted so long ago that their tokens have expired.
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
