package coderdtest

import (
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"k8s.io/utils/ptr"

	"github.com/coder/coder/v2/codersdk"
)

type version struct {
	codersdk.TemplateVersion
	template uuid.UUID
	content  content
	job      *job
}

// AddTemplateVersion adds a version of a template that has already been built and is not active.
func (s *Server) AddTemplateVersion(template uuid.UUID, message string, files map[string]string) uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.templateByID(template)
	if t == nil {
		return uuid.Nil
	}
	v := s.seedVersion(t.OrganizationID, files)
	v.template, v.Message = template, message
	return v.ID
}

// VersionCount returns the number of versions, with or without a template.
func (s *Server) VersionCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.versions)
}

func (s *Server) seedVersion(orgID uuid.UUID, files map[string]string) *version {
	f, _ := s.insertFile(uuid.Nil, packTar(files))
	v := s.insertVersion(&version{job: s.done(f.id, orgID, uuid.Nil), content: readContent(f.data)})
	v.OrganizationID, v.job.versionID, v.job.Input.TemplateVersionID = orgID, v.ID, &v.ID
	return v
}

func (s *Server) insertVersion(v *version) *version {
	s.counter++
	v.ID, v.Name, v.CreatedAt = uuid.New(), fmt.Sprintf("tender_version%d", s.counter), s.now()
	v.UpdatedAt = v.CreatedAt
	s.versions = append(s.versions, v)
	s.index.versions[v.ID] = v
	return v
}

func (s *Server) pathVersion(r *request) *version {
	v := found(s.index.versions[r.id("version")])
	if t := s.index.templates[v.template]; t != nil && !r.user.seesTemplate(t) {
		notFound()
	}
	return v
}

func (v *version) sdk() codersdk.TemplateVersion {
	out := v.TemplateVersion
	out.TemplateID, out.Job = ptr.To(v.template), v.job.ProvisionerJob
	return out
}

func (s *Server) postVersion(r *request) {
	org := s.pathOrganization(r)
	r.needsRole("owner", "template-admin")
	body := read[codersdk.CreateTemplateVersionRequest](r)
	var v validation
	v.check(body.Name == "" || codersdk.TemplateVersionNameValid(body.Name) == nil, "name", "template_version_name", body.Name)
	v.check(utf8.RuneCountInString(body.Message) < 1048577, "message", "lt", body.Message)
	v.check(body.StorageMethod == codersdk.ProvisionerStorageMethodFile, "storage_method", "oneof", body.StorageMethod)
	v.check(body.FileID != uuid.Nil || body.ExampleID != "", "file_id", "required_without", body.FileID)
	v.check(body.Provisioner == codersdk.ProvisionerTypeTerraform || body.Provisioner == codersdk.ProvisionerTypeEcho, "provisioner", "oneof", body.Provisioner)
	v.refuse()
	name, file := "", s.index.files[body.FileID]
	if body.TemplateID != uuid.Nil {
		t := s.templateByID(body.TemplateID)
		if t == nil {
			refuse(http.StatusNotFound, "Template does not exist.")
		}
		name = t.Name
	}
	if file == nil {
		refuse(http.StatusNotFound, "File not found.")
	}
	if body.Name != "" && body.TemplateID != uuid.Nil && s.versionNamed(body.TemplateID, body.Name) != nil {
		taken(fmt.Sprintf("A template version with name %q already exists for this template.", body.Name))
	}
	added := s.insertVersion(&version{template: body.TemplateID, content: readContent(file.data)})
	added.OrganizationID, added.Message, added.CreatedBy = org.ID, body.Message, r.user.MinimalUser
	if body.Name != "" {
		added.Name = body.Name
	}
	missing := added.content.fill(body.UserVariableValues)
	added.job = s.enqueue(r, name, job{versionID: added.ID, ProvisionerJob: codersdk.ProvisionerJob{
		FileID: body.FileID, OrganizationID: org.ID, Tags: tagsOf(r.user.ID, body.ProvisionerTags),
		Type: codersdk.ProvisionerJobTypeTemplateVersionImport, Input: codersdk.ProvisionerJobInput{TemplateVersionID: &added.ID},
	}})
	if len(missing) > 0 {
		added.job.result.Error = "update job: required template variables need values: " + strings.Join(missing, ", ")
		added.job.failureCode = codersdk.RequiredTemplateVariables
	}
	if problem := file.problem(); problem != "" {
		added.job.result.Error = problem
	}
	out := added.sdk()
	out.MatchedProvisioners = s.matchedSDK(added.job)
	r.write(http.StatusCreated, out)
}

func (s *Server) getVersions(r *request) {
	t := s.pathTemplate(r)
	query := r.URL.Query()
	limit, skipping := r.positive("limit"), query.Get("after_id")
	out := []codersdk.TemplateVersion{}
	for _, v := range s.versions {
		switch {
		case v.ID.String() == skipping:
			skipping = ""
		case skipping != "" || v.template != t.ID || v.Archived && query.Get("include_archived") != "true":
		case limit == 0 || len(out) < limit:
			out = append(out, v.sdk())
		}
	}
	r.write(http.StatusOK, out)
}

func (s *Server) patchActiveVersion(r *request) {
	t := s.pathTemplate(r)
	r.needsRole("owner", "template-admin")
	body := read[codersdk.UpdateActiveTemplateVersion](r)
	v := s.index.versions[body.ID]
	switch {
	case v == nil:
		refuse(http.StatusNotFound, "Template version not found.")
	case v.template != t.ID:
		refuse(http.StatusBadRequest, "The provided template version doesn't belong to the specified template.")
	case v.job.Status != codersdk.ProvisionerJobSucceeded:
		refuseDetailed(http.StatusForbidden, "Only versions that have been built successfully can be promoted.",
			fmt.Sprintf("Attempted to promote a version with a %s build", v.job.Status))
	case v.Archived:
		refuse(http.StatusBadRequest, "The provided template version is archived.")
	}
	t.ActiveVersionID, t.UpdatedAt = body.ID, s.now()
	r.write(http.StatusOK, codersdk.Response{Message: "Updated the active template version!"})
}
