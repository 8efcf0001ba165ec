package coderd_test

import (
	"context"
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

// allWorkspaces returns the workspaces of the first page.
func allWorkspaces(ctx context.Context, c *coderd.Client) ([]coderd.Workspace, error) {
	page, err := c.WorkspacePage(ctx, 0, coderd.MaxWorkspacePage)
	return page.Workspaces, err
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
