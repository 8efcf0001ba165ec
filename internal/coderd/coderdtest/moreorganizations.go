package coderdtest

import "github.com/google/uuid"

// AddOrganization is somebody making a further organization. An owner may do
// everything there without being a member.
func (s *Server) AddOrganization(name string) uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addOrganization(name, false).ID
}

// RenameOrganization is somebody renaming an organization.
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
