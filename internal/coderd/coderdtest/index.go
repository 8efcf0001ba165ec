package coderdtest

import (
	"cmp"
	"maps"
	"slices"
	"strings"

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
	w.id, w.createdAt = uuid.New(), s.now()
	w.lastUsedAt = w.createdAt
	w.sortKey = strings.ToLower(w.name)
	s.index.workspaces[w.id] = w
	s.index.names[w.key()] = w
	s.index.order = nil
}

// moveWorkspace changes the name or the owner of a workspace.
func (s *Server) moveWorkspace(w *workspace, owner *user, name string) {
	if !w.deleted {
		delete(s.index.names, w.key())
	}
	w.owner, w.name, w.sortKey = owner, name, strings.ToLower(name)
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
