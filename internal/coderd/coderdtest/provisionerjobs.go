package coderdtest

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

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
