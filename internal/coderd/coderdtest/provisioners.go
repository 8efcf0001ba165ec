package coderdtest

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
	"k8s.io/utils/ptr"
)

// AddProvisionerDaemon registers a provisioner with the named key of an organization. An empty key
// means one of Coder's built-in provisioners. It returns uuid.Nil if there is no such organization
// or key.
func (s *Server) AddProvisionerDaemon(organization, key, name string) uuid.UUID {
	if s.real != nil {
		return s.real.addProvisionerDaemon(organization, key, name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	org := s.organizationNamed(organization)
	if org == nil {
		return uuid.Nil
	}
	d := &codersdk.ProvisionerDaemon{
		ID: uuid.New(), OrganizationID: org.ID, Name: name, Version: string(s.release), CreatedAt: s.now(),
		KeyID: codersdk.ProvisionerKeyUUIDBuiltIn, KeyName: ptr.To(codersdk.ProvisionerKeyNameBuiltIn),
		Provisioners: []codersdk.ProvisionerType{codersdk.ProvisionerTypeTerraform}, Status: ptr.To(codersdk.ProvisionerDaemonIdle),
	}
	if key != "" {
		k := s.keyNamed(org.ID, key)
		if k == nil {
			return uuid.Nil
		}
		d.KeyID, d.KeyName, d.Tags = k.ID, &k.Name, k.Tags
	}
	s.daemons = append(s.daemons, d)
	return d.ID
}

func (s *Server) getDaemons(r *request) {
	org := s.pathOrganization(r)
	if !r.mayProvision() {
		notFound()
	}
	limit := r.limit()
	out := []codersdk.ProvisionerDaemon{}
	for _, d := range slices.Backward(s.daemons) {
		if d.OrganizationID == org.ID && (limit == 0 || len(out) < limit) {
			out = append(out, *d)
			out[len(out)-1].LastSeenAt = codersdk.NewNullTime(s.clock.Now(), true)
		}
	}
	r.write(http.StatusOK, out)
}

// limit returns the number of items that the client wants: 50 by default, and 0 for all.
func (r *request) limit() int {
	if !r.URL.Query().Has("limit") {
		return 50
	}
	return r.positive("limit")
}

// builtInProvisioners is how many Coder has of its own. A server that was given no
// provisioner has them.
const builtInProvisioners = 3

// getJobs lists jobs, the newest first. Those of the state that a test begins with are not
// among them.
func (s *Server) getJobs(r *request) {
	org := s.pathOrganization(r)
	if !r.mayProvision() && !r.user.in(org.ID, "organization-admin", "organization-template-admin") {
		notFound()
	}
	all := r.URL.Query().Get("status") == ""
	wanted := strings.Split(r.URL.Query().Get("status"), ",")
	limit := r.limit()
	out := []codersdk.ProvisionerJob{}
	for _, j := range slices.Backward(s.jobs) {
		if j.OrganizationID == org.ID && (all || slices.Contains(wanted, string(j.Status))) && (limit == 0 || len(out) < limit) {
			out = append(out, s.jobSDK(j))
		}
	}
	r.write(http.StatusOK, out)
}

// jobSDK is a job with what only the list of jobs has.
func (s *Server) jobSDK(j *job) codersdk.ProvisionerJob {
	out := j.ProvisionerJob
	if v := s.index.versions[j.versionID]; v != nil {
		out.Metadata.TemplateVersionName, out.Metadata.TemplateID = v.Name, v.template
		if t := s.templateByID(v.template); t != nil {
			out.Metadata.TemplateName = t.Name
		}
	}
	if j.workspace != nil {
		out.Metadata.WorkspaceID, out.Metadata.WorkspaceName = &j.workspace.ID, j.workspace.Name
	}
	return out
}

func (s *Server) checkCancel(j *job) {
	switch {
	case j.CompletedAt != nil:
		refuse(http.StatusBadRequest, "Job has already completed!")
	case j.CanceledAt != nil:
		refuse(http.StatusBadRequest, "Job has already been marked as canceled!")
	}
}

// cancel ends a job that waits, and asks one that runs to end.
func (s *Server) cancel(r *request, j *job) {
	s.checkCancel(j)
	now := s.now()
	j.CanceledAt = &now
	if j.Status == codersdk.ProvisionerJobPending {
		j.Status, j.CompletedAt, j.silent = codersdk.ProvisionerJobCanceled, &now, true
		s.queued = slices.DeleteFunc(s.queued, func(other *job) bool { return other == j })
	} else {
		j.Status = codersdk.ProvisionerJobCanceling
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

// RequireTags makes the builds of workspaces from the active version of a template need a
// provisioner with these tags.
func (s *Server) RequireTags(template uuid.UUID, tags map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.index.versions[s.templateByID(template).ActiveVersionID].job
	j.Tags = tagsOf(j.InitiatorID, tags)
}

// matching counts the provisioners that may take a job.
func (s *Server) matching(j *job) int {
	if len(s.daemons) == 0 {
		if len(j.Tags) > 2 {
			return 0
		}
		return builtInProvisioners
	}
	n := 0
	for _, d := range s.daemons {
		tags := tagsOf(uuid.Nil, d.Tags)
		missing := func(name string) bool { return cmp.Compare(tags[name], j.Tags[name]) != 0 }
		if d.OrganizationID == j.OrganizationID && !slices.ContainsFunc(slices.Collect(maps.Keys(j.Tags)), missing) {
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
