package user

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/coderd/usertokens"
)

const (
	// organizationsAge is how long the names of organizations are cached.
	organizationsAge = 5 * time.Minute
	// maxUnnamed limits the organizations without a name that are known of one Coder. Other ids are ignored until the names
	// are read again.
	maxUnnamed = 1000
	// maxMembers limits the cached members of one Coder, in all organizations together.
	maxMembers = 200_000
)

// members caches the roles of users in organizations, and their tokens. Coder's list of users does
// not contain them. It reads the members of one organization at a time, and each list only when it
// is older than age. It is safe for concurrent use.
type members struct {
	clock clock.PassiveClock
	age   time.Duration

	mu     sync.Mutex
	planes map[types.NamespacedName]*plane
}

// plane is the state of one Coder. Its lock is held during requests to that Coder.
type plane struct {
	mu sync.Mutex
	// client is the client that read it. Another client may be connected to another Coder.
	client *coderd.Client
	names  map[uuid.UUID]string
	named  time.Time
	// missed is the time of the last failed read of the names for an organization without a name.
	missed map[uuid.UUID]time.Time
	// deleted are the organizations that a read of all names does not contain. Coder keeps the last
	// member of a deleted organization.
	deleted map[uuid.UUID]bool
	lists   map[uuid.UUID]list
	// read is the time of the last read of any list.
	read time.Time
	// tokens are the tokens of each user, newest first.
	tokens     map[uuid.UUID][]aggregationv1alpha1.CoderUserToken
	tokensRead time.Time
}

type list struct {
	roles map[uuid.UUID][]string
	read  time.Time
}

func newMembers(c clock.PassiveClock, age time.Duration) *members {
	return &members{clock: c, age: age, planes: map[types.NamespacedName]*plane{}}
}

// of returns the organizations of a user, with the roles in them. It skips deleted organizations.
func (m *members) of(ctx context.Context, connection connections.Connection, user coderd.User) []aggregationv1alpha1.CoderUserOrganization {
	p := m.plane(connection)
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []aggregationv1alpha1.CoderUserOrganization
	left := maxRoleBytes
	for _, id := range user.OrganizationIDs {
		name := m.name(ctx, p, id)
		if name == "" {
			continue
		}
		roles, known := user.OrganizationRoles[id]
		if known {
			if l, ok := p.lists[id]; ok {
				l.roles[user.ID] = roles
			}
		} else {
			roles = m.list(ctx, p, id).roles[user.ID]
		}
		for i, role := range roles {
			if left -= len(role); left < 0 {
				roles = roles[:i]
				break
			}
		}
		all = append(all, aggregationv1alpha1.CoderUserOrganization{Name: name, Roles: roles})
	}
	return normalOrganizations(all)
}

func (m *members) plane(connection connections.Connection) *plane {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.planes[connection.ControlPlane]
	if p == nil || p.client != connection.Client {
		p = &plane{
			client: connection.Client, lists: map[uuid.UUID]list{}, missed: map[uuid.UUID]time.Time{}, deleted: map[uuid.UUID]bool{},
		}
		m.planes[connection.ControlPlane] = p
	}
	return p
}

// list returns the members of an organization. It reads a list that was never read, or else the
// oldest one if age has passed since the last read, so all are read in turn. If a list cannot be
// read, the last one is kept.
func (m *members) list(ctx context.Context, p *plane, organization uuid.UUID) list {
	now, due := m.clock.Now(), organization
	if _, known := p.lists[organization]; known {
		if now.Sub(p.read) < m.age {
			return p.lists[organization]
		}
		for id, other := range p.lists {
			if other.read.Before(p.lists[due].read) {
				due = id
			}
		}
	}
	p.read = now
	roles, err := p.client.Members(ctx, due)
	all := len(roles)
	for id, other := range p.lists {
		if id != due {
			all += len(other.roles)
		}
	}
	if err == nil && all > maxMembers {
		err = fmt.Errorf("the organizations have more than %d members in all", maxMembers)
	}
	if err != nil {
		log.FromContext(ctx).Info("Could not read the members of an organization; serving the last known roles", "id", due, "error", err.Error())
		roles = p.lists[due].roles
	}
	if roles == nil {
		roles = map[uuid.UUID][]string{}
	}
	p.lists[due] = list{roles: roles, read: now}
	return p.lists[organization]
}

// name returns the name of an organization, its id if the name cannot be read, and "" if the
// organization was deleted or is ignored.
func (m *members) name(ctx context.Context, p *plane, organization uuid.UUID) string {
	name, ok := p.names[organization]
	now := m.clock.Now()
	last, failed := p.missed[organization]
	deleted := p.deleted[organization]
	ignored := !ok && !deleted && !failed && len(p.missed)+len(p.deleted) >= maxUnnamed
	missed := !ok && !deleted && !ignored && now.Sub(last) >= m.age
	if now.Sub(p.named) >= organizationsAge || missed {
		p.named = now
		if all, err := p.client.Organizations(ctx); err == nil {
			p.names = map[uuid.UUID]string{}
			for _, o := range all {
				p.names[o.ID] = o.Name
			}
			clear(p.missed)
			if name, ok = p.names[organization]; !ok && !ignored {
				p.deleted[organization] = true
			}
			maps.DeleteFunc(p.deleted, func(id uuid.UUID, _ bool) bool { return p.names[id] != "" })
			maps.DeleteFunc(p.lists, func(id uuid.UUID, _ list) bool { return p.names[id] == "" })
		} else if !ok && !ignored {
			p.missed[organization] = now
		}
	}
	if !ok && !ignored && !p.deleted[organization] {
		return organization.String()
	}
	return name
}

const (
	// tokenAges is the age of the list of tokens as a multiple of the age of a list of members.
	tokenAges = 6
	// maxRoleBytes limits the names of all roles of a user in organizations. A user with 10 roles in each of
	// 100 organizations has about 20 KiB.
	maxRoleBytes = 64 << 10
	// maxTokens limits the tokens that are shown for a user.
	maxTokens = 20
)

// tokens returns the tokens of a user that are shown, and the number of all.
func (m *members) tokens(ctx context.Context, connection connections.Connection, user uuid.UUID) ([]aggregationv1alpha1.CoderUserToken, int32) {
	p := m.plane(connection)
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := m.clock.Now(); now.Sub(p.tokensRead) >= tokenAges*m.age {
		p.tokensRead = now
		all, err := p.client.AllTokens(ctx)
		if err != nil {
			log.FromContext(ctx).Info("Could not read the tokens of users; serving the last known tokens", "error", err.Error())
		} else {
			p.tokens = byOwner(all)
		}
	}
	mine := p.tokens[user]
	return mine[:min(len(mine), maxTokens)], int32(min(len(mine), 1<<30)) //nolint:gosec // It is limited.
}

// byOwner groups tokens by user. It omits tokens that are not shown.
func byOwner(all []coderd.TokenInfo) map[uuid.UUID][]aggregationv1alpha1.CoderUserToken {
	out := map[uuid.UUID][]aggregationv1alpha1.CoderUserToken{}
	for _, t := range all {
		if t.Expired || strings.HasPrefix(t.Name, usertokens.SessionPrefix) {
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
