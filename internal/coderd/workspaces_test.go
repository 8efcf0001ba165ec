package coderd_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

func TestWorkspacesReadsAllPages(t *testing.T) {
	for count, requests := range map[int]int{0: 1, 1: 1, 250: 1, 251: 2, 620: 3} {
		server := coderdtest.New(t)
		client := newClient(t, server, server.AddUser("ada", "owner"))
		template := server.AddTemplate("coder", "small", nil)
		for i := range count {
			server.AddWorkspace("ada", template, fmt.Sprintf("w%d", i))
		}
		server.ResetRequests()
		all, err := client.Workspaces(t.Context())
		if err != nil || len(all) != count {
			t.Errorf("%d workspaces: got %d, %v", count, len(all), err)
		}
		if got := server.Requests()["GET /api/v2/workspaces"]; got != requests {
			t.Errorf("%d workspaces: %d requests, want %d", count, got, requests)
		}
	}
}

// Coder sorts running workspaces first, so a workspace that stops between two requests moves to the
// second page and is returned twice.
func TestWorkspacesAreToldOnceWhilePagesMove(t *testing.T) {
	server := coderdtest.New(t)
	token := server.AddUser("ada", "owner")
	template := server.AddTemplate("coder", "small", nil)
	var ids []uuid.UUID
	for i := range 300 {
		ids = append(ids, server.AddWorkspace("ada", template, fmt.Sprintf("w%03d", i)))
	}
	pages := 0
	client, err := coderd.New(coderd.Config{URL: server.URL, Token: token, Transport: seeing(func(r *http.Request) {
		if pages++; pages == 2 {
			server.BuildWorkspace(ids[0], "stop")
			server.BuildWorkspace(ids[299], "delete")
		}
	})})
	if err != nil {
		t.Fatal(err)
	}
	all, err := client.Workspaces(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uuid.UUID]int{}
	for _, w := range all {
		seen[w.ID]++
	}
	if seen[ids[0]] != 1 || seen[ids[299]] != 0 || pages != 2 {
		t.Errorf("the one that stopped: %d times, the deleted one: %d times, pages: %d", seen[ids[0]], seen[ids[299]], pages)
	}
}

func TestWorkspacesFailsAsAWhole(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	template := server.AddTemplate("coder", "small", nil)
	for i := range 251 {
		server.AddWorkspace("ada", template, fmt.Sprintf("w%d", i))
	}
	// The first page is delayed and succeeds, the second one fails.
	server.Fail(coderdtest.Fault{PathPrefix: "/api/v2/workspaces", Delay: time.Nanosecond, Times: 1})
	server.Fail(coderdtest.Fault{PathPrefix: "/api/v2/workspaces", Status: 503})
	if all, err := client.Workspaces(t.Context()); !coderd.IsUnreachable(err) || all != nil {
		t.Errorf("%d workspaces and %v, want none and unreachable", len(all), err)
	}
}

func TestWorkspaceIsConverted(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	template := server.AddTemplate("coder", "small", nil)
	id := server.AddWorkspace("ada", template, "dev")
	server.SetAgents(id, coderdtest.Agent{
		Name: "main", Status: "disconnected", LifecycleState: "ready", Version: "v2.30.0", Directory: "/home/coder",
		Apps: []codersdk.WorkspaceApp{
			{Slug: "web", DisplayName: "Web", URL: "http://localhost:8080", Health: "healthy", Subdomain: true, SubdomainName: "web--main--dev--ada"},
			{Slug: "docs", URL: "https://docs.example.com", External: true, Health: "disabled"},
			{Slug: "top", Command: "top", Hidden: true},
		},
	})
	used := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	server.SetLastUsed(id, used)
	server.SetDormant(id, true)
	w, err := client.Workspace(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if !w.Dormant || w.Healthy || !w.LastUsedAt.Equal(used) || len(w.Agents) != 1 || w.Agents[0].ID == uuid.Nil {
		t.Fatalf("%+v", w)
	}
	want := coderd.Agent{
		ID: w.Agents[0].ID, Name: "main", Status: "disconnected", LifecycleState: "ready", Unhealthy: "agent has lost connection",
		Version: "v2.30.0", OperatingSystem: "linux", Architecture: "amd64", Directory: "/home/coder",
		Apps: []coderd.App{
			{Slug: "web", DisplayName: "Web", Health: "healthy", SubdomainName: "web--main--dev--ada"},
			{Slug: "docs", Health: "disabled", ExternalURL: "https://docs.example.com"},
			{Slug: "top", Command: "top", Hidden: true},
		},
	}
	if diff := cmp.Diff(want, w.Agents[0]); diff != "" {
		t.Errorf("agent (-want +got):\n%s", diff)
	}
}

func TestAFailedBuildSaysWhy(t *testing.T) {
	server := coderdtest.New(t, coderdtest.WithManualBuilds())
	client := newClient(t, server, server.AddUser("ada", "owner"))
	template := server.AddTemplate("coder", "small", nil)
	server.SetBuildResult("dev", coderdtest.BuildResult{Error: "no more machines"})
	w, err := client.CreateWorkspace(t.Context(), "ada", coderd.NewWorkspace{Name: "dev", TemplateID: template})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"pending ", "starting ", "failed no more machines"} {
		w, err = client.Workspace(t.Context(), w.ID)
		if got := w.LatestBuild.Status + " " + w.LatestBuild.Error; err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
		server.AdvanceBuilds()
	}
}

func TestAWriteWhoseAnswerIsLostIsUnknown(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	id := server.AddWorkspace("ada", server.AddTemplate("coder", "small", nil), "dev")
	server.Fail(coderdtest.Fault{Method: http.MethodPost, DropConnection: true, Processed: true})
	if err := transit(t.Context(), client, id, coderd.TransitionStop); !coderd.IsUnreachable(err) {
		t.Errorf("%v, want unreachable", err)
	}
	if got := strings.Join(server.Transitions(id), " "); got != "start stop" {
		t.Errorf("builds: %s", got)
	}
}
