package coderd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// workspaceJSON contains the used fields of a workspace in Coder's API. A response contains much
// more, for example the scripts and icons of every app, and Coder's own types would decode all of
// it.
type workspaceJSON struct {
	ID                      uuid.UUID  `json:"id"`
	Name                    string     `json:"name"`
	OwnerID                 uuid.UUID  `json:"owner_id"`
	OwnerName               string     `json:"owner_name"`
	OrganizationID          uuid.UUID  `json:"organization_id"`
	OrganizationName        string     `json:"organization_name"`
	TemplateID              uuid.UUID  `json:"template_id"`
	TemplateName            string     `json:"template_name"`
	TemplateActiveVersionID uuid.UUID  `json:"template_active_version_id"`
	Outdated                bool       `json:"outdated"`
	AutomaticUpdates        string     `json:"automatic_updates"`
	DormantAt               *time.Time `json:"dormant_at"`
	DeletingAt              *time.Time `json:"deleting_at"`
	CreatedAt               time.Time  `json:"created_at"`
	UpdatedAt               time.Time  `json:"updated_at"`
	LastUsedAt              time.Time  `json:"last_used_at"`
	TTLMillis               *int64     `json:"ttl_ms"`
	AutostartSchedule       *string    `json:"autostart_schedule"`
	LatestBuild             buildJSON  `json:"latest_build"`
	Health                  struct {
		Healthy bool `json:"healthy"`
	} `json:"health"`
}

// buildJSON contains the used fields of a build.
type buildJSON struct {
	ID                  uuid.UUID         `json:"id"`
	WorkspaceID         uuid.UUID         `json:"workspace_id"`
	Number              int32             `json:"build_number"`
	TemplateVersionID   uuid.UUID         `json:"template_version_id"`
	TemplateVersionName string            `json:"template_version_name"`
	PresetID            *uuid.UUID        `json:"template_version_preset_id"`
	Transition          Transition        `json:"transition"`
	Status              string            `json:"status"`
	Reason              string            `json:"reason"`
	InitiatorName       string            `json:"initiator_name"`
	CreatedAt           time.Time         `json:"created_at"`
	UpdatedAt           time.Time         `json:"updated_at"`
	Deadline            codersdk.NullTime `json:"deadline"`
	Job                 struct {
		Error string `json:"error"`
	} `json:"job"`
	Resources []struct {
		Agents []agentJSON `json:"agents"`
	} `json:"resources"`
}

// agentJSON contains the used fields of an agent.
type agentJSON struct {
	ID                uuid.UUID  `json:"id"`
	Name              string     `json:"name"`
	Status            string     `json:"status"`
	LifecycleState    string     `json:"lifecycle_state"`
	Version           string     `json:"version"`
	OperatingSystem   string     `json:"operating_system"`
	Architecture      string     `json:"architecture"`
	Directory         string     `json:"directory"`
	ExpandedDirectory string     `json:"expanded_directory"`
	ReadyAt           *time.Time `json:"ready_at"`
	DisconnectedAt    *time.Time `json:"disconnected_at"`
	Health            *struct {
		Healthy bool   `json:"healthy"`
		Reason  string `json:"reason"`
	} `json:"health"`
	Apps []appJSON `json:"apps"`
}

// appJSON contains the used fields of an app.
type appJSON struct {
	Slug          string `json:"slug"`
	DisplayName   string `json:"display_name"`
	URL           string `json:"url"`
	External      bool   `json:"external"`
	Command       string `json:"command"`
	Subdomain     bool   `json:"subdomain"`
	SubdomainName string `json:"subdomain_name"`
	Health        string `json:"health"`
	Hidden        bool   `json:"hidden"`
}

func (a *agentJSON) agent() Agent {
	out := Agent{
		ID: a.ID, Name: boundName(a.Name), Status: boundName(a.Status), LifecycleState: boundName(a.LifecycleState),
		Version: boundName(a.Version), OperatingSystem: boundName(a.OperatingSystem), Architecture: boundName(a.Architecture),
		Directory: boundName(cmp.Or(a.ExpandedDirectory, a.Directory)), ReadyAt: a.ReadyAt,
	}
	if a.Status == string(codersdk.WorkspaceAgentDisconnected) {
		out.DisconnectedAt = a.DisconnectedAt
	}
	if a.Health != nil && !a.Health.Healthy {
		out.Unhealthy = boundName(cmp.Or(a.Health.Reason, "Coder reported no reason"))
	}
	for _, app := range a.Apps[:min(len(a.Apps), maxApps)] {
		out.Apps = append(out.Apps, app.app())
	}
	return out
}

func (a *appJSON) app() App {
	out := App{
		Slug: boundName(a.Slug), DisplayName: boundName(a.DisplayName), Health: boundName(a.Health), Hidden: a.Hidden,
		Command: boundText(a.Command),
	}
	if a.External {
		out.ExternalURL = boundText(a.URL)
	}
	if a.Subdomain {
		out.SubdomainName = boundName(a.SubdomainName)
	}
	return out
}

func (w *workspaceJSON) workspace() Workspace {
	out := Workspace{
		ID:                      w.ID,
		Name:                    boundName(w.Name),
		OwnerID:                 w.OwnerID,
		OwnerName:               boundName(w.OwnerName),
		OrganizationID:          w.OrganizationID,
		OrganizationName:        boundName(w.OrganizationName),
		TemplateName:            boundName(w.TemplateName),
		TemplateID:              w.TemplateID,
		TemplateActiveVersionID: w.TemplateActiveVersionID,
		Outdated:                w.Outdated,
		AutomaticUpdates:        boundName(w.AutomaticUpdates),
		Dormant:                 w.DormantAt != nil,
		DormantAt:               w.DormantAt,
		DeletingAt:              w.DeletingAt,
		CreatedAt:               w.CreatedAt,
		UpdatedAt:               w.UpdatedAt,
		LastUsedAt:              w.LastUsedAt,
		LatestBuild:             w.LatestBuild.build(),
		Healthy:                 w.Health.Healthy,
	}
	if w.TTLMillis != nil && *w.TTLMillis > 0 {
		ttl := time.Duration(*w.TTLMillis) * time.Millisecond
		out.TTL = &ttl
	}
	if w.AutostartSchedule != nil && *w.AutostartSchedule != "" {
		schedule := boundName(*w.AutostartSchedule)
		out.Autostart = &schedule
	}
	for _, resource := range w.LatestBuild.Resources {
		for _, agent := range resource.Agents[:min(len(resource.Agents), maxTexts-len(out.Agents))] {
			out.Agents = append(out.Agents, agent.agent())
		}
	}
	return out
}

func (b *buildJSON) build() Build {
	out := Build{
		ID:                  b.ID,
		Number:              b.Number,
		TemplateVersionID:   b.TemplateVersionID,
		TemplateVersionName: boundName(b.TemplateVersionName),
		Transition:          Transition(boundName(string(b.Transition))),
		Reason:              boundName(b.Reason),
		InitiatorName:       boundName(b.InitiatorName),
		Status:              boundName(b.Status),
		Error:               boundText(b.Job.Error),
		CreatedAt:           b.CreatedAt,
		UpdatedAt:           b.UpdatedAt,
	}
	if b.PresetID != nil {
		out.PresetID = *b.PresetID
	}
	if b.Deadline.Valid && !b.Deadline.Time.IsZero() {
		deadline := b.Deadline.Time
		out.Deadline = &deadline
	}
	return out
}

// decodePage decodes the workspaces one by one, so that only one of them at a time is in memory in
// Coder's format. More than limit workspaces are an error.
func decodePage(r io.Reader, limit int) (WorkspacePage, error) {
	var page WorkspacePage
	decoder := json.NewDecoder(r)
	if err := expectDelim(decoder, '{'); err != nil {
		return page, err
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return page, err
		}
		switch key {
		case "workspaces":
			page.Workspaces, err = decodeWorkspaces(decoder, limit)
		case "count":
			err = decoder.Decode(&page.Count)
		default:
			var other json.RawMessage
			err = decoder.Decode(&other)
		}
		if err != nil {
			return page, err
		}
	}
	return page, expectDelim(decoder, '}')
}

func decodeWorkspaces(decoder *json.Decoder, limit int) ([]Workspace, error) {
	if err := expectDelim(decoder, '['); err != nil {
		return nil, err
	}
	var out []Workspace
	for n := 1; decoder.More(); n++ {
		if n > limit {
			return nil, fmt.Errorf("it has more than %d workspaces, which is how many were asked for", limit)
		}
		var w workspaceJSON
		if err := decoder.Decode(&w); err != nil {
			return nil, err
		}
		if w.LatestBuild.Status != string(codersdk.WorkspaceStatusDeleted) {
			out = append(out, w.workspace())
		}
	}
	return out, expectDelim(decoder, ']')
}

func expectDelim(decoder *json.Decoder, want json.Delim) error {
	token, err := decoder.Token()
	if err == nil && token != want {
		err = fmt.Errorf("got %v where %v was expected", token, want)
	}
	return err
}
