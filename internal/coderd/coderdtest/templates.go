package coderdtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

type template struct {
	codersdk.Template
	deleted bool
	// externalAuth is the external provider to which owners must have signed in.
	externalAuth string
	// restricted is whether members may not use it.
	restricted bool
}

// AddTemplate adds a template with files that have already been built.
func (s *Server) AddTemplate(organization, name string, files map[string]string) uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	org := s.organizationNamed(organization)
	if org == nil {
		return uuid.Nil
	}
	v := s.seedVersion(org.ID, files)
	return s.insertTemplate(org, codersdk.Template{Name: name}, v).ID
}

// PatchTemplate changes fields of a template directly, by their names in Coder's API, for example
// default_ttl_ms or deprecated.
func (s *Server) PatchTemplate(t testing.TB, id uuid.UUID, fields map[string]any) {
	t.Helper()
	data, err := json.Marshal(fields)
	if err != nil {
		t.Fatalf("fields of template %s: %v", id, err)
	}
	if s.real != nil {
		s.real.patchTemplate(id, data)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.templateByID(id)
	if found == nil {
		t.Fatalf("there is no template %s", id)
	}
	if err := json.Unmarshal(data, &found.Template); err != nil {
		t.Fatalf("fields of template %s: %v", id, err)
	}
	found.UpdatedAt = s.now()
}

// TemplateFields returns the fields of a template by their names in Coder's API. It returns nil if
// there is no such template.
func (s *Server) TemplateFields(id uuid.UUID) (fields map[string]any) {
	s.changeTemplate(id, func(t *template) { fields, _ = plain(t.Template).(map[string]any) })
	return fields
}

// RequireExternalAuth makes a template require an external provider to which no user has signed in.
func (s *Server) RequireExternalAuth(id uuid.UUID, provider string) {
	s.changeTemplate(id, func(t *template) { t.externalAuth = provider })
}

// DeleteTemplate deletes a template but not its workspaces, which is not possible through the API.
func (s *Server) DeleteTemplate(id uuid.UUID) {
	s.changeTemplate(id, func(t *template) { t.deleted = true })
}

// RestrictTemplate takes the permission to use a template from all members, or gives it back.
func (s *Server) RestrictTemplate(id uuid.UUID, restricted bool) {
	s.changeTemplate(id, func(t *template) { t.restricted = restricted })
}

// changeTemplate calls f with a template, if there is one.
func (s *Server) changeTemplate(id uuid.UUID, f func(*template)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.templateByID(id); t != nil {
		f(t)
	}
}

func (s *Server) insertTemplate(org *codersdk.Organization, t codersdk.Template, v *version) *template {
	now := s.now()
	t.ID, t.CreatedAt, t.UpdatedAt = uuid.New(), now, now
	t.OrganizationID, t.OrganizationName, t.OrganizationDisplayName = org.ID, org.Name, org.DisplayName
	t.Provisioner = codersdk.ProvisionerTypeTerraform
	t.ActiveVersionID = v.ID
	t.BuildTimeStats = codersdk.TemplateBuildTimeStats{}
	t.ActiveUserCount = -1
	t.ActivityBumpMillis = 3600000
	t.AutostopRequirement = codersdk.TemplateAutostopRequirement{DaysOfWeek: []string{}, Weeks: 1}
	t.AutostartRequirement = codersdk.TemplateAutostartRequirement{DaysOfWeek: slices.Clone(codersdk.AllDaysOfWeek)}
	t.AllowUserAutostart, t.AllowUserAutostop = true, true
	t.MaxPortShareLevel = codersdk.WorkspaceAgentPortShareLevelPublic
	t.CORSBehavior = codersdk.CORSBehaviorSimple
	v.template = t.ID
	added := &template{Template: t}
	s.templates = append(s.templates, added)
	s.index.templates[t.ID] = added
	return added
}

func (s *Server) templateByID(id uuid.UUID) *template {
	if t := s.index.templates[id]; t != nil && !t.deleted {
		return t
	}
	return nil
}

func (s *Server) templateNamed(orgID uuid.UUID, name string) *template {
	return first(s.templates, func(t *template) bool {
		return t.OrganizationID == orgID && strings.EqualFold(t.Name, name) && !t.deleted
	})
}

func (s *Server) pathTemplate(r *request) *template {
	return r.seen(s.templateByID(r.id("template")))
}

// seen returns the template, or refuses the request if the user may not see it.
func (r *request) seen(t *template) *template {
	if t == nil || !r.user.seesTemplate(t) {
		notFound()
	}
	return t
}

func (s *Server) getTemplateByName(r *request) {
	r.write(http.StatusOK, r.seen(s.templateNamed(s.pathOrganization(r).ID, r.PathValue("name"))).Template)
}

func (s *Server) getTemplates(r *request) {
	deprecated := false
	switch q := r.URL.Query().Get("q"); q {
	case "", "deprecated:false":
	case "deprecated:true":
		deprecated = true
	default:
		refuse(http.StatusBadRequest, "Invalid template search query.",
			codersdk.ValidationError{Field: "q", Detail: fmt.Sprintf("the server for tests does not know the query %q", q)})
	}
	out := []codersdk.Template{}
	for _, t := range s.templates {
		if !t.deleted && t.Deprecated == deprecated && r.user.seesTemplate(t) {
			out = append(out, t.Template)
		}
	}
	slices.SortFunc(out, func(a, b codersdk.Template) int { return strings.Compare(a.Name, b.Name) })
	r.write(http.StatusOK, out)
}

func (s *Server) postTemplate(r *request) {
	org := s.pathOrganization(r)
	r.needsRole("owner", "template-admin")
	body := read[codersdk.CreateTemplateRequest](r)
	var v validation
	v.name("name", "template_name", body.Name)
	v.check(codersdk.DisplayNameValid(body.DisplayName) == nil, "display_name", "template_display_name", body.DisplayName)
	v.check(utf8.RuneCountInString(body.Description) < 128, "description", "lt", body.Description)
	v.check(body.VersionID != uuid.Nil, "template_version_id", "required", body.VersionID)
	v.refuse()
	s.checkNewPolicy(body)
	if s.templateNamed(org.ID, body.Name) != nil {
		taken(fmt.Sprintf("Template with name %q already exists.", body.Name))
	}
	initial := s.index.versions[body.VersionID]
	if initial == nil {
		refuse(http.StatusNotFound, fmt.Sprintf("Template version %q does not exist.", body.VersionID),
			codersdk.ValidationError{Field: "template_version_id", Detail: "Template version does not exist"})
	}
	if initial.Archived {
		refuse(http.StatusBadRequest, fmt.Sprintf("Template version %s is archived.", body.VersionID),
			codersdk.ValidationError{Field: "template_version_id", Detail: "Template version is archived"})
	}
	if initial.template != uuid.Nil {
		refuse(http.StatusBadRequest, fmt.Sprintf("Template version %s is already part of a template", body.VersionID),
			codersdk.ValidationError{Field: "template_version_id", Detail: "Template version is already part of a template"})
	}
	t := s.insertTemplate(org, codersdk.Template{
		Name: body.Name, DisplayName: body.DisplayName, Description: body.Description, Icon: body.Icon,
		CreatedByID: r.user.ID, CreatedByName: r.user.Username,
	}, initial)
	keep(&t.DefaultTTLMillis, body.DefaultTTLMillis)
	keep(&t.ActivityBumpMillis, body.ActivityBumpMillis)
	keep(&t.AllowUserCancelWorkspaceJobs, body.AllowUserCancelWorkspaceJobs)
	keep(&t.UseClassicParameterFlow, body.UseClassicParameterFlow)
	keep(&t.CORSBehavior, body.CORSBehavior)
	r.write(http.StatusCreated, t.Template)
}

func (s *Server) deleteTemplate(r *request) {
	t := s.pathTemplate(r)
	r.needsRole("owner", "template-admin")
	for _, w := range s.index.names {
		if w.template == t {
			refuse(http.StatusBadRequest, "All workspaces must be deleted before a template can be removed.")
		}
	}
	t.deleted = true
	r.write(http.StatusOK, codersdk.Response{Message: "Template has been deleted!"})
}
