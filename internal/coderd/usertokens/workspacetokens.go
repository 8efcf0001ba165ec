package usertokens

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
	// MinWorkspaceLifetime is the minimum lifetime of a token.
	MinWorkspaceLifetime = time.Minute
	// MaxWorkspaceLifetime is the maximum lifetime of a token.
	MaxWorkspaceLifetime = time.Hour
	// DefaultWorkspaceLifetime is the lifetime of a token if the request has none.
	DefaultWorkspaceLifetime = MaxWorkspaceLifetime
	// MaxWorkspaceTokens is the maximum number of valid tokens of a user for one workspace.
	MaxWorkspaceTokens = 50
	// goneFor is how long the tokens of a deleted workspace may still be valid.
	goneFor = MaxWorkspaceLifetime + 5*time.Minute
	// retryAfter is the delay before a failed revocation is retried.
	retryAfter = time.Minute
	// maxGone is the maximum number of deleted workspaces whose tokens are still to be revoked.
	maxGone = 20_000
)

// WorkspaceTokenRequest is a request for a token.
type WorkspaceTokenRequest struct {
	Workspace uuid.UUID
	User      uuid.UUID
	By        string
	Lifetime  time.Duration
}

// WorkspaceToken is a token of a workspace.
type WorkspaceToken struct {
	coderd.TokenInfo
	// By is the Kubernetes user who requested the token.
	By string
}

// TooManyTokensError reports that a user already has MaxWorkspaceTokens for a workspace.
type TooManyTokensError struct{ Tokens int }

func (e *TooManyTokensError) Error() string {
	return fmt.Sprintf("this Coder user already has %d valid tokens for the workspace, and %d are allowed: revoke some, or wait until they expire", e.Tokens, MaxWorkspaceTokens)
}

// WorkspaceTokens creates, lists and revokes tokens. It is safe for concurrent use.
type WorkspaceTokens struct {
	provider connections.Provider
	clock    clock.PassiveClock

	mu sync.Mutex
	// gone maps the deleted workspaces to the time of their deletion.
	gone map[goneWorkspace]time.Time
	// next is the time of the next sweep.
	next time.Time
}

type goneWorkspace struct {
	controlPlane types.NamespacedName
	id           uuid.UUID
}

// NewWorkspaceTokens returns a WorkspaceTokens.
func NewWorkspaceTokens(provider connections.Provider, c clock.PassiveClock) *WorkspaceTokens {
	return &WorkspaceTokens{provider: provider, clock: c, gone: map[goneWorkspace]time.Time{}}
}

// Create creates a token. The request is made by the Actor of the context, or else the client's
// user.
func (m *WorkspaceTokens) Create(ctx context.Context, client *coderd.Client, r WorkspaceTokenRequest) (value string, made WorkspaceToken, err error) {
	known, err := client.TokensOf(ctx, r.User.String())
	if err != nil {
		return "", WorkspaceToken{}, err
	}
	if n := len(of(known, r.Workspace)); n >= MaxWorkspaceTokens {
		return "", WorkspaceToken{}, &TooManyTokensError{n}
	}
	token, info, err := client.CreateWorkspaceToken(ctx, r.User.String(), r.Workspace,
		coderd.TokenRequest{Name: newWorkspaceName(r.Workspace, r.By), Lifetime: r.Lifetime})
	return token.Value, WorkspaceToken{TokenInfo: info, By: requesterOf(r.By)}, err
}

// List returns the tokens of a workspace, the oldest first.
func (m *WorkspaceTokens) List(ctx context.Context, client *coderd.Client, id uuid.UUID) ([]WorkspaceToken, error) {
	all, err := client.AllTokens(ctx)
	if err != nil {
		return nil, err
	}
	return of(all, id), nil
}

// of returns the tokens of a workspace that have not expired.
func of(all []coderd.TokenInfo, id uuid.UUID) (tokens []WorkspaceToken) {
	for _, info := range all {
		if of, by, ok := parseWorkspaceName(info.Name); ok && of == id && !info.Expired {
			tokens = append(tokens, WorkspaceToken{info, by})
		}
	}
	slices.SortFunc(tokens, func(a, b WorkspaceToken) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return tokens
}

// Gone schedules the revocation of the tokens of a deleted workspace.
func (m *WorkspaceTokens) Gone(controlPlane types.NamespacedName, id uuid.UUID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.gone) < maxGone {
		m.gone[goneWorkspace{controlPlane, id}] = m.clock.Now()
	}
}

// Run revokes the tokens of deleted workspaces until the context is done.
func (m *WorkspaceTokens) Run(ctx context.Context) error {
	wait.UntilWithContext(ctx, m.Sweep, sweepInterval)
	return nil
}

// Sweep revokes the tokens of deleted workspaces. It lists the tokens of each Coder once,
// independent of the number of deleted workspaces.
func (m *WorkspaceTokens) Sweep(ctx context.Context) {
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
		m.mu.Lock()
		for id, at := range ids {
			if w := (goneWorkspace{member.ControlPlane, id}); m.gone[w].Equal(at) {
				delete(m.gone, w)
			}
		}
		m.mu.Unlock()
	}
	if failed {
		m.mu.Lock()
		m.next = m.clock.Now().Add(retryAfter)
		m.mu.Unlock()
	}
}

// due returns the deleted workspaces of each control plane. It forgets workspaces that were deleted
// so long ago that their tokens have expired.
func (m *WorkspaceTokens) due() map[types.NamespacedName]map[uuid.UUID]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	maps.DeleteFunc(m.gone, func(_ goneWorkspace, at time.Time) bool { return now.Sub(at) > goneFor })
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

func revokeAll(ctx context.Context, client *coderd.Client, ids map[uuid.UUID]time.Time) error {
	all, err := client.AllTokens(ctx)
	if err != nil {
		return err
	}
	for _, info := range all {
		id, _, ok := parseWorkspaceName(info.Name)
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
	// WorkspacePrefix is the prefix of the tokens' names in Coder.
	WorkspacePrefix = "coder-k8s-workspace-"
	// maxBy is the maximum length of the part of a name that identifies the requesting user.
	maxBy = 80
	// byHash is the number of hash digits at the end of a user name that had to be changed.
	byHash = 8
	// idLength is the length of a UUID.
	idLength = 36
)

// newWorkspaceName returns a unique name of a token.
func newWorkspaceName(workspace uuid.UUID, by string) string {
	return WorkspacePrefix + workspace.String() + "-" + strings.ToLower(rand.Text()[:12]) + "." + requesterOf(by)
}

// requesterOf returns a Kubernetes user name in the form for the name of a token. Unusual characters
// become underscores, and long names are truncated. A hash then distinguishes the user from others.
func requesterOf(user string) string {
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

// parseWorkspaceName returns the workspace of a token and the user who requested it. It reports whether the
// token was created by this package.
func parseWorkspaceName(name string) (workspace uuid.UUID, by string, ok bool) {
	rest, ok := strings.CutPrefix(name, WorkspacePrefix)
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
