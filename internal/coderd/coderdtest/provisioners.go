package coderdtest

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
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

// builtInProvisioners is how many Coder has of its own. A server that was given no
// provisioner has them.
const builtInProvisioners = 3

func (s *Server) routeJobs(closed route) {
	closed("GET /api/v2/organizations/{organization}/provisionerjobs", s.getJobs)
}

// getJobs lists jobs, the newest first. Those of the state that a test begins with are not
// among them.
func (s *Server) getJobs(r *request) {
	org := s.pathOrganization(r)
	if !r.mayProvision() {
		notFound()
	}
	all := r.URL.Query().Get("status") == ""
	wanted := strings.Split(r.URL.Query().Get("status"), ",")
	limit := 50
	if r.URL.Query().Has("limit") {
		limit = r.positive("limit")
	}
	out := []codersdk.ProvisionerJob{}
	for _, j := range slices.Backward(s.jobs) {
		if j.orgID == org.ID && (all || slices.Contains(wanted, string(j.status))) && (limit == 0 || len(out) < limit) {
			out = append(out, s.jobSDK(j))
		}
	}
	r.write(http.StatusOK, out)
}

// jobSDK is a job with what only the list of jobs has.
func (s *Server) jobSDK(j *job) codersdk.ProvisionerJob {
	out := j.sdk()
	if v := s.versionByID(j.versionID); v != nil {
		out.Metadata.TemplateVersionName, out.Metadata.TemplateID = v.name, v.template
		if t := s.templateByID(v.template); t != nil {
			out.Metadata.TemplateName = t.Name
		}
	}
	if j.workspace != nil {
		out.Metadata.WorkspaceID, out.Metadata.WorkspaceName = &j.workspace.id, j.workspace.name
	}
	return out
}

// cancel ends a job that waits, and asks one that runs to end.
func (s *Server) cancel(r *request, j *job) {
	switch {
	case j.completedAt != nil:
		refuse(http.StatusBadRequest, "Job has already completed!")
	case j.canceledAt != nil:
		refuse(http.StatusBadRequest, "Job has already been marked as canceled!")
	}
	now := s.now()
	j.canceledAt = &now
	if j.status == codersdk.ProvisionerJobPending {
		j.status, j.completedAt, j.silent = codersdk.ProvisionerJobCanceled, &now, true
		s.queued = slices.DeleteFunc(s.queued, func(other *job) bool { return other == j })
	} else {
		j.status = codersdk.ProvisionerJobCanceling
	}
	s.index.order = nil
	r.write(http.StatusOK, codersdk.Response{Message: "Job has been marked as canceled..."})
}

// tagsOf are the tags of a job as Coder completes them.
func tagsOf(user uuid.UUID, given map[string]string) map[string]string {
	tags := maps.Clone(given)
	if tags == nil {
		tags = map[string]string{}
	}
	if tags["scope"] == "user" {
		tags["owner"] = user.String()
	} else {
		tags["scope"], tags["owner"] = "organization", ""
	}
	return tags
}

// matching counts the provisioners that may take a job.
func (s *Server) matching(j *job) int {
	if len(s.daemons) == 0 {
		if len(j.tags) > 2 {
			return 0
		}
		return builtInProvisioners
	}
	n := 0
	for _, d := range s.daemons {
		tags := tagsOf(uuid.Nil, d.tags)
		missing := func(name string) bool { return cmp.Compare(tags[name], j.tags[name]) != 0 }
		if d.orgID == j.orgID && !slices.ContainsFunc(slices.Collect(maps.Keys(j.tags)), missing) {
			n++
		}
	}
	return n
}

func (s *Server) matchedSDK(j *job) *codersdk.MatchedProvisioners {
	n := s.matching(j)
	out := &codersdk.MatchedProvisioners{Count: n, Available: n}
	if n > 0 {
		out.MostRecentlySeen = codersdk.NewNullTime(s.clock.Now(), true)
	}
	return out
}
