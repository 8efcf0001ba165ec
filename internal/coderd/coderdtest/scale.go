package coderdtest

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// AddWorkspaces makes many workspaces at once, as AddWorkspace does. It gives
// their ids, or nil where there is no such owner or template.
func (s *Server) AddWorkspaces(n int, owner string, template uuid.UUID) []uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, t := s.userNamed(owner), s.templateByID(template)
	if u == nil || t == nil {
		return nil
	}
	ids := make([]uuid.UUID, n)
	for i := range ids {
		s.counter++
		ids[i] = s.seedWorkspace(u, t, fmt.Sprintf("scale-%06d", s.counter)).id
	}
	return ids
}

func (s *Server) seedWorkspace(u *user, t *template, name string) *workspace {
	w := &workspace{name: name, owner: u, template: t, automaticUpdates: codersdk.AutomaticUpdatesNever}
	s.insertWorkspace(w)
	s.doneBuild(w, codersdk.WorkspaceTransitionStart)
	return w
}

// SetLatency makes every request take that much longer. Faults come on top.
func (s *Server) SetLatency(latency time.Duration) {
	s.trafficMu.Lock()
	defer s.trafficMu.Unlock()
	s.latency = latency
}
