package coderdtest

import (
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
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
	for i := range s.organizations {
		org := &s.organizations[i]
		if name == codersdk.DefaultOrganization && org.IsDefault || strings.EqualFold(org.Name, name) {
			return org
		}
	}
	return nil
}

func (s *Server) organizationByID(id uuid.UUID) *codersdk.Organization {
	for i := range s.organizations {
		if s.organizations[i].ID == id {
			return &s.organizations[i]
		}
	}
	return nil
}

// pathOrganization returns the organization in the path: an id, a name or "default".
func (s *Server) pathOrganization(r *request) *codersdk.Organization {
	arg := r.PathValue("organization")
	org := s.organizationNamed(arg)
	if id, err := uuid.Parse(arg); err == nil {
		org = s.organizationByID(id)
	}
	if org == nil {
		notFound()
	}
	return org
}

func (s *Server) routeOrganizations(closed route) {
	closed("GET /api/v2/organizations", func(r *request) { r.write(http.StatusOK, s.organizations) })
	closed("GET /api/v2/organizations/{organization}", func(r *request) { r.write(http.StatusOK, s.pathOrganization(r)) })
}
