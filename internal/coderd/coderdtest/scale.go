package coderdtest

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// AddWorkspaces adds n workspaces, as AddWorkspace does. It returns their ids, or nil if the owner
// or the template does not exist.
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

// SetLatency delays every request. Delays of faults are added.
func (s *Server) SetLatency(latency time.Duration) {
	s.trafficMu.Lock()
	defer s.trafficMu.Unlock()
	s.latency = latency
}
