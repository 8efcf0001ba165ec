package user

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// organizationsAge is how long the names of organizations are believed.
const organizationsAge = 5 * time.Minute

// members knows the roles of users in organizations and their tokens, which Coder's list of
// users does not have. It reads the members of one organization at a time, and each list only when it is
// older than age. It is safe for concurrent use.
type members struct {
	clock clock.PassiveClock
	age   time.Duration

	mu     sync.Mutex
	planes map[types.NamespacedName]*plane
}

// plane is the state of one Coder. Its lock is held during requests to that Coder.
type plane struct {
	mu sync.Mutex
	// client is the one that it was read with: another one may be another Coder.
	client *coderd.Client
	names  map[uuid.UUID]string
	named  time.Time
	// missed is when the names were last read for an organization that is not among them.
	missed map[uuid.UUID]time.Time
	lists  map[uuid.UUID]list
	// read is when a list was read last.
	read time.Time
	// tokens are those of each user, the newest first.
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

// of returns the organizations of a user, with the roles in them.
func (m *members) of(ctx context.Context, connection connections.Connection, user coderd.User) []aggregationv1alpha1.CoderUserOrganization {
	p := m.plane(connection)
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []aggregationv1alpha1.CoderUserOrganization
	for _, id := range user.OrganizationIDs {
		roles, known := user.OrganizationRoles[id]
		if known {
			p.learn(id, user.ID, roles)
		} else {
			roles = m.list(ctx, p, id).roles[user.ID]
		}
		all = append(all, aggregationv1alpha1.CoderUserOrganization{Name: m.name(ctx, p, id), Roles: roles})
	}
	return normalOrganizations(all)
}

func (m *members) plane(connection connections.Connection) *plane {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.planes[connection.ControlPlane]
	if p == nil || p.client != connection.Client {
		p = &plane{client: connection.Client, lists: map[uuid.UUID]list{}, missed: map[uuid.UUID]time.Time{}}
		m.planes[connection.ControlPlane] = p
	}
	return p
}

// learn keeps the roles of a user who was read alone.
func (p *plane) learn(organization, user uuid.UUID, roles []string) {
	if l, ok := p.lists[organization]; ok {
		l.roles[user] = roles
	}
}

// list returns the members of an organization. If they cannot be read, they are those that
// were known.
func (m *members) list(ctx context.Context, p *plane, organization uuid.UUID) list {
	now := m.clock.Now()
	known, ok := p.lists[organization]
	if ok && (now.Sub(known.read) < m.age || now.Sub(p.read) < m.age) {
		return known
	}
	p.read, known.read = now, now
	roles, err := p.client.Members(ctx, organization)
	if err != nil {
		log.FromContext(ctx).Info("Showing users with the roles in an organization that are known", "id", organization, "error", err.Error())
	} else {
		known.roles = roles
	}
	if known.roles == nil {
		known.roles = map[uuid.UUID][]string{}
	}
	p.lists[organization] = known
	return known
}

// name returns the name of an organization, and its id if the name cannot be read.
func (m *members) name(ctx context.Context, p *plane, organization uuid.UUID) string {
	name, ok := p.names[organization]
	now := m.clock.Now()
	missed := !ok && now.Sub(p.missed[organization]) >= m.age
	if now.Sub(p.named) >= organizationsAge || missed {
		p.named = now
		if all, err := p.client.Organizations(ctx); err == nil {
			p.names = map[uuid.UUID]string{}
			for _, o := range all {
				p.names[o.ID] = o.Name
			}
		}
		name, ok = p.names[organization]
	}
	if missed && !ok {
		p.missed[organization] = now
	}
	if !ok {
		return organization.String()
	}
	return name
}
