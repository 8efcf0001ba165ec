package coderd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/ptr"

	"github.com/coder/coder/v2/codersdk"
)

// workspaceJSON is a workspace in Coder's API. A response contains much more, for example the
// scripts and icons of every app, and Coder's own types would decode all of it.
type workspaceJSON struct {
	Workspace
	TTLMillis   *int64    `json:"ttl_ms"`
	LatestBuild buildJSON `json:"latest_build"`
	Health      struct {
		Healthy bool `json:"healthy"`
	} `json:"health"`
	SharedWith []struct {
		ID    uuid.UUID `json:"id"`
		Type  string    `json:"actor_type"`
		Name  string    `json:"name"`
		Roles []string  `json:"roles"`
	} `json:"shared_with"`
}

type buildJSON struct {
	Build
	WorkspaceID uuid.UUID         `json:"workspace_id"`
	Deadline    codersdk.NullTime `json:"deadline"`
	Job         struct {
		Error string            `json:"error"`
		Tags  map[string]string `json:"tags"`
	} `json:"job"`
	Matched *struct {
		Available int `json:"available"`
	} `json:"matched_provisioners"`
	Resources []struct {
		Agents []agentJSON `json:"agents"`
	} `json:"resources"`
}

type agentJSON struct {
	Agent
	ExpandedDirectory string `json:"expanded_directory"`
	Health            *struct {
		Healthy bool   `json:"healthy"`
		Reason  string `json:"reason"`
	} `json:"health"`
	Apps []struct {
		App
		URL       string `json:"url"`
		External  bool   `json:"external"`
		Subdomain bool   `json:"subdomain"`
	} `json:"apps"`
}

func (a *agentJSON) agent() Agent {
	out := a.Agent
	out.Directory = cmp.Or(a.ExpandedDirectory, a.Directory)
	if a.Status != string(codersdk.WorkspaceAgentDisconnected) {
		out.DisconnectedAt = nil
	}
	if a.Health != nil && !a.Health.Healthy {
		out.Unhealthy = cmp.Or(a.Health.Reason, "Coder reported no reason")
	}
	for _, app := range a.Apps[:min(len(a.Apps), maxApps)] {
		if app.External {
			app.ExternalURL = boundText(app.URL)
		}
		if !app.Subdomain {
			app.SubdomainName = ""
		}
		boundNames(&app.Slug, &app.DisplayName, &app.Health, &app.SubdomainName)
		app.Command = boundText(app.Command)
		out.Apps = append(out.Apps, app.App)
	}
	boundNames(&out.Name, &out.Status, &out.LifecycleState, &out.Version, &out.OperatingSystem, &out.Architecture, &out.Directory, &out.Unhealthy)
	return out
}

func (w *workspaceJSON) workspace() Workspace {
	out := w.Workspace
	boundNames(&out.Name, &out.OwnerName, &out.OrganizationName, &out.TemplateName, &out.AutomaticUpdates)
	out.Dormant, out.Healthy, out.LatestBuild = w.DormantAt != nil, w.Health.Healthy, w.LatestBuild.build()
	if w.TTLMillis != nil && *w.TTLMillis > 0 {
		out.TTL = ptr.To(time.Duration(*w.TTLMillis) * time.Millisecond)
	}
	if w.Autostart != nil {
		boundNames(out.Autostart)
		if *out.Autostart == "" {
			out.Autostart = nil
		}
	}
	for _, s := range w.SharedWith {
		share := Share{ID: s.ID, IsGroup: s.Type == string(codersdk.SharedWorkspaceActorTypeGroup)}
		if share.IsGroup {
			// For a user this is the full name.
			share.GroupName = boundName(s.Name)
		}
		if len(s.Roles) > 0 {
			share.Role = boundName(s.Roles[0])
		}
		out.SharedWith = append(out.SharedWith, share)
	}
	// Coder returns them in random order.
	slices.SortFunc(out.SharedWith, func(a, b Share) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	out.SharedWith = out.SharedWith[:min(len(out.SharedWith), maxTexts)]
	for _, resource := range w.LatestBuild.Resources {
		for _, agent := range resource.Agents[:min(len(resource.Agents), maxTexts-len(out.Agents))] {
			out.Agents = append(out.Agents, agent.agent())
		}
	}
	return out
}

func (b *buildJSON) build() Build {
	out := b.Build
	out.Transition, out.Error = Transition(boundName(string(b.Transition))), boundText(b.Job.Error)
	boundNames(&out.TemplateVersionName, &out.Reason, &out.Status)
	if out.Status == string(codersdk.WorkspaceStatusPending) && b.Matched != nil && b.Matched.Available == 0 {
		// Coder puts the tags scope and owner on each job; the latter is empty unless one user's provisioner must build it.
		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(b.Job.Tags)) {
			if value := b.Job.Tags[name]; name != "owner" || value != "" {
				pairs = append(pairs, boundName(name)+"="+boundName(value))
			}
		}
		out.UnmatchedTags = boundName(cmp.Or(strings.Join(pairs[:min(len(pairs), maxTexts)], ","), "none"))
	}
	if b.Deadline.Valid && !b.Deadline.Time.IsZero() {
		out.Deadline = ptr.To(b.Deadline.Time)
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
