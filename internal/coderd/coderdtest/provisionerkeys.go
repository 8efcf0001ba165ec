package coderdtest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// ProvisionerKey is a provisioner key of the server.
type ProvisionerKey struct {
	codersdk.ProvisionerKey
	// Text is the key that a provisioner presents. Coder itself stores only a hash of it.
	Text string
}

// ProvisionerKeys returns the keys of an organization, the oldest first.
func (s *Server) ProvisionerKeys(organization string) []ProvisionerKey {
	if s.real != nil {
		return s.real.provisionerKeys(organization)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []ProvisionerKey
	if org := s.organizationNamed(organization); org != nil {
		for _, k := range s.keysOf(org.ID) {
			out = append(out, *k)
		}
	}
	return out
}

// AddProvisionerKey adds a key, as another user of Coder would. It needs no license.
func (s *Server) AddProvisionerKey(organization, name string, tags map[string]string) (text string) {
	if s.real != nil {
		return s.real.addProvisionerKey(organization, name, tags)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	org := s.organizationNamed(organization)
	if org == nil || s.keyNamed(org.ID, name) != nil {
		return ""
	}
	return s.insertProvisionerKey(org.ID, name, tags).Text
}

// RemoveProvisionerKey removes a key, as another user of Coder would. It reports whether the key
// existed.
func (s *Server) RemoveProvisionerKey(organization, name string) bool {
	if s.real != nil {
		return s.real.removeProvisionerKey(organization, name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	org := s.organizationNamed(organization)
	if org == nil {
		return false
	}
	k := s.keyNamed(org.ID, name)
	if k != nil {
		s.removeProvisionerKey(k)
	}
	return k != nil
}

func (s *Server) keysOf(org uuid.UUID) []*ProvisionerKey {
	var out []*ProvisionerKey
	for _, k := range s.provisionerKeys {
		if k.OrganizationID == org {
			out = append(out, k)
		}
	}
	return out
}

func (s *Server) keyNamed(org uuid.UUID, name string) *ProvisionerKey {
	return first(s.keysOf(org), func(k *ProvisionerKey) bool { return strings.EqualFold(k.Name, name) })
}

func (s *Server) insertProvisionerKey(org uuid.UUID, name string, tags map[string]string) *ProvisionerKey {
	if tags == nil {
		tags = map[string]string{}
	}
	k := &ProvisionerKey{Text: secretOf(43), ProvisionerKey: codersdk.ProvisionerKey{
		ID: uuid.New(), Name: strings.ToLower(name), Tags: tags, OrganizationID: org, CreatedAt: s.now(),
	}}
	s.provisionerKeys = append(s.provisionerKeys, k)
	return k
}

// removeProvisionerKey also removes the daemons of the key, as Coder's database does.
func (s *Server) removeProvisionerKey(k *ProvisionerKey) {
	s.provisionerKeys = slices.DeleteFunc(s.provisionerKeys, func(other *ProvisionerKey) bool { return other == k })
	s.daemons = slices.DeleteFunc(s.daemons, func(d *codersdk.ProvisionerDaemon) bool { return d.KeyID == k.ID })
}

func (s *Server) routeProvisionerKeys(open, closed route) {
	licensed := func(pattern string, handle func(*request, *codersdk.Organization)) {
		closed(pattern, func(r *request) {
			org := s.pathOrganization(r)
			s.needsLicensing()
			s.needsFeature(codersdk.FeatureExternalProvisionerDaemons)
			handle(r, org)
		})
	}
	licensed("GET /api/v2/organizations/{organization}/provisionerkeys", s.getProvisionerKeys)
	licensed("POST /api/v2/organizations/{organization}/provisionerkeys", s.postProvisionerKey)
	licensed("DELETE /api/v2/organizations/{organization}/provisionerkeys/{key}", s.deleteProvisionerKey)
	open("GET /api/v2/provisionerkeys/{key}", s.getOwnProvisionerKey)
}

func (r *request) mayProvision() bool { return r.user.has("owner") || r.user.has("template-admin") }

func (s *Server) getProvisionerKeys(r *request, org *codersdk.Organization) {
	out := []codersdk.ProvisionerKey{}
	for _, k := range s.keysOf(org.ID) {
		if r.mayProvision() || s.has(membersSeeKeys) {
			out = append(out, k.ProvisionerKey)
		}
	}
	r.write(http.StatusOK, out)
}

func (s *Server) postProvisionerKey(r *request, org *codersdk.Organization) {
	body := read[codersdk.CreateProvisionerKeyRequest](r)
	wrongName := func(message string) {
		refuse(http.StatusBadRequest, message, codersdk.ValidationError{Field: "name", Detail: message})
	}
	switch {
	case body.Name == "":
		wrongName("Name is required")
	case len(body.Name) > 64:
		wrongName("Name must be at most 64 characters")
	case slices.ContainsFunc(codersdk.ReservedProvisionerKeyNames(), func(s string) bool { return strings.EqualFold(s, body.Name) }):
		wrongName(fmt.Sprintf("Name cannot be reserved name '%s'", body.Name))
	case !r.mayProvision():
		mayNot()
	case s.keyNamed(org.ID, body.Name) != nil:
		refuse(http.StatusConflict, fmt.Sprintf("Provisioner key with name '%s' already exists in organization", body.Name))
	}
	r.write(http.StatusCreated, codersdk.CreateProvisionerKeyResponse{Key: s.insertProvisionerKey(org.ID, body.Name, body.Tags).Text})
}

func (s *Server) deleteProvisionerKey(r *request, org *codersdk.Organization) {
	name := r.PathValue("key")
	// Coder's own keys are in the default organization.
	if org.IsDefault && slices.Contains(codersdk.ReservedProvisionerKeyNames(), strings.ToLower(name)) {
		refuse(http.StatusBadRequest, fmt.Sprintf("Cannot delete reserved '%s' provisioner key", strings.ToLower(name)))
	}
	k := s.keyNamed(org.ID, name)
	if k != nil && !r.mayProvision() && s.has(membersSeeKeys) {
		mayNot()
	}
	if k == nil || !r.mayProvision() {
		notFound()
	}
	s.removeProvisionerKey(k)
	r.w.WriteHeader(http.StatusNoContent)
}

// getOwnProvisionerKey reads the key from the header. It ignores the path.
func (s *Server) getOwnProvisionerKey(r *request) {
	s.needsLicensing()
	text := r.Header.Get(codersdk.ProvisionerDaemonKey)
	switch {
	case text == "":
		refuse(http.StatusUnauthorized, "provisioner daemon key required")
	case len(text) != 43:
		refuseDetailed(http.StatusBadRequest, "provisioner daemon key invalid", "must be 43 characters")
	}
	k := first(s.provisionerKeys, func(k *ProvisionerKey) bool { return k.Text == text })
	if k == nil {
		refuse(http.StatusUnauthorized, "provisioner daemon key invalid")
	}
	r.write(http.StatusOK, k.ProvisionerKey)
}
