package coderd

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// sdkWorkspace returns a workspace of a realistic size: an agent with scripts and apps, and all
// other fields of Coder's API.
func sdkWorkspace(n int) codersdk.Workspace {
	at := time.Date(2026, 5, 1, 10, 0, n%60, 123456000, time.UTC)
	ttl, schedule, preset := int64(7200000), "CRON_TZ=Europe/Berlin 30 9 * * 1-5", uuid.New()
	agent := codersdk.WorkspaceAgent{
		ID: uuid.New(), CreatedAt: at, UpdatedAt: at, Name: "main", Status: codersdk.WorkspaceAgentConnected,
		LifecycleState: codersdk.WorkspaceAgentLifecycleReady, Architecture: "amd64", OperatingSystem: "linux",
		Directory: "/home/coder", ExpandedDirectory: "/home/coder", Version: "v2.30.0", APIVersion: "2.8",
		DERPLatency:          map[string]codersdk.DERPRegion{"Frankfurt": {Preferred: true, LatencyMilliseconds: 12.5}, "Oregon": {LatencyMilliseconds: 150}},
		EnvironmentVariables: map[string]string{"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.com"},
		DisplayApps:          []codersdk.DisplayApp{"vscode", "web_terminal", "ssh_helper", "port_forwarding_helper"},
		LogSources:           []codersdk.WorkspaceAgentLogSource{{WorkspaceAgentID: uuid.New(), ID: uuid.New(), DisplayName: "Startup", Icon: "/emojis/25b6.png"}},
		Scripts:              []codersdk.WorkspaceAgentScript{{LogPath: "startup.log", Script: strings.Repeat("echo starting \"$HOME\"\n", 100), DisplayName: "Startup Script", RunOnStart: true}},
		Health:               codersdk.WorkspaceAgentHealth{Healthy: true},
	}
	for i := range 4 {
		agent.Apps = append(agent.Apps, codersdk.WorkspaceApp{
			ID: uuid.New(), URL: "http://localhost:8080/?folder=/home/coder", Slug: fmt.Sprintf("app-%d", i), DisplayName: "code-server", Icon: "/icon/code.svg",
		})
	}
	return codersdk.Workspace{
		ID: uuid.New(), CreatedAt: at, UpdatedAt: at, OwnerID: uuid.New(), OwnerName: fmt.Sprintf("user-%d", n), OwnerAvatarURL: "https://example.com/a.png",
		OrganizationID: uuid.New(), OrganizationName: "coder", TemplateID: uuid.New(), TemplateName: "kubernetes", TemplateDisplayName: "Kubernetes",
		TemplateIcon: "/icon/k8s.png", TemplateActiveVersionID: uuid.New(), Outdated: true, Name: fmt.Sprintf("workspace-%d", n),
		AutostartSchedule: &schedule, TTLMillis: &ttl, LastUsedAt: at, DormantAt: &at, DeletingAt: &at, AutomaticUpdates: codersdk.AutomaticUpdatesAlways,
		Health: codersdk.WorkspaceHealth{Healthy: true, FailingAgents: []uuid.UUID{}}, NextStartAt: &at,
		SharedWith: []codersdk.SharedWorkspaceActor{
			{ID: uuid.Max, ActorType: codersdk.SharedWorkspaceActorTypeUser, Name: "Bo", Roles: []codersdk.WorkspaceRole{codersdk.WorkspaceRoleUse}},
			{ID: uuid.NameSpaceDNS, ActorType: codersdk.SharedWorkspaceActorTypeGroup, Name: "devs", Roles: []codersdk.WorkspaceRole{codersdk.WorkspaceRoleAdmin}},
		},
		LatestBuild: codersdk.WorkspaceBuild{
			ID: uuid.New(), CreatedAt: at, UpdatedAt: at, WorkspaceName: fmt.Sprintf("workspace-%d", n), TemplateVersionID: uuid.New(),
			TemplateVersionName: "brave_turing42", BuildNumber: 7, Transition: codersdk.WorkspaceTransitionStart, InitiatorUsername: "ada",
			Job: codersdk.ProvisionerJob{
				ID: uuid.New(), CreatedAt: at, StartedAt: &at, CompletedAt: &at, Error: "why", Status: codersdk.ProvisionerJobSucceeded,
				Tags: map[string]string{"scope": "organization", "owner": ""}, FileID: uuid.New(),
			},
			Reason: codersdk.BuildReasonAutostart, Deadline: codersdk.NewNullTime(at, true), Status: codersdk.WorkspaceStatusRunning, TemplateVersionPresetID: &preset,
			Resources: []codersdk.WorkspaceResource{
				{ID: uuid.New(), Type: "kubernetes_deployment", Name: "main", Agents: []codersdk.WorkspaceAgent{agent}, Metadata: []codersdk.WorkspaceResourceMetadata{{Key: "image", Value: "codercom/enterprise-base:ubuntu"}}},
				{ID: uuid.New(), Type: "kubernetes_persistent_volume_claim", Name: "home"},
			},
		},
	}
}

func TestWhatIsKeptOfAWorkspace(t *testing.T) {
	sdk := sdkWorkspace(1)
	page := encodePage(t, sdk)
	got, err := decodePage(strings.NewReader(page), 10_000)
	if err != nil {
		t.Fatal(err)
	}
	ttl, at := 2*time.Hour, sdk.CreatedAt
	want := WorkspacePage{Count: 1, Workspaces: []Workspace{{
		ID: sdk.ID, Name: "workspace-1", OwnerID: sdk.OwnerID, OwnerName: "user-1", OrganizationID: sdk.OrganizationID, OrganizationName: "coder",
		TemplateName: "kubernetes", TemplateID: sdk.TemplateID, TemplateActiveVersionID: sdk.TemplateActiveVersionID, Outdated: true,
		AutomaticUpdates: "always", Dormant: true, DormantAt: &at, DeletingAt: &at, CreatedAt: at, UpdatedAt: at, LastUsedAt: at, TTL: &ttl,
		Autostart: sdk.AutostartSchedule, Healthy: true, Agents: []Agent{{ID: sdk.LatestBuild.Resources[0].Agents[0].ID, Name: "main", Status: "connected", LifecycleState: "ready",
			Version: "v2.30.0", OperatingSystem: "linux", Architecture: "amd64", Directory: "/home/coder",
			Apps: []App{
				{Slug: "app-0", DisplayName: "code-server"}, {Slug: "app-1", DisplayName: "code-server"},
				{Slug: "app-2", DisplayName: "code-server"}, {Slug: "app-3", DisplayName: "code-server"},
			}}},
		SharedWith: []Share{{ID: uuid.NameSpaceDNS, IsGroup: true, GroupName: "devs", Role: RoleAdmin}, {ID: uuid.Max, Role: RoleUse}},
		LatestBuild: Build{
			ID: sdk.LatestBuild.ID, Number: 7, TemplateVersionID: sdk.LatestBuild.TemplateVersionID, TemplateVersionName: "brave_turing42",
			PresetID: *sdk.LatestBuild.TemplateVersionPresetID, Transition: TransitionStart, Reason: "autostart",
			Status: "running", Error: "why", CreatedAt: at, UpdatedAt: at, Deadline: &at,
		},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("workspace (-want +got):\n%s", diff)
	}
}

func TestPages(t *testing.T) {
	gone := sdkWorkspace(2)
	gone.LatestBuild.Status = codersdk.WorkspaceStatusDeleted
	for name, test := range map[string]struct {
		body        string
		names, want int
		fails       bool
	}{
		"empty":                {body: `{"workspaces":[],"count":12}`, want: 12},
		"count first":          {body: `{"count":3,"workspaces":[]}`, want: 3},
		"null":                 {body: `{"workspaces":null,"count":0}`, fails: true},
		"something new":        {body: `{"news":{"a":[1]},"workspaces":[],"count":1}`, want: 1},
		"one that is deleted":  {body: encodePage(t, gone, sdkWorkspace(3)), names: 1, want: 2},
		"not an object":        {body: `[]`, fails: true},
		"ends too early":       {body: `{"workspaces":[{"name":"a"}`, fails: true},
		"ends after the list":  {body: `{"workspaces":[]`, fails: true},
		"a number for a name":  {body: `{"workspaces":[{"name":1}],"count":1}`, fails: true},
		"a list for the count": {body: `{"workspaces":[],"count":[]}`, fails: true},
		"no JSON":              {body: `<html>`, fails: true},
		"nothing":              {fails: true},
	} {
		page, err := decodePage(strings.NewReader(test.body), 10_000)
		if (err != nil) != test.fails || err == nil && (page.Count != test.want || len(page.Workspaces) != test.names) {
			t.Errorf("%s: %d workspaces of %d, %v", name, len(page.Workspaces), page.Count, err)
		}
	}
}

func encodePage(t testing.TB, workspaces ...codersdk.Workspace) string {
	t.Helper()
	data, err := json.Marshal(codersdk.WorkspacesResponse{Workspaces: workspaces, Count: len(workspaces)})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// BenchmarkPage compares the cost of decoding a page of 1,000 workspaces with the cost of using
// Coder's own types.
func BenchmarkPage(b *testing.B) {
	workspaces := make([]codersdk.Workspace, 1000)
	for i := range workspaces {
		workspaces[i] = sdkWorkspace(i)
	}
	body := encodePage(b, workspaces...)
	for _, way := range []struct {
		name   string
		decode func(io.Reader) error
	}{
		{"ours", func(r io.Reader) error { _, err := decodePage(r, 10_000); return err }},
		{"codersdk", func(r io.Reader) error {
			var page codersdk.WorkspacesResponse
			return json.NewDecoder(r).Decode(&page)
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := way.decode(strings.NewReader(body)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
