package coderd

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// workspacesPerPage keeps one answer of Coder near a second: its one unpaged
// answer for 10,000 workspaces takes minutes.
const workspacesPerPage = 250

// Workspace is a workspace with its latest build.
type Workspace struct {
	ID               uuid.UUID
	Name             string
	OwnerID          uuid.UUID
	OwnerName        string
	OrganizationID   uuid.UUID
	OrganizationName string
	TemplateName     string
	TemplateID       uuid.UUID
	// TemplateActiveVersionID is the version of the template that counts now.
	TemplateActiveVersionID uuid.UUID
	// Outdated says that the template has a newer active version.
	Outdated bool
	// AutomaticUpdates is always or never: whether a start by the schedule takes the
	// active version.
	AutomaticUpdates string
	// Dormant says that it was put to sleep, for example because it was not used.
	// DormantAt is since when, and DeletingAt is when Coder deletes it therefore.
	Dormant    bool
	DormantAt  *time.Time
	DeletingAt *time.Time
	CreatedAt  time.Time
	// UpdatedAt is when the workspace was made. Coder never changes it.
	UpdatedAt  time.Time
	LastUsedAt time.Time
	// TTL after which it stops. Nil is never.
	TTL *time.Duration
	// Autostart is a schedule in Coder's form of cron. Nil is never.
	Autostart   *string
	LatestBuild Build
	Healthy     bool
	Agents      []Agent
}

// Connected reports whether all agents are connected.
func (w *Workspace) Connected() bool {
	return !slices.ContainsFunc(w.Agents, func(a Agent) bool { return a.Status != string(codersdk.WorkspaceAgentConnected) })
}

// Build is one start, stop or deletion of a workspace.
type Build struct {
	ID                uuid.UUID
	Number            int32
	TemplateVersionID uuid.UUID
	// TemplateVersionName is the name of that version.
	TemplateVersionName string
	// PresetID is the preset that it was built with. uuid.Nil is none.
	PresetID   uuid.UUID
	Transition Transition
	// Reason is initiator, autostart, autostop, dormancy and so on.
	Reason string
	// InitiatorName is the user that asked for it.
	InitiatorName string
	// Status is that of the workspace after this build: pending, starting,
	// running, stopping, stopped, failed, canceling, canceled, deleting, deleted.
	Status string
	// Error is why it failed.
	Error     string
	CreatedAt time.Time
	UpdatedAt time.Time
	// Deadline is when a running workspace stops. Nil is never.
	Deadline *time.Time
}

// Agent runs inside a workspace.
type Agent struct {
	ID   uuid.UUID
	Name string
	// Status is connecting, connected, disconnected or timeout.
	Status string
	// LifecycleState is created, starting, ready, start_error and so on.
	LifecycleState string
	// Unhealthy is why Coder takes it for unhealthy. It is empty if it is healthy.
	Unhealthy string
	// Version is the release of the agent's program.
	Version         string
	OperatingSystem string
	Architecture    string
	// Directory is where sessions begin.
	Directory string
	// ReadyAt is when its startup scripts ended, DisconnectedAt when its connection
	// ended. Both may be nil.
	ReadyAt, DisconnectedAt *time.Time
	Apps                    []App
}

// App is what users open in a workspace.
type App struct {
	Slug, DisplayName string
	// Health is disabled, initializing, healthy or unhealthy.
	Health string
	// Hidden says that Coder does not show it.
	Hidden bool
	// ExternalURL is where an app is that Coder does not proxy.
	ExternalURL string
	// Command runs in a terminal, if the app is that.
	Command string
	// SubdomainName is the first label of its host name, if it has its own.
	SubdomainName string
}

// NewWorkspace is a workspace to make. It is given a template, whose active
// version counts, or a version of one: where both are set, the version counts.
type NewWorkspace struct {
	Name              string
	TemplateID        uuid.UUID
	TemplateVersionID uuid.UUID
	TTL               *time.Duration
	Autostart         *string
	// AutomaticUpdates is always or never. Empty means never.
	AutomaticUpdates string
	// Parameters are values for what the template version asks. The default of the
	// version counts for those that are not named.
	Parameters []Parameter
	// PresetID gives values to the parameters of a preset of the version, whatever
	// Parameters says of them.
	PresetID uuid.UUID
}

// Workspaces lists all workspaces that the token may see, in no order that
// means anything. Deleted ones are never among them.
//
// Coder sorts its pages by what runs, so a workspace that starts meanwhile may
// be told twice, which is mended here, or not at all, which is not: believe
// that one is gone only when Workspace says so.
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
		// A page may be short, because Coder leaves out what the token must not
		// see after it has counted. Only the count says where the end is.
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
	var w workspaceJSON
	err := confirmNotFound(func() error {
		return c.call(ctx, op, func(ctx context.Context) error {
			return c.request(ctx, http.MethodGet, fmt.Sprintf("/api/v2/users/%s/workspace/%s", owner, name), nil, http.StatusOK, into(&w))
		})
	})
	// Coder takes "me" and ids for a user too. Neither is the owner's name.
	if err == nil && !strings.EqualFold(w.OwnerName, owner) {
		return Workspace{}, &Error{Op: op, StatusCode: http.StatusNotFound, Message: fmt.Sprintf("there is no user named %q", owner)}
	}
	return w.workspace(), err
}

// Workspace reads one workspace. A deleted one is not found.
func (c *Client) Workspace(ctx context.Context, id uuid.UUID) (Workspace, error) {
	var w workspaceJSON
	err := c.call(ctx, fmt.Sprintf("reading workspace %s", id), func(ctx context.Context) error {
		return c.request(ctx, http.MethodGet, fmt.Sprintf("/api/v2/workspaces/%s", id), nil, http.StatusOK, into(&w))
	})
	return w.workspace(), err
}

// CreateWorkspace makes a workspace, which starts at once: Coder knows no other
// way.
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
		// Coder accepts one of the two.
		request.TemplateID = uuid.Nil
	}
	var created workspaceJSON
	err := c.call(ctx, op, func(ctx context.Context) error {
		return c.request(ctx, http.MethodPost, fmt.Sprintf("/api/v2/users/%s/workspaces", owner), request, http.StatusCreated, into(&created))
	})
	return created.workspace(), err
}

// SetTTL sets after how long a workspace stops. Nil is never.
func (c *Client) SetTTL(ctx context.Context, workspaceID uuid.UUID, ttl *time.Duration) error {
	return c.call(ctx, fmt.Sprintf("setting the TTL of workspace %s", workspaceID), func(ctx context.Context) error {
		return c.sdk.UpdateWorkspaceTTL(ctx, workspaceID, codersdk.UpdateWorkspaceTTLRequest{TTLMillis: millis(ttl)})
	})
}

// SetAutostart sets the schedule by which a workspace starts. Nil is never.
func (c *Client) SetAutostart(ctx context.Context, workspaceID uuid.UUID, schedule *string) error {
	return c.call(ctx, fmt.Sprintf("setting the autostart schedule of workspace %s", workspaceID), func(ctx context.Context) error {
		return c.sdk.UpdateWorkspaceAutostart(ctx, workspaceID, codersdk.UpdateWorkspaceAutostartRequest{Schedule: schedule})
	})
}

// SetAutomaticUpdates says whether a start by the schedule takes the active
// version of the template: always or never.
func (c *Client) SetAutomaticUpdates(ctx context.Context, workspaceID uuid.UUID, updates string) error {
	return c.call(ctx, fmt.Sprintf("setting the automatic updates of workspace %s", workspaceID), func(ctx context.Context) error {
		return c.sdk.UpdateWorkspaceAutomaticUpdates(ctx, workspaceID, codersdk.UpdateWorkspaceAutomaticUpdatesRequest{
			AutomaticUpdates: codersdk.AutomaticUpdates(updates),
		})
	})
}

// SetDormant puts a workspace to sleep or wakes it. It starts or stops nothing.
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
