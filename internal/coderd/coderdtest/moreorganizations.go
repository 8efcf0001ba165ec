package coderdtest

import "github.com/google/uuid"

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
