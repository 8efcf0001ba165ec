package coderdtest

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

type workspace struct {
	id         uuid.UUID
	name       string
	owner      *user
	template   *template
	createdAt  time.Time
	lastUsedAt time.Time
	dormantAt  *time.Time
	ttl        *int64
	autostart  *string
	builds     []*build
	agents     []Agent
	deleted    bool
}

func (w *workspace) latest() *build { return w.builds[len(w.builds)-1] }

func (s *Server) workspaceByID(id uuid.UUID) *workspace {
	for _, w := range s.workspaces {
		if w.id == id {
			return w
		}
	}
	return nil
}

func (s *Server) workspaceNamed(owner *user, name string) *workspace {
	for _, w := range s.workspaces {
		if w.owner == owner && strings.EqualFold(w.name, name) && !w.deleted {
			return w
		}
	}
	return nil
}

// pathWorkspace is the workspace in the path, deleted or not.
func (s *Server) pathWorkspace(r *request) *workspace {
	w := s.workspaceByID(r.id("workspace"))
	if w == nil || !w.visibleTo(r.user) {
		notFound()
	}
	return w
}

func (w *workspace) visibleTo(u *user) bool {
	return w.owner == u || u.has("owner") || u.has("template-admin")
}

func (s *Server) routeWorkspaces(closed route) {
	closed("GET /api/v2/workspaces", s.getWorkspaces)
	closed("GET /api/v2/workspaces/{workspace}", func(r *request) {
		w := s.pathWorkspace(r)
		if w.deleted {
			refuse(http.StatusGone, fmt.Sprintf("Workspace %q was deleted, you can view this workspace by specifying '?deleted=true' and trying again.", w.id))
		}
		r.write(http.StatusOK, s.workspaceSDK(w))
	})
	closed("GET /api/v2/users/{user}/workspace/{name}", func(r *request) {
		w := s.workspaceNamed(s.pathUser(r), r.PathValue("name"))
		if w == nil {
			notFound()
		}
		r.write(http.StatusOK, s.workspaceSDK(w))
	})
	closed("POST /api/v2/users/{user}/workspaces", s.postWorkspace)
	closed("POST /api/v2/workspaces/{workspace}/builds", s.postBuild)
	closed("PUT /api/v2/workspaces/{workspace}/ttl", s.putTTL)
	closed("PUT /api/v2/workspaces/{workspace}/autostart", s.putAutostart)
}

// getWorkspaces gives a page in Coder's order, in which what runs comes first,
// so that pages move while workspaces start and stop.
func (s *Server) getWorkspaces(r *request) {
	if q := r.URL.Query().Get("q"); q != "" {
		refuse(http.StatusBadRequest, "Invalid workspace search query.",
			codersdk.ValidationError{Field: "q", Detail: fmt.Sprintf("the server for tests does not know the query %q", q)})
	}
	var visible []*workspace
	for _, w := range s.workspaces {
		if !w.deleted && w.visibleTo(r.user) {
			visible = append(visible, w)
		}
	}
	slices.SortStableFunc(visible, func(a, b *workspace) int {
		return cmp.Or(
			cmp.Compare(b.rank(), a.rank()),
			strings.Compare(strings.ToLower(a.owner.username), strings.ToLower(b.owner.username)),
			strings.Compare(strings.ToLower(a.name), strings.ToLower(b.name)),
		)
	})
	limit, offset := r.positive("limit"), r.positive("offset")
	page := visible[min(offset, len(visible)):]
	if limit > 0 {
		page = page[:min(limit, len(page))]
	}
	out := codersdk.WorkspacesResponse{Workspaces: []codersdk.Workspace{}, Count: len(visible)}
	for _, w := range page {
		out.Workspaces = append(out.Workspaces, s.workspaceSDK(w))
	}
	r.write(http.StatusOK, out)
}

func (w *workspace) rank() int {
	if b := w.latest(); b.transition == codersdk.WorkspaceTransitionStart && b.job.status == codersdk.ProvisionerJobSucceeded {
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
	owner := s.pathUser(r)
	var body codersdk.CreateWorkspaceRequest
	r.read(&body)
	var v validation
	v.check((body.TemplateID == uuid.Nil) != (body.TemplateVersionID == uuid.Nil), "template_id", "required_without", body.TemplateID)
	v.name("name", "workspace_name", body.Name)
	v.refuse()
	t, first := s.templateOf(body)
	if t.Deprecated {
		refuseDetailed(http.StatusBadRequest,
			fmt.Sprintf("Template %q has been deprecated, and cannot be used to create a new workspace.", t.Name), t.DeprecationMessage)
	}
	if problem := scheduleProblem(body.AutostartSchedule); problem != "" {
		refuse(http.StatusBadRequest, "Invalid Autostart Schedule.", codersdk.ValidationError{Field: "schedule", Detail: problem})
	}
	ttl, problem := wholeMinutes(body.TTLMillis, t.DefaultTTLMillis)
	if problem != "" {
		refuse(http.StatusBadRequest, "Invalid Workspace Time to Shutdown.", codersdk.ValidationError{Field: "ttl_ms", Detail: problem})
	}
	if s.workspaceNamed(owner, body.Name) != nil {
		taken(fmt.Sprintf("Workspace %q already exists.", body.Name))
	}
	checkImported(first)
	now := s.now()
	w := &workspace{id: uuid.New(), name: body.Name, owner: owner, template: t, createdAt: now, lastUsedAt: now, ttl: ttl}
	if body.AutostartSchedule != nil && *body.AutostartSchedule != "" {
		w.autostart = body.AutostartSchedule
	}
	s.workspaces = append(s.workspaces, w)
	s.startBuild(r, w, codersdk.WorkspaceTransitionStart, first.id)
	r.write(http.StatusCreated, s.workspaceSDK(w))
}

// templateOf finds what a new workspace is made of.
func (s *Server) templateOf(body codersdk.CreateWorkspaceRequest) (*template, *version) {
	templateID := body.TemplateID
	if templateID == uuid.Nil {
		v := s.versionByID(body.TemplateVersionID)
		if v == nil {
			refuse(http.StatusBadRequest, fmt.Sprintf("Template version %q doesn't exist.", body.TemplateVersionID),
				codersdk.ValidationError{Field: "template_version_id", Detail: "template not found"})
		}
		templateID = v.template
	}
	for _, t := range s.templates {
		if t.ID == templateID && t.deleted {
			refuse(http.StatusNotFound, fmt.Sprintf("Template %q has been deleted!", t.Name))
		}
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
	return t, s.versionByID(versionID)
}

func (s *Server) putTTL(r *request) {
	w := s.pathWorkspace(r)
	var body codersdk.UpdateWorkspaceTTLRequest
	r.read(&body)
	ttl, problem := wholeMinutes(body.TTLMillis, 0)
	if !w.template.AllowUserAutostop {
		problem = "Custom autostop TTL is not allowed for workspaces using this template."
	}
	if problem != "" {
		refuse(http.StatusBadRequest, "Error updating workspace time until shutdown.", codersdk.ValidationError{Field: "ttl_ms", Detail: problem})
	}
	w.ttl = ttl
	if ttl == nil {
		w.latest().deadline = codersdk.NullTime{}
	}
	r.w.WriteHeader(http.StatusNoContent)
}

func (s *Server) putAutostart(r *request) {
	w := s.pathWorkspace(r)
	var body codersdk.UpdateWorkspaceAutostartRequest
	r.read(&body)
	if problem := scheduleProblem(body.Schedule); problem != "" {
		refuse(http.StatusBadRequest, "Invalid autostart schedule.", codersdk.ValidationError{Field: "schedule", Detail: problem})
	}
	if !w.template.AllowUserAutostart {
		const detail = "Autostart is not allowed for workspaces using this template."
		refuse(http.StatusBadRequest, detail, codersdk.ValidationError{Field: "schedule", Detail: detail})
	}
	w.autostart = nil
	if body.Schedule != nil && *body.Schedule != "" {
		w.autostart = body.Schedule
	}
	r.w.WriteHeader(http.StatusNoContent)
}

// wholeMinutes is the TTL as Coder keeps it.
func wholeMinutes(millis *int64, fallback int64) (ttl *int64, problem string) {
	if millis == nil || *millis == 0 {
		if fallback == 0 {
			return nil, ""
		}
		return &fallback, ""
	}
	whole := (time.Duration(*millis) * time.Millisecond).Truncate(time.Minute)
	switch {
	case whole < time.Minute:
		return nil, "time until shutdown must be at least one minute"
	case whole > 30*24*time.Hour:
		return nil, "time until shutdown must be less than 30 days"
	}
	kept := whole.Milliseconds()
	return &kept, ""
}

// scheduleProblem is a small part of Coder's check of a weekly schedule.
func scheduleProblem(schedule *string) string {
	if schedule == nil || *schedule == "" {
		return ""
	}
	fields := strings.Fields(*schedule)
	if len(fields) > 0 && strings.HasPrefix(fields[0], "CRON_TZ=") {
		fields = fields[1:]
	}
	switch {
	case len(fields) != 5:
		return "validate weekly schedule: expected schedule to consist of 5 fields with an optional CRON_TZ=<timezone> prefix"
	case fields[2] != "*" || fields[3] != "*":
		return "validate weekly schedule: expected month and dom to be *"
	}
	return ""
}
