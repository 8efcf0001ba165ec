package coderdtest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// daemon is a registered provisioner.
type daemon struct {
	id    uuid.UUID
	name  string
	orgID uuid.UUID
	key   struct {
		id   uuid.UUID
		name string
	}
	tags      map[string]string
	job       *uuid.UUID
	createdAt time.Time
}

// AddProvisionerDaemon registers a provisioner with the named key of an organization. An empty key
// means one of Coder's built-in provisioners. It returns uuid.Nil if there is no such organization
// or key.
func (s *Server) AddProvisionerDaemon(organization, key, name string) uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	org := s.organizationNamed(organization)
	if org == nil {
		return uuid.Nil
	}
	d := &daemon{id: uuid.New(), name: name, orgID: org.ID, createdAt: s.now()}
	d.key.id, d.key.name = codersdk.ProvisionerKeyUUIDBuiltIn, codersdk.ProvisionerKeyNameBuiltIn
	if key != "" {
		k := s.keyNamed(org.ID, key)
		if k == nil {
			return uuid.Nil
		}
		d.key.id, d.key.name, d.tags = k.ID, k.Name, k.Tags
	}
	s.daemons = append(s.daemons, d)
	return d.id
}

// SetDaemonBusy assigns a job to a provisioner, or removes it.
func (s *Server) SetDaemonBusy(id uuid.UUID, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.daemons {
		if d.id == id {
			d.job = nil
			if busy {
				job := uuid.New()
				d.job = &job
			}
		}
	}
}

// RemoveProvisionerDaemon removes a provisioner.
func (s *Server) RemoveProvisionerDaemon(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.daemons = slices.DeleteFunc(s.daemons, func(d *daemon) bool { return d.id == id })
}

func (s *Server) routeDaemons(closed route) {
	closed("GET /api/v2/organizations/{organization}/provisionerdaemons", func(r *request) {
		org := s.pathOrganization(r)
		if !r.mayProvision() {
			notFound()
		}
		limit := 50
		if value := r.URL.Query().Get("limit"); value != "" {
			number, err := strconv.ParseInt(value, 10, 32)
			if err != nil || number < 0 {
				refuse(http.StatusBadRequest, "Invalid query parameters.", codersdk.ValidationError{
					Field: "limit", Detail: fmt.Sprintf("Query param %q must be a valid 32-bit positive integer", "limit"),
				})
			}
			limit = int(number)
		}
		out := []codersdk.ProvisionerDaemon{}
		for _, d := range slices.Backward(s.daemons) {
			if d.orgID == org.ID && len(out) < limit {
				out = append(out, s.sdkDaemon(d))
			}
		}
		r.write(http.StatusOK, out)
	})
}

func (s *Server) sdkDaemon(d *daemon) codersdk.ProvisionerDaemon {
	name, status := d.key.name, codersdk.ProvisionerDaemonIdle
	out := codersdk.ProvisionerDaemon{
		ID: d.id, OrganizationID: d.orgID, KeyID: d.key.id, KeyName: &name, CreatedAt: d.createdAt, Name: d.name,
		Version: string(s.release), Provisioners: []codersdk.ProvisionerType{codersdk.ProvisionerTypeTerraform}, Tags: d.tags,
	}
	out.LastSeenAt.Time, out.LastSeenAt.Valid = s.clock.Now(), true
	if d.job != nil {
		status = codersdk.ProvisionerDaemonBusy
		out.CurrentJob = &codersdk.ProvisionerDaemonJob{ID: *d.job, Status: codersdk.ProvisionerJobRunning}
	}
	out.Status = &status
	return out
}
