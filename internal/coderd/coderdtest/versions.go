package coderdtest

import (
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

type version struct {
	id        uuid.UUID
	template  uuid.UUID
	orgID     uuid.UUID
	name      string
	message   string
	job       *job
	createdBy *user
	createdAt time.Time
	updatedAt time.Time
}

// AddTemplateVersion makes a version of a template that has been built and is
// not the active one.
func (s *Server) AddTemplateVersion(template uuid.UUID, message string, files map[string]string) uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.templateByID(template)
	if t == nil {
		return uuid.Nil
	}
	v := s.seedVersion(t.OrganizationID, files)
	v.template, v.message = template, message
	return v.id
}

// VersionCount is how many versions there are, of templates and of none.
func (s *Server) VersionCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.versions)
}

func (s *Server) seedVersion(orgID uuid.UUID, files map[string]string) *version {
	f, _ := s.insertFile(uuid.Nil, packTar(files))
	v := &version{orgID: orgID, job: s.done(f.id, orgID, uuid.Nil)}
	return s.insertVersion(v)
}

func (s *Server) insertVersion(v *version) *version {
	s.counter++
	v.id, v.name, v.createdAt = uuid.New(), fmt.Sprintf("tender_version%d", s.counter), s.now()
	v.updatedAt = v.createdAt
	s.versions = append(s.versions, v)
	return v
}

func (s *Server) versionByID(id uuid.UUID) *version {
	for _, v := range s.versions {
		if v.id == id {
			return v
		}
	}
	return nil
}

func (s *Server) pathVersion(r *request) *version {
	v := s.versionByID(r.id("version"))
	if v == nil {
		notFound()
	}
	return v
}

func (v *version) sdk() codersdk.TemplateVersion {
	templateID := v.template
	out := codersdk.TemplateVersion{
		ID:             v.id,
		TemplateID:     &templateID,
		OrganizationID: v.orgID,
		CreatedAt:      v.createdAt,
		UpdatedAt:      v.updatedAt,
		Name:           v.name,
		Message:        v.message,
		Job:            v.job.sdk(),
	}
	if v.createdBy != nil {
		out.CreatedBy = codersdk.MinimalUser{ID: v.createdBy.id, Username: v.createdBy.username, Name: v.createdBy.name}
	}
	return out
}

func (s *Server) routeVersions(closed route) {
	closed("POST /api/v2/organizations/{organization}/templateversions", s.postVersion)
	closed("GET /api/v2/templateversions/{version}", func(r *request) { r.write(http.StatusOK, s.pathVersion(r).sdk()) })
	closed("PATCH /api/v2/templateversions/{version}", s.patchVersion)
	closed("GET /api/v2/templates/{template}/versions", s.getVersions)
	closed("PATCH /api/v2/templates/{template}/versions", s.patchActiveVersion)
}

func (s *Server) postVersion(r *request) {
	org := s.pathOrganization(r)
	var body codersdk.CreateTemplateVersionRequest
	r.read(&body)
	var v validation
	v.check(body.Name == "" || codersdk.TemplateVersionNameValid(body.Name) == nil, "name", "template_version_name", body.Name)
	v.check(len(body.Message) < 1048577, "message", "lt", body.Message)
	v.check(body.StorageMethod == codersdk.ProvisionerStorageMethodFile, "storage_method", "oneof", body.StorageMethod)
	v.check(body.FileID != uuid.Nil || body.ExampleID != "", "file_id", "required_without", body.FileID)
	v.check(body.Provisioner == codersdk.ProvisionerTypeTerraform || body.Provisioner == codersdk.ProvisionerTypeEcho, "provisioner", "oneof", body.Provisioner)
	v.refuse()
	name := ""
	if body.TemplateID != uuid.Nil {
		t := s.templateByID(body.TemplateID)
		if t == nil {
			refuse(http.StatusNotFound, "Template does not exist.")
		}
		name = t.Name
	}
	if s.fileByID(body.FileID) == nil {
		refuse(http.StatusNotFound, "File not found.")
	}
	r.needsRole("owner", "template-admin")
	added := s.insertVersion(&version{template: body.TemplateID, orgID: org.ID, message: body.Message, createdBy: r.user})
	if body.Name != "" {
		added.name = body.Name
	}
	added.job = s.enqueue(r, name, job{fileID: body.FileID, orgID: org.ID})
	if problem := s.fileByID(body.FileID).problem(); problem != "" {
		added.job.result.Error = problem
	}
	r.write(http.StatusCreated, added.sdk())
}

func (s *Server) patchVersion(r *request) {
	v := s.pathVersion(r)
	r.needsRole("owner", "template-admin")
	var body codersdk.PatchTemplateVersionRequest
	r.read(&body)
	if body.Name != "" {
		v.name = body.Name
	}
	if body.Message != nil {
		v.message = *body.Message
	}
	v.updatedAt = s.now()
	r.write(http.StatusOK, v.sdk())
}

func (s *Server) getVersions(r *request) {
	t := s.pathTemplate(r)
	out := []codersdk.TemplateVersion{}
	for _, v := range s.versions {
		if v.template == t.ID {
			out = append(out, v.sdk())
		}
	}
	r.write(http.StatusOK, out)
}

func (s *Server) patchActiveVersion(r *request) {
	t := s.pathTemplate(r)
	r.needsRole("owner", "template-admin")
	var body codersdk.UpdateActiveTemplateVersion
	r.read(&body)
	v := s.versionByID(body.ID)
	switch {
	case v == nil:
		refuse(http.StatusNotFound, "Template version not found.")
	case v.template != t.ID:
		refuse(http.StatusBadRequest, "The provided template version doesn't belong to the specified template.")
	case v.job.status != codersdk.ProvisionerJobSucceeded:
		refuseDetailed(http.StatusForbidden, "Only versions that have been built successfully can be promoted.",
			fmt.Sprintf("Attempted to promote a version with a %s build", v.job.status))
	}
	t.ActiveVersionID, t.UpdatedAt = body.ID, s.now()
	r.write(http.StatusOK, codersdk.Response{Message: "Updated the active template version!"})
}
