package coderdtest

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

type workspace struct {
	codersdk.Workspace
	sortKey  string
	owner    *user
	template *template
	builds   []*build
	agents   []Agent
	deleted  bool
	// users and groups are those that the workspace is shared with.
	users, groups map[uuid.UUID]codersdk.WorkspaceRole
}

func (w *workspace) latest() *build { return w.builds[len(w.builds)-1] }

func (s *Server) workspaceNamed(owner *user, name string) *workspace {
	return s.index.names[workspaceName{owner, strings.ToLower(name)}]
}

// pathWorkspace returns the workspace in the path, deleted or not.
func (s *Server) pathWorkspace(r *request) *workspace {
	return r.visible(s.index.workspaces[r.id("workspace")])
}

// visible returns the workspace, or refuses the request if the user may not see it.
func (r *request) visible(w *workspace) *workspace {
	if w == nil || !r.user.seesWorkspace(w) {
		notFound()
	}
	return w
}

// build returns the build with an id, or nil.
func (w *workspace) build(id uuid.UUID) *build {
	return first(w.builds, func(b *build) bool { return b.ID == id })
}

func (s *Server) getWorkspace(r *request) {
	w := s.pathWorkspace(r)
	if w.deleted {
		parameter := "deleted"
		if s.has(namesIncludeDeleted) {
			parameter = "include_deleted"
		}
		refuse(http.StatusGone, fmt.Sprintf("Workspace %q was deleted, you can view this workspace by specifying '?%s=true' and trying again.", w.ID, parameter))
	}
	r.write(http.StatusOK, s.workspaceSDK(w))
}

func (s *Server) getWorkspaceByName(r *request) {
	r.write(http.StatusOK, s.workspaceSDK(r.visible(s.workspaceNamed(s.pathUser(r), r.PathValue("name")))))
}

// getWorkspaces returns a page in Coder's order.
func (s *Server) getWorkspaces(r *request) {
	limit, offset := r.positive("limit"), r.positive("offset")
	visible := s.searched(r)
	page := visible[min(offset, len(visible)):]
	if limit > 0 {
		page = page[:min(limit, len(page))]
	}
	out := codersdk.WorkspacesResponse{Workspaces: make([]codersdk.Workspace, 0, len(page)), Count: len(visible)}
	for _, w := range page {
		out.Workspaces = append(out.Workspaces, s.workspaceSDK(w))
	}
	r.write(http.StatusOK, out)
}

// searched returns the workspaces that match the query. It supports only some terms of Coder's query
// language.
func (s *Server) searched(r *request) []*workspace {
	all := s.ordered()
	switch q := r.URL.Query().Get("q"); {
	case q == "":
	case !strings.HasPrefix(q, "id:"):
		all = slices.DeleteFunc(slices.Clone(all), func(w *workspace) bool { return !w.matches(q) })
	default:
		all = nil
		for id := range r.ids(q) {
			if w := s.index.workspaces[id]; w != nil && !w.deleted {
				all = append(all, w)
			}
		}
		slices.SortFunc(all, compareWorkspaces)
	}
	if r.user.seesAll(codersdk.ResourceWorkspace) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(w *workspace) bool { return !r.user.seesWorkspace(w) })
}

// matches reports whether a workspace matches all terms.
func (w *workspace) matches(q string) bool {
	for term := range strings.FieldsSeq(q) {
		key, value, _ := strings.Cut(term, ":")
		matches := false
		switch key {
		case "has-agent":
			matches = w.hasAgent(value)
		case "owner":
			matches = strings.EqualFold(w.owner.Username, value)
		case "template":
			matches = strings.EqualFold(w.template.Name, value)
		case "organization":
			matches = strings.EqualFold(w.template.OrganizationName, value)
		default:
			refuse(http.StatusBadRequest, "Invalid workspace search query.",
				codersdk.ValidationError{Field: key, Detail: fmt.Sprintf("the server for tests does not know the query %q", q)})
		}
		if !matches {
			return false
		}
	}
	return true
}

func (r *request) ids(q string) map[uuid.UUID]bool {
	wrong := func(detail string) {
		refuse(http.StatusBadRequest, "Invalid workspace search query.", codersdk.ValidationError{Field: "id", Detail: detail})
	}
	list := strings.TrimPrefix(q, "id:")
	if strings.Contains(list, " ") {
		wrong(fmt.Sprintf("the server for tests does not know the query %q", q))
	}
	wanted := map[uuid.UUID]bool{}
	for word := range strings.SplitSeq(list, ",") {
		id, err := uuid.Parse(word)
		if err != nil {
			wrong(fmt.Sprintf("Query param %q has invalid values: %v", "id", err))
		}
		wanted[id] = true
	}
	return wanted
}

// hasAgent reports whether a started workspace has an agent with the given status.
func (w *workspace) hasAgent(status string) bool {
	return w.latest().Transition == codersdk.WorkspaceTransitionStart &&
		slices.ContainsFunc(w.agents, func(a Agent) bool { return string(a.Status) == status })
}

func (w *workspace) rank() int {
	if b := w.latest(); b.Transition == codersdk.WorkspaceTransitionStart && b.job.Status == codersdk.ProvisionerJobSucceeded {
		return 1
	}
	return 0
}

func (r *request) positive(name string) int {
	value := r.URL.Query().Get(name)
	if value == "" {
		return 0
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		refuse(http.StatusBadRequest, "Query parameters have invalid values.",
			codersdk.ValidationError{Field: name, Detail: fmt.Sprintf("Query param %q must be a valid 32-bit positive integer (%q)", name, value)})
	}
	return n
}

func (s *Server) postWorkspace(r *request) {
	owner := s.userNamed(r.PathValue("user"))
	if id, err := uuid.Parse(r.PathValue("user")); err == nil {
		owner = s.index.users[id]
	}
	if owner == nil {
		owner = s.pathUser(r)
	}
	if owner != r.user && !r.user.has("owner") {
		refuse(http.StatusForbidden, "Unauthorized to create workspace.")
	}
	body := read[codersdk.CreateWorkspaceRequest](r)
	var v validation
	v.check((body.TemplateID == uuid.Nil) != (body.TemplateVersionID == uuid.Nil), "template_id", "required_without", body.TemplateID)
	v.name("name", "workspace_name", body.Name)
	v.refuse()
	t, first := s.templateOf(body)
	if t.Deprecated {
		refuseDetailed(http.StatusBadRequest,
			fmt.Sprintf("Template %q has been deprecated, and cannot be used to create a new workspace.", t.Name), t.DeprecationMessage)
	}
	if provider := t.externalAuth; provider != "" && s.has(needsExternalAuth) {
		refuse(http.StatusForbidden, "The workspace owner must authenticate with the external providers of the template.",
			codersdk.ValidationError{Field: "external_auth", Detail: fmt.Sprintf("external authentication %q is required", provider)})
	}
	if problem := scheduleProblem(body.AutostartSchedule); problem != "" {
		refuse(http.StatusBadRequest, "Invalid Autostart Schedule.", codersdk.ValidationError{Field: "schedule", Detail: problem})
	}
	ttl, problem := wholeMinutes(body.TTLMillis, t.DefaultTTLMillis)
	if problem != "" {
		refuse(http.StatusBadRequest, "Invalid Workspace Time to Shutdown.", codersdk.ValidationError{Field: "ttl_ms", Detail: problem})
	}
	updates := cmp.Or(body.AutomaticUpdates, codersdk.AutomaticUpdatesNever)
	if !validUpdates(updates) {
		refuse(http.StatusBadRequest, "Invalid Workspace Automatic Updates setting.",
			codersdk.ValidationError{Field: "automatic_updates", Detail: "Automatic updates must be always or never"})
	}
	if s.workspaceNamed(owner, body.Name) != nil {
		taken(fmt.Sprintf("Workspace %q already exists.", body.Name))
	}
	checkImported(first)
	parameters, preset := s.resolve(t, first, nil, body.TemplateVersionPresetID, body.RichParameterValues)
	w := s.prebuilt(t, preset)
	if w != nil {
		s.moveWorkspace(w, owner, body.Name)
	} else {
		w = &workspace{owner: owner, template: t}
		w.Name, w.AutomaticUpdates = body.Name, updates
		s.insertWorkspace(w)
	}
	w.TTLMillis = ttl
	if body.AutostartSchedule != nil && *body.AutostartSchedule != "" {
		w.AutostartSchedule = body.AutostartSchedule
	}
	s.startBuild(r, w, newBuild(codersdk.WorkspaceTransitionStart, first.ID, parameters, preset))
	r.write(http.StatusCreated, s.workspaceSDK(w))
}

// prebuilt returns a running workspace that Coder built in advance for a preset, or nil. Coder transfers
// it to the next user who creates such a workspace.
func (s *Server) prebuilt(t *template, preset uuid.UUID) *workspace {
	owner := s.userNamed(prebuilds)
	if owner == nil {
		return nil
	}
	return first(s.ordered(), func(w *workspace) bool {
		return w.owner == owner && w.template == t && w.latest().preset == preset && w.rank() == 1
	})
}

// templateOf returns the template and the version of a new workspace.
func (s *Server) templateOf(body codersdk.CreateWorkspaceRequest) (*template, *version) {
	templateID := body.TemplateID
	if templateID == uuid.Nil {
		v := s.index.versions[body.TemplateVersionID]
		if v == nil {
			refuse(http.StatusBadRequest, fmt.Sprintf("Template version %q doesn't exist.", body.TemplateVersionID),
				codersdk.ValidationError{Field: "template_version_id", Detail: "template not found"})
		}
		if v.Archived {
			refuse(http.StatusInternalServerError, "Archived template versions cannot be used to make a workspace.",
				codersdk.ValidationError{Field: "template_version_id", Detail: "template version archived"})
		}
		templateID = v.template
	}
	if t := s.index.templates[templateID]; t != nil && t.deleted {
		refuse(http.StatusNotFound, fmt.Sprintf("Template %q has been deleted!", t.Name))
	}
	t := s.templateByID(templateID)
	if t == nil {
		refuse(http.StatusBadRequest, fmt.Sprintf("Template %q doesn't exist.", templateID),
			codersdk.ValidationError{Field: "template_id", Detail: "template not found"})
	}
	versionID := body.TemplateVersionID
	if versionID == uuid.Nil {
		versionID = t.ActiveVersionID
	}
	return t, s.index.versions[versionID]
}

func (s *Server) workspaceSDK(w *workspace) codersdk.Workspace {
	t, out := w.template, w.Workspace
	out.OwnerID, out.OwnerName = w.owner.ID, w.owner.Username
	out.OrganizationID, out.OrganizationName = t.OrganizationID, t.OrganizationName
	out.TemplateID, out.TemplateName, out.TemplateDisplayName, out.TemplateIcon = t.ID, t.Name, t.DisplayName, t.Icon
	out.TemplateActiveVersionID, out.TemplateAllowUserCancelWorkspaceJobs = t.ActiveVersionID, t.AllowUserCancelWorkspaceJobs
	out.TemplateRequireActiveVersion = t.RequireActiveVersion
	out.TemplateUseClassicParameterFlow = t.UseClassicParameterFlow
	out.LatestBuild = s.buildSDK(w, w.latest())
	out.Outdated = out.LatestBuild.TemplateVersionID != t.ActiveVersionID
	out.Health = codersdk.WorkspaceHealth{Healthy: true, FailingAgents: []uuid.UUID{}}
	out.SharedWith = s.sharedWith(w)
	for _, a := range w.agents {
		if !s.agentSDK(w.latest().ID, a).Health.Healthy {
			out.Health.Healthy = false
		}
	}
	return out
}
