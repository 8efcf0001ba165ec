package coderd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // The image of the operator has no time zones.

	"github.com/coder/coder/v2/coderd/schedule/cron"
	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
)

// workspacesPerPage keeps the duration of a request at about a second: without pages, a response
// with 10,000 workspaces takes minutes.
const workspacesPerPage = 250

// Workspace is a workspace with its latest build. The tags of this type and of Build, Agent and App
// are the names in Coder's API.
type Workspace struct {
	ID               uuid.UUID `json:"id"`
	Name             string    `json:"name"`
	OwnerID          uuid.UUID `json:"owner_id"`
	OwnerName        string    `json:"owner_name"`
	OrganizationID   uuid.UUID `json:"organization_id"`
	OrganizationName string    `json:"organization_name"`
	TemplateName     string    `json:"template_name"`
	TemplateID       uuid.UUID `json:"template_id"`
	// UseClassicParameterFlow is that of the template.
	UseClassicParameterFlow bool `json:"template_use_classic_parameter_flow"`
	// TemplateActiveVersionID is the active version of the template.
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
	ID                uuid.UUID `json:"id"`
	Number            int32     `json:"build_number"`
	TemplateVersionID uuid.UUID `json:"template_version_id"`
	// TemplateVersionName is the name of that version.
	TemplateVersionName string `json:"template_version_name"`
	// PresetID is the preset that was used. uuid.Nil means none.
	PresetID   uuid.UUID  `json:"template_version_preset_id"`
	Transition Transition `json:"transition"`
	// Reason is initiator, autostart, autostop, dormancy and so on. InitiatorID is the user who requested it.
	Reason      string    `json:"reason"`
	InitiatorID uuid.UUID `json:"initiator_id"`
	// Status is the status of the workspace after this build: pending, starting, running, stopping,
	// stopped, failed, canceling, canceled, deleting or deleted.
	Status string `json:"status"`
	// Error is the reason why it failed.
	Error string `json:"-"`
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
	Unhealthy string `json:"-"`
	// Version is the version of the agent.
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

// Workspaces lists all workspaces that the token may see, in no defined order. It returns no
// deleted workspaces.
//
// Coder sorts running workspaces first, so a workspace that starts while the pages are read may
// appear twice or not at all. Duplicates are removed here. A missing workspace must be confirmed
// with Workspace before it is treated as deleted.
func (c *Client) Workspaces(ctx context.Context) ([]Workspace, error) {
	var out []Workspace
	seen := map[uuid.UUID]bool{}
	for offset := 0; ; offset += workspacesPerPage {
		page, err := c.WorkspacePage(ctx, offset, workspacesPerPage)
		if err != nil {
			return nil, err
		}
		for _, w := range page.Workspaces {
			if !seen[w.ID] {
				seen[w.ID] = true
				out = append(out, w)
			}
		}
		// A page may be short, because Coder removes workspaces that the token may not see after it
		// has counted. Only the count determines the end.
		if offset+workspacesPerPage >= page.Count {
			return out, nil
		}
	}
}

// WorkspaceByName reads one workspace of a user.
func (c *Client) WorkspaceByName(ctx context.Context, owner, name string) (Workspace, error) {
	op := fmt.Sprintf("reading workspace %q of %q", name, owner)
	if err := checkNames(op, owner, name); err != nil {
		return Workspace{}, err
	}
	w, err := confirmNotFound(func() (workspaceJSON, error) {
		return get[workspaceJSON](ctx, c, op, fmt.Sprintf("/api/v2/users/%s/workspace/%s", owner, name), nil)
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
	op := fmt.Sprintf("creating workspace %q of %q", w.Name, owner)
	if err := checkNames(op, owner); err != nil {
		return Workspace{}, err
	}
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
	var created workspaceJSON
	err := c.call(ctx, op, func(ctx context.Context) error {
		return c.request(ctx, http.MethodPost, fmt.Sprintf("/api/v2/users/%s/workspaces", owner), request, http.StatusCreated, into(&created))
	})
	return created.workspace(), err
}

// SetTTL sets the time after which a workspace stops. Nil means never.
func (c *Client) SetTTL(ctx context.Context, workspaceID uuid.UUID, ttl *time.Duration) error {
	return c.call(ctx, fmt.Sprintf("setting the TTL of workspace %s", workspaceID), func(ctx context.Context) error {
		return c.sdk.UpdateWorkspaceTTL(ctx, workspaceID, codersdk.UpdateWorkspaceTTLRequest{TTLMillis: millis(ttl)})
	})
}

// SetAutostart sets the schedule by which a workspace starts. Nil means never.
func (c *Client) SetAutostart(ctx context.Context, workspaceID uuid.UUID, schedule *string) error {
	return c.call(ctx, fmt.Sprintf("setting the autostart schedule of workspace %s", workspaceID), func(ctx context.Context) error {
		return c.sdk.UpdateWorkspaceAutostart(ctx, workspaceID, codersdk.UpdateWorkspaceAutostartRequest{Schedule: schedule})
	})
}

// SetAutomaticUpdates sets whether a start by the schedule uses the template's active version:
// always or never.
func (c *Client) SetAutomaticUpdates(ctx context.Context, workspaceID uuid.UUID, updates string) error {
	return c.call(ctx, fmt.Sprintf("setting the automatic updates of workspace %s", workspaceID), func(ctx context.Context) error {
		return c.sdk.UpdateWorkspaceAutomaticUpdates(ctx, workspaceID, codersdk.UpdateWorkspaceAutomaticUpdatesRequest{
			AutomaticUpdates: codersdk.AutomaticUpdates(updates),
		})
	})
}

// SetDormant makes a workspace dormant or active. It neither starts nor stops it.
func (c *Client) SetDormant(ctx context.Context, workspaceID uuid.UUID, dormant bool) error {
	return c.call(ctx, fmt.Sprintf("setting the dormancy of workspace %s", workspaceID), func(ctx context.Context) error {
		return c.sdk.UpdateWorkspaceDormancy(ctx, workspaceID, codersdk.UpdateWorkspaceDormancy{Dormant: dormant})
	})
}

func millis(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
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
