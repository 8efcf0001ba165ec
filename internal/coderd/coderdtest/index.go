package coderdtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
)

// index finds objects quickly when there are tens of thousands of them. Objects are not removed
// from the maps by id, except a workspace whose row is removed.
type index struct {
	users      map[uuid.UUID]*user
	usernames  map[string]*user
	templates  map[uuid.UUID]*template
	versions   map[uuid.UUID]*version
	files      map[uuid.UUID]*file
	workspaces map[uuid.UUID]*workspace
	builds     map[uuid.UUID]*workspace
	// names contains the workspaces that are not deleted.
	names map[workspaceName]*workspace
	// order contains the same workspaces, sorted as Coder lists them. Nil means that it must be
	// recomputed.
	order []*workspace
}

type workspaceName struct {
	owner *user
	name  string
}

func newIndex() index {
	return index{
		users:      map[uuid.UUID]*user{},
		usernames:  map[string]*user{},
		templates:  map[uuid.UUID]*template{},
		versions:   map[uuid.UUID]*version{},
		files:      map[uuid.UUID]*file{},
		workspaces: map[uuid.UUID]*workspace{},
		builds:     map[uuid.UUID]*workspace{},
		names:      map[workspaceName]*workspace{},
	}
}

func (w *workspace) key() workspaceName { return workspaceName{w.owner, w.sortKey} }

// insertWorkspace adds a new workspace to the index.
func (s *Server) insertWorkspace(w *workspace) {
	w.ID, w.CreatedAt = uuid.New(), s.now()
	w.UpdatedAt, w.LastUsedAt = w.CreatedAt, w.CreatedAt
	w.sortKey = strings.ToLower(w.Name)
	s.index.workspaces[w.ID] = w
	s.index.names[w.key()] = w
	s.index.order = nil
}

// moveWorkspace changes the name or the owner of a workspace.
func (s *Server) moveWorkspace(w *workspace, owner *user, name string) {
	if !w.deleted {
		delete(s.index.names, w.key())
	}
	w.owner, w.Name, w.sortKey = owner, name, strings.ToLower(name)
	if !w.deleted {
		s.index.names[w.key()] = w
	}
	s.index.order = nil
}

// markDeleted hides a deleted workspace from lists and names. It can still be found by id.
func (s *Server) markDeleted(w *workspace) {
	if !w.deleted {
		w.deleted = true
		delete(s.index.names, w.key())
		s.index.order = nil
	}
}

// ordered returns the workspaces that are not deleted, in Coder's order: running ones first, so
// that workspaces move between pages when they start and stop.
func (s *Server) ordered() []*workspace {
	if s.index.order != nil {
		return s.index.order
	}
	s.index.order = slices.SortedFunc(maps.Values(s.index.names), compareWorkspaces)
	return s.index.order
}

func compareWorkspaces(a, b *workspace) int {
	return cmp.Or(cmp.Compare(b.rank(), a.rank()), cmp.Compare(a.owner.sortKey, b.owner.sortKey), cmp.Compare(a.sortKey, b.sortKey))
}

// AddWorkspaces adds n workspaces, as AddWorkspace does. It returns their ids.
func (s *Server) AddWorkspaces(n int, owner string, template uuid.UUID) []uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]uuid.UUID, n)
	for i := range ids {
		s.counter++
		ids[i] = s.seedWorkspace(owner, template, fmt.Sprintf("scale-%06d", s.counter)).ID
	}
	return ids
}

func (s *Server) seedWorkspace(owner string, template uuid.UUID, name string) *workspace {
	w := &workspace{owner: s.userNamed(owner), template: s.templateByID(template)}
	if w.owner == nil || w.template == nil {
		panic(fmt.Sprintf("coderdtest: workspace %s needs a user %s and a template %s", name, owner, template))
	}
	w.Name, w.AutomaticUpdates = name, codersdk.AutomaticUpdatesNever
	s.insertWorkspace(w)
	s.doneBuild(w, codersdk.WorkspaceTransitionStart)
	return w
}

// SetLatency delays every request. Delays of faults are added.
func (s *Server) SetLatency(latency time.Duration) {
	s.trafficMu.Lock()
	defer s.trafficMu.Unlock()
	s.latency = latency
}
