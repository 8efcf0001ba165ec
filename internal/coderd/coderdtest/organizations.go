package coderdtest

import (
	"net/http"
	"slices"
	"strings"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
)

// OrganizationID returns the id of an organization.
func (s *Server) OrganizationID(name string) uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if org := s.organizationNamed(name); org != nil {
		return org.ID
	}
	return uuid.Nil
}

func (s *Server) organizationNamed(name string) *codersdk.Organization {
	return first(s.organizations, func(org *codersdk.Organization) bool {
		return name == codersdk.DefaultOrganization && org.IsDefault || strings.EqualFold(org.Name, name)
	})
}

func (s *Server) organizationByID(id uuid.UUID) *codersdk.Organization {
	return first(s.organizations, func(org *codersdk.Organization) bool { return org.ID == id })
}

// pathOrganization returns the organization in the path: an id, a name or "default".
func (s *Server) pathOrganization(r *request) *codersdk.Organization {
	arg := r.PathValue("organization")
	org := s.organizationNamed(arg)
	if id, err := uuid.Parse(arg); err == nil {
		org = s.organizationByID(id)
	}
	if org == nil || !r.user.seesOrganization(org.ID) {
		notFound()
	}
	return org
}

func (s *Server) getOrganizations(r *request) {
	r.write(http.StatusOK, slices.DeleteFunc(slices.Clone(s.organizations), func(org *codersdk.Organization) bool {
		return !r.user.seesOrganization(org.ID)
	}))
}

// AddOrganization adds an organization, as another user of Coder would. An owner may do everything
// in it without being a member.
func (s *Server) AddOrganization(name string) uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addOrganization(name, false).ID
}

// RenameOrganization renames an organization, as another user of Coder would.
func (s *Server) RenameOrganization(name, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	org := s.organizationNamed(name)
	org.Name = to
	for _, t := range s.templates {
		if t.OrganizationID == org.ID {
			t.OrganizationName = to
		}
	}
}

// postAuthCheck reports what a user may do, for the roles owner, template-admin and member, and for template-editor,
// which allows everything with templates except to delete them.
func (s *Server) postAuthCheck(r *request) {
	body := read[codersdk.AuthorizationRequest](r)
	answer := codersdk.AuthorizationResponse{}
	for name, check := range body.Checks {
		answer[name] = len(r.key.AllowList) == 0 && (r.user.has("owner") || s.mayMember(r.user, check))
	}
	r.write(http.StatusOK, answer)
}

func (s *Server) mayMember(u *user, check codersdk.AuthorizationCheck) bool {
	if check.Action == codersdk.ActionRead && check.Object.ResourceID == "" && check.Object.OwnerID == "" {
		return u.seesAll(check.Object.ResourceType)
	}
	if check.Object.ResourceType == codersdk.ResourceUser {
		return u.has("user-admin")
	}
	if id, err := uuid.Parse(check.Object.ResourceID); err == nil && check.Object.ResourceType == codersdk.ResourceTemplate && check.Action == codersdk.ActionUse {
		t := s.templateByID(id)
		return t != nil && u.seesTemplate(t) && !t.restricted
	}
	if check.Object.ResourceType == codersdk.ResourceTemplate {
		return u.has("template-admin") || u.has("template-editor") && check.Action != codersdk.ActionDelete
	}
	owner := check.Object.OwnerID
	granted := false
	if id, err := uuid.Parse(check.Object.ResourceID); err == nil {
		w := s.index.workspaces[id]
		if w == nil {
			return false
		}
		owner, granted = w.owner.ID.String(), w.grants(u, check.Action)
	}
	return check.Object.ResourceType == codersdk.ResourceWorkspace && (granted || owner == u.ID.String())
}
