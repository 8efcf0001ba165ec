package coderdtest

import (
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/ptr"

	"github.com/coder/coder/v2/codersdk"
)

// AddWorkspace adds a running workspace with a template's active version. It panics if the
// owner or the template does not exist.
func (s *Server) AddWorkspace(owner string, template uuid.UUID, name string) uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seedWorkspace(owner, template, name).ID
}

// prebuilds is the name of Coder's own account for workspaces that it builds in advance.
const prebuilds = "prebuilds"

// AddPrebuilt adds a template, and a running workspace of it that Coder has built in advance. It returns the id of the workspace.
func (s *Server) AddPrebuilt() uuid.UUID {
	if s.real != nil {
		return ask[uuid.UUID]("/prebuild", s.real.url)
	}
	s.AddUser(prebuilds)
	return s.AddWorkspace(prebuilds, s.AddTemplate("coder", "gpu", nil), "prebuild-1")
}

// BuildWorkspace starts, stops or deletes a workspace, as another user of Coder would. The build
// finishes at once, and Coder lists it.
func (s *Server) BuildWorkspace(id uuid.UUID, transition string) {
	s.change(id, func(w *workspace) {
		s.doneBuild(w, codersdk.WorkspaceTransition(transition))
		b := w.latest()
		b.job.workspace, b.job.versionID = w, b.TemplateVersionID
		b.job.Type, b.job.Input = codersdk.ProvisionerJobTypeWorkspaceBuild, codersdk.ProvisionerJobInput{WorkspaceBuildID: &b.ID}
		s.jobs = append(s.jobs, b.job)
	})
}

// RenameWorkspace renames a workspace, as another user of Coder would.
func (s *Server) RenameWorkspace(id uuid.UUID, name string) {
	s.change(id, func(w *workspace) { s.moveWorkspace(w, w.owner, name) })
}

// TransferWorkspace changes the owner of a workspace, as Coder does when a user claims a prebuilt
// workspace.
func (s *Server) TransferWorkspace(id uuid.UUID, owner string) {
	s.change(id, func(w *workspace) {
		if u := s.userNamed(owner); u != nil {
			s.moveWorkspace(w, u, w.Name)
		}
	})
}

// RemoveWorkspace removes a workspace from the database, so that it is not found any more. Coder
// itself only marks it as deleted.
func (s *Server) RemoveWorkspace(id uuid.UUID) {
	s.change(id, func(w *workspace) {
		s.markDeleted(w)
		delete(s.index.workspaces, id)
	})
}

// SetTTL changes the time after which a workspace stops, as another user of Coder would. Nil means
// never.
func (s *Server) SetTTL(id uuid.UUID, ttl *time.Duration) {
	s.change(id, func(w *workspace) {
		w.TTLMillis = nil
		if ttl != nil {
			w.TTLMillis = ptr.To(ttl.Milliseconds())
		}
	})
}

// SetAutostart changes the schedule of a workspace, as another user of Coder would. Nil means no
// schedule.
func (s *Server) SetAutostart(id uuid.UUID, schedule *string) {
	s.change(id, func(w *workspace) { w.AutostartSchedule = schedule })
}

// SetAutomaticUpdates changes the automatic updates of a workspace, as another user of Coder would:
// always or never.
func (s *Server) SetAutomaticUpdates(id uuid.UUID, updates string) {
	s.change(id, func(w *workspace) { w.AutomaticUpdates = codersdk.AutomaticUpdates(updates) })
}

// SetAgents sets the agents that a workspace has while it is running.
func (s *Server) SetAgents(id uuid.UUID, agents ...Agent) {
	s.change(id, func(w *workspace) { w.agents = agents })
}

// SetDormant makes a workspace dormant, or active again.
func (s *Server) SetDormant(id uuid.UUID, dormant bool) {
	s.change(id, func(w *workspace) { s.setDormant(w, dormant) })
}

// SetLastUsed sets the time when a workspace was used last.
func (s *Server) SetLastUsed(id uuid.UUID, at time.Time) {
	s.change(id, func(w *workspace) { w.LastUsedAt = at })
}

// Transitions returns the builds of a workspace, the oldest first: start, stop or delete.
func (s *Server) Transitions(id uuid.UUID) []string {
	var out []string
	s.change(id, func(w *workspace) {
		for _, b := range w.builds {
			out = append(out, string(b.Transition))
		}
	})
	return out
}

// Initiators returns the builds of a workspace, as transition and username of the initiator.
func (s *Server) Initiators(id uuid.UUID) (all []string) {
	s.change(id, func(w *workspace) {
		for _, b := range w.builds {
			all = append(all, string(b.Transition)+" "+b.initiator.Username)
		}
	})
	return all
}

// WorkspaceStatus returns the status of a workspace's latest build, for example running. It returns
// an empty string if there is no such workspace.
func (s *Server) WorkspaceStatus(id uuid.UUID) string {
	status := ""
	s.change(id, func(w *workspace) {
		status = string(codersdk.ConvertWorkspaceStatus(w.latest().job.Status, w.latest().Transition))
	})
	return status
}

func (s *Server) change(id uuid.UUID, f func(*workspace)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.index.workspaces[id]; w != nil {
		f(w)
	}
}
