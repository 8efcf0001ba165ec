package coderdtest

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// postAuthCheck reports what a user may do, for the roles owner, template-admin and member.
func (s *Server) postAuthCheck(r *request) {
	var body codersdk.AuthorizationRequest
	r.read(&body)
	answer := codersdk.AuthorizationResponse{}
	for name, check := range body.Checks {
		answer[name] = r.user.has("owner") || s.mayMember(r.user, check)
	}
	r.write(http.StatusOK, answer)
}

func (s *Server) mayMember(u *user, check codersdk.AuthorizationCheck) bool {
	if check.Object.ResourceType == codersdk.ResourceUser {
		return u.has("user-admin")
	}
	if check.Object.ResourceType == codersdk.ResourceTemplate {
		return u.has("template-admin")
	}
	owner := check.Object.OwnerID
	if id, err := uuid.Parse(check.Object.ResourceID); err == nil {
		w := s.workspaceByID(id)
		if w == nil {
			return false
		}
		owner = w.owner.id.String()
	}
	return check.Object.ResourceType == codersdk.ResourceWorkspace && owner == u.id.String()
}

// Initiators returns the builds of a workspace, as transition and username of the initiator.
func (s *Server) Initiators(id uuid.UUID) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.workspaceByID(id); w != nil {
		for _, b := range w.builds {
			all = append(all, string(b.transition)+" "+b.initiator.username)
		}
	}
	return all
}

// SetEmail sets the email address of a user, which may be the same as another user's.
func (s *Server) SetEmail(username, email string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.userNamed(username); u != nil {
		u.email = email
	}
}
