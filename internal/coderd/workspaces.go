package coderd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // The image of the operator has no time zones.

	"github.com/coder/coder/v2/coderd/schedule/cron"
	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
	"k8s.io/utils/ptr"
)

// Workspace is a workspace with its latest build. The tags of this type and of Build, Agent and App
// are the names in Coder's API.
type Workspace struct {
	ID                      uuid.UUID `json:"id"`
	Name                    string    `json:"name"`
	OwnerID                 uuid.UUID `json:"owner_id"`
	OwnerName               string    `json:"owner_name"`
	OrganizationID          uuid.UUID `json:"organization_id"`
	OrganizationName        string    `json:"organization_name"`
	TemplateName            string    `json:"template_name"`
	TemplateID              uuid.UUID `json:"template_id"`
	UseClassicParameterFlow bool      `json:"template_use_classic_parameter_flow"`
	TemplateActiveVersionID uuid.UUID `json:"template_active_version_id"`
	// TemplateRequireActiveVersion reports that only those who manage the template may start another version.
	TemplateRequireActiveVersion bool `json:"template_require_active_version"`
	// Outdated reports that the template has a newer active version.
	Outdated bool `json:"outdated"`
	// AutomaticUpdates is always or never: whether a start by the schedule uses the active version.
	AutomaticUpdates string `json:"automatic_updates"`
	// Dormant reports that the workspace is dormant, for example because it was not used. DormantAt
	// is since when, and DeletingAt is when Coder deletes it for this reason.
	Dormant    bool       `json:"-"`
	DormantAt  *time.Time `json:"dormant_at"`
	DeletingAt *time.Time `json:"deleting_at"`
	CreatedAt  time.Time  `json:"created_at"`
	// UpdatedAt is when the workspace was created. Coder never changes it.
	UpdatedAt  time.Time `json:"updated_at"`
	LastUsedAt time.Time `json:"last_used_at"`
	// TTL is the time after which it stops. Nil means never.
	TTL *time.Duration `json:"-"`
	// Autostart is a schedule in Coder's cron format. Nil means never.
	Autostart   *string `json:"autostart_schedule"`
	LatestBuild Build   `json:"-"`
	Healthy     bool    `json:"-"`
	Agents      []Agent `json:"-"`
	// SharedWith are the users and groups that the workspace is shared with, sorted by ID. Coder
	// reports them since 2.32.
	SharedWith []Share `json:"-"`
}

// Connected reports whether all agents are connected.
func (w *Workspace) Connected() bool {
	return !slices.ContainsFunc(w.Agents, func(a Agent) bool { return a.Status != string(codersdk.WorkspaceAgentConnected) })
}

// Prebuilt reports whether Coder has built the workspace in advance for a preset, and nobody uses it yet. Coder
// starts, replaces and deletes such workspaces itself.
func (w *Workspace) Prebuilt() bool { return w.OwnerID == PrebuildsUser }

// Build is one start, stop or deletion of a workspace.
type Build struct {
	ID                  uuid.UUID `json:"id"`
	Number              int32     `json:"build_number"`
	TemplateVersionID   uuid.UUID `json:"template_version_id"`
	TemplateVersionName string    `json:"template_version_name"`
	// PresetID is the preset that was used. uuid.Nil means none.
	PresetID   uuid.UUID  `json:"template_version_preset_id"`
	Transition Transition `json:"transition"`
	// Reason is initiator, autostart, autostop, dormancy and so on. InitiatorID is the user who requested it.
	Reason      string    `json:"reason"`
	InitiatorID uuid.UUID `json:"initiator_id"`
	// Status is the status of the workspace after this build: pending, starting, running, stopping,
	// stopped, failed, canceling, canceled, deleting or deleted.
	Status string `json:"status"`
	Error  string `json:"-"`
	// UnmatchedTags are the tags of a pending build for which Coder knows no connected provisioner, as
	// "environment=gpu,scope=organization". It is empty if a provisioner may take the build.
	UnmatchedTags string    `json:"-"`
	CreatedAt     time.Time `json:"created_at"`
	UpdatedAt     time.Time `json:"updated_at"`
	// Deadline is when a running workspace stops. Nil means never.
	Deadline *time.Time `json:"-"`
}

// Agent is an agent of a workspace.
type Agent struct {
	ID   uuid.UUID `json:"id"`
	Name string    `json:"name"`
	// Status is connecting, connected, disconnected or timeout.
	Status string `json:"status"`
	// LifecycleState is created, starting, ready, start_error and so on.
	LifecycleState string `json:"lifecycle_state"`
	// Unhealthy is the reason why Coder considers it unhealthy. It is empty if it is healthy.
	Unhealthy       string `json:"-"`
	Version         string `json:"version"`
	OperatingSystem string `json:"operating_system"`
	Architecture    string `json:"architecture"`
	// Directory is the working directory of sessions.
	Directory string `json:"directory"`
	// ReadyAt is when its startup scripts finished, DisconnectedAt when its connection ended. Both
	// may be nil.
	ReadyAt        *time.Time `json:"ready_at"`
	DisconnectedAt *time.Time `json:"disconnected_at"`
	Apps           []App      `json:"-"`
}

// App is an app of an agent.
type App struct {
	Slug        string `json:"slug"`
	DisplayName string `json:"display_name"`
	// Health is disabled, initializing, healthy or unhealthy.
	Health string `json:"health"`
	// Hidden reports that Coder's dashboard does not show it.
	Hidden bool `json:"hidden"`
	// ExternalURL is the URL of an app that Coder does not proxy.
	ExternalURL string `json:"-"`
	// Command is the command of an app that runs in a terminal.
	Command string `json:"command"`
	// SubdomainName is the first label of the app's host name, if it has its own.
	SubdomainName string `json:"subdomain_name"`
}

// NewWorkspace is a workspace to create from a template, whose active version is used, or from a
// template version. If both are set, the version is used.
type NewWorkspace struct {
	Name              string
	TemplateID        uuid.UUID
	TemplateVersionID uuid.UUID
	TTL               *time.Duration
	Autostart         *string
	// AutomaticUpdates is always or never. Empty means never.
	AutomaticUpdates string
	// Parameters are values for the parameters of the template version. Parameters that are not
	// listed get their defaults.
	Parameters []Parameter
	// PresetID sets the parameters of a preset of the version. Its values take precedence over
	// Parameters.
	PresetID uuid.UUID
}

// WorkspaceByName reads one workspace of a user.
func (c *Client) WorkspaceByName(ctx context.Context, owner, name string) (Workspace, error) {
	op := fmt.Sprintf("reading workspace %q of %q", name, owner)
	w, err := confirmNotFound(func() (workspaceJSON, error) {
		return get[workspaceJSON](ctx, c, op, fmt.Sprintf("/api/v2/users/%s/workspace/%s", owner, name), nil, owner, name)
	})
	// Coder also accepts "me" and ids as user. Neither is the owner's name.
	if err == nil && !strings.EqualFold(w.OwnerName, owner) {
		return Workspace{}, &Error{Op: op, StatusCode: http.StatusNotFound, Message: fmt.Sprintf("there is no user named %q", owner)}
	}
	return w.workspace(), err
}

// Workspace reads one workspace. The error is IsNotFound if it is deleted.
func (c *Client) Workspace(ctx context.Context, id uuid.UUID) (Workspace, error) {
	w, err := get[workspaceJSON](ctx, c, fmt.Sprintf("reading workspace %s", id), fmt.Sprintf("/api/v2/workspaces/%s", id), nil)
	return w.workspace(), err
}

// CreateWorkspace creates a workspace and starts it. Coder cannot create one without starting it.
func (c *Client) CreateWorkspace(ctx context.Context, owner string, w NewWorkspace) (Workspace, error) {
	request := codersdk.CreateWorkspaceRequest{
		Name:              w.Name,
		TemplateID:        w.TemplateID,
		TemplateVersionID: w.TemplateVersionID,
		AutostartSchedule: w.Autostart,
		TTLMillis:         millis(w.TTL),

		AutomaticUpdates:        codersdk.AutomaticUpdates(w.AutomaticUpdates),
		RichParameterValues:     sdkParameters(w.Parameters),
		TemplateVersionPresetID: w.PresetID,
	}
	if request.TemplateVersionID != uuid.Nil {
		// Coder accepts only one of the two.
		request.TemplateID = uuid.Nil
	}
	created, err := post[workspaceJSON](ctx, c, fmt.Sprintf("creating workspace %q of %q", w.Name, owner),
		fmt.Sprintf("/api/v2/users/%s/workspaces", owner), request, http.StatusCreated, owner)
	return created.workspace(), err
}

// SetTTL sets the time after which a workspace stops. Nil means never.
func (c *Client) SetTTL(ctx context.Context, workspaceID uuid.UUID, ttl *time.Duration) error {
	return change(ctx, c, fmt.Sprintf("setting the TTL of workspace %s", workspaceID), c.sdk.UpdateWorkspaceTTL,
		workspaceID, codersdk.UpdateWorkspaceTTLRequest{TTLMillis: millis(ttl)})
}

// SetAutostart sets the schedule by which a workspace starts. Nil means never.
func (c *Client) SetAutostart(ctx context.Context, workspaceID uuid.UUID, schedule *string) error {
	return change(ctx, c, fmt.Sprintf("setting the autostart schedule of workspace %s", workspaceID), c.sdk.UpdateWorkspaceAutostart,
		workspaceID, codersdk.UpdateWorkspaceAutostartRequest{Schedule: schedule})
}

// SetAutomaticUpdates sets whether a start by the schedule uses the template's active version:
// always or never.
func (c *Client) SetAutomaticUpdates(ctx context.Context, workspaceID uuid.UUID, updates string) error {
	return change(ctx, c, fmt.Sprintf("setting the automatic updates of workspace %s", workspaceID), c.sdk.UpdateWorkspaceAutomaticUpdates,
		workspaceID, codersdk.UpdateWorkspaceAutomaticUpdatesRequest{AutomaticUpdates: codersdk.AutomaticUpdates(updates)})
}

// SetDormant makes a workspace dormant or active. It neither starts nor stops it.
func (c *Client) SetDormant(ctx context.Context, workspaceID uuid.UUID, dormant bool) error {
	return change(ctx, c, fmt.Sprintf("setting the dormancy of workspace %s", workspaceID), c.sdk.UpdateWorkspaceDormancy,
		workspaceID, codersdk.UpdateWorkspaceDormancy{Dormant: dormant})
}

func millis(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	return ptr.To(d.Milliseconds())
}

// CheckSchedule returns why Coder does not accept the autostart schedule of a workspace, or nil.
func CheckSchedule(schedule string) error {
	if strings.HasPrefix(schedule, "CRON_TZ=") && !strings.Contains(schedule, " ") {
		// Coder's parser panics for it.
		return errors.New("expected a space after the time zone")
	}
	_, err := cron.Weekly(schedule)
	return err
}

const (
	// MaxWorkspacePage is the maximum page size of Client.WorkspacePage.
	MaxWorkspacePage = 1000
	// MaxWorkspaceIDs is the maximum number of ids of WorkspacesByID: with more ids the URL would
	// be too long for some proxies.
	MaxWorkspaceIDs = 100
)

// WorkspacePage is a page of all workspaces, in Coder's order: running ones first, then by owner
// and name. A workspace may therefore move to another page while the pages are read.
type WorkspacePage struct {
	Workspaces []Workspace
	// Count is the total number of workspaces on all pages. A page that is not the last one may
	// still be short, because Coder counts before it removes workspaces that the token may not see.
	Count int
}

// WorkspacePage reads one page of all workspaces. It contains no deleted workspaces.
func (c *Client) WorkspacePage(ctx context.Context, offset, limit int) (WorkspacePage, error) {
	return c.searchWorkspaces(ctx, "listing the workspaces", "", offset, limit)
}

// DisconnectedWorkspaces reads one page of the workspaces that have a disconnected agent. Stopped
// workspaces have no agents.
func (c *Client) DisconnectedWorkspaces(ctx context.Context, offset, limit int) (WorkspacePage, error) {
	return c.searchWorkspaces(ctx, "listing the workspaces with a disconnected agent", "has-agent:disconnected", offset, limit)
}

// WorkspacesByID reads these workspaces, at most MaxWorkspaceIDs. Workspaces that are deleted, or
// that the token may not see, are omitted.
func (c *Client) WorkspacesByID(ctx context.Context, ids []uuid.UUID) ([]Workspace, error) {
	op := fmt.Sprintf("reading %d workspaces", len(ids))
	switch {
	case len(ids) == 0:
		return nil, nil
	case len(ids) > MaxWorkspaceIDs:
		err := fmt.Errorf("at most %d can be read at once", MaxWorkspaceIDs)
		return nil, &Error{Op: op, Message: err.Error(), Err: err}
	}
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = id.String()
	}
	page, err := c.workspacePage(ctx, op, len(ids), map[string]string{"q": "id:" + strings.Join(words, ",")})
	return page.Workspaces, err
}

// WorkspaceCount returns the number of workspaces that are not deleted. It requests a page after
// the last one, which contains only the count, so that Coder does not read the details of any
// workspace.
func (c *Client) WorkspaceCount(ctx context.Context) (int, error) {
	page, err := c.searchWorkspaces(ctx, "counting the workspaces", "", math.MaxInt32, 1)
	return page.Count, err
}

// HasWorkspaces reports whether a workspace matches all terms of a query, for example "owner:ada" or
// "organization:coder template:docker".
func (c *Client) HasWorkspaces(ctx context.Context, query string) (bool, error) {
	page, err := c.searchWorkspaces(ctx, "counting the workspaces with "+query, query, math.MaxInt32, 1)
	return page.Count > 0, err
}

func (c *Client) searchWorkspaces(ctx context.Context, op, query string, offset, limit int) (WorkspacePage, error) {
	limit = max(1, min(limit, MaxWorkspacePage))
	return c.workspacePage(ctx, op, limit, map[string]string{
		"q": query, "offset": strconv.Itoa(max(0, offset)), "limit": strconv.Itoa(limit),
	})
}

func (c *Client) workspacePage(ctx context.Context, op string, limit int, query map[string]string) (WorkspacePage, error) {
	var page WorkspacePage
	err := c.call(ctx, op, func(ctx context.Context) error {
		return c.request(ctx, http.MethodGet, workspacesEndpoint, nil, http.StatusOK, func(_ http.Header, body io.Reader) error {
			var err error
			page, err = decodePage(body, limit)
			return err
		}, withQuery(query))
	})
	if err != nil {
		return WorkspacePage{}, err
	}
	return page, nil
}

// Share is a user or a group that a workspace is shared with.
type Share struct {
	ID uuid.UUID
	// IsGroup reports that it is a group, with the name GroupName. Coder does not report the names of
	// users.
	IsGroup   bool
	GroupName string
	// Role is RoleUse, RoleAdmin, or empty for permissions that are no role. In a change, empty ends
	// the sharing.
	Role string
}

// The roles of those that a workspace is shared with.
const (
	RoleUse   = string(codersdk.WorkspaceRoleUse)
	RoleAdmin = string(codersdk.WorkspaceRoleAdmin)
)

// EveryoneGroup is the name of the group of all members of an organization. It exists without a
// license, and its id is that of the organization.
const EveryoneGroup = "Everyone"

// CheckSharing returns an error if this Coder does not share workspaces. Before 2.32 that was an
// experiment, and lists did not report it. A version that cannot be parsed is not refused.
func (c *Client) CheckSharing(ctx context.Context) error {
	info, err := c.BuildInfo(ctx)
	if err == nil && atLeast(info.Version, "2.0") && !atLeast(info.Version, "2.32") {
		return &Error{
			Op: "sharing a workspace", StatusCode: http.StatusBadRequest,
			Message: fmt.Sprintf("this is Coder %s, and workspaces can be shared since Coder 2.32; upgrade Coder, or remove sharedWith", info.Version),
		}
	}
	return err
}

// ShareWorkspace changes the users and groups that a workspace is shared with. Others keep their
// roles. The user of the token needs the permission share.
func (c *Client) ShareWorkspace(ctx context.Context, workspaceID uuid.UUID, changes []Share) error {
	request := codersdk.UpdateWorkspaceACL{UserRoles: map[string]codersdk.WorkspaceRole{}, GroupRoles: map[string]codersdk.WorkspaceRole{}}
	for _, s := range changes {
		roles := request.UserRoles
		if s.IsGroup {
			roles = request.GroupRoles
		}
		roles[s.ID.String()] = codersdk.WorkspaceRole(s.Role)
	}
	return change(ctx, c, fmt.Sprintf("sharing workspace %s", workspaceID), c.sdk.UpdateWorkspaceACL, workspaceID, request)
}

// GroupID returns the id of a group of an organization. The error is IsNotSupported in a Coder
// without a license for groups.
func (c *Client) GroupID(ctx context.Context, organization uuid.UUID, name string) (uuid.UUID, error) {
	if name == EveryoneGroup {
		return organization, nil
	}
	group, err := get[struct {
		ID uuid.UUID `json:"id"`
	}](ctx, c, fmt.Sprintf("reading group %q", name), fmt.Sprintf("/api/v2/organizations/%s/groups/%s", organization, name), nil, name)
	return group.ID, err
}
