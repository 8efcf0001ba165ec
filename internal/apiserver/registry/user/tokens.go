package user

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/coderd/sessions"
)

const (
	// tokenAges is how many times as old as a list of members the list of tokens gets.
	tokenAges = 6
	// maxTokens is how many tokens of a user are shown.
	maxTokens = 20
)

// tokens returns the tokens of a user that are shown, and how many there are.
func (m *members) tokens(ctx context.Context, connection connections.Connection, user uuid.UUID) ([]aggregationv1alpha1.CoderUserToken, int32) {
	p := m.plane(connection)
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := m.clock.Now(); now.Sub(p.tokensRead) >= tokenAges*m.age {
		p.tokensRead = now
		all, err := p.client.AllTokens(ctx)
		if err != nil {
			log.FromContext(ctx).Info("Showing users with the tokens that are known", "error", err.Error())
		} else {
			p.tokens = byOwner(all, now)
		}
	}
	mine := p.tokens[user]
	return mine[:min(len(mine), maxTokens)], int32(min(len(mine), 1<<30)) //nolint:gosec // It is limited.
}

// byOwner groups tokens by their users, and leaves out what is not shown.
func byOwner(all []coderd.TokenInfo, now time.Time) map[uuid.UUID][]aggregationv1alpha1.CoderUserToken {
	out := map[uuid.UUID][]aggregationv1alpha1.CoderUserToken{}
	for _, t := range all {
		if t.ExpiresAt.Before(now) || strings.HasPrefix(t.Name, sessions.TokenPrefix) {
			continue
		}
		out[t.UserID] = append(out[t.UserID], aggregationv1alpha1.CoderUserToken{
			Name: t.Name, CreatedAt: ptr.To(registry.Seconds(t.CreatedAt)), ExpiresAt: ptr.To(registry.Seconds(t.ExpiresAt)),
		})
	}
	for _, mine := range out {
		slices.SortFunc(mine, func(a, b aggregationv1alpha1.CoderUserToken) int {
			return cmp.Or(b.CreatedAt.Compare(a.CreatedAt.Time), cmp.Compare(a.Name, b.Name))
		})
	}
	return out
}
