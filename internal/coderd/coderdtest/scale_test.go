package coderdtest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

func TestManyWorkspaces(t *testing.T) {
	kubetest.SkipWithRace(t)
	const n = 10_000
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	ids := server.AddWorkspaces(n, "ada", server.AddTemplate("coder", "small", nil))
	begin := time.Now()
	for range 100 {
		got, err := client.WorkspacesByID(t.Context(), ids[n-100:])
		if err != nil || len(got) != 100 {
			t.Fatalf("%d workspaces, %v", len(got), err)
		}
	}
	for offset := 0; offset < n; offset += coderd.MaxWorkspacePage {
		page, err := client.WorkspacePage(t.Context(), offset, coderd.MaxWorkspacePage)
		if err != nil || len(page.Workspaces) != coderd.MaxWorkspacePage || page.Count != n {
			t.Fatalf("%d of %d workspaces, %v", len(page.Workspaces), page.Count, err)
		}
	}
	t.Logf("100 times 100 by id and all %d by page took %s", n, time.Since(begin))
}

// TestWorkspaceOfNobody shows that a test cannot continue without a workspace that it asked for.
func TestWorkspaceOfNobody(t *testing.T) {
	server := coderdtest.New(t)
	server.AddUser("ada")
	for _, owner := range []string{"ada", "nobody"} {
		func() {
			defer func() {
				if got, want := recover(), fmt.Sprintf("coderdtest: workspace dev needs a user %s and a template %s", owner, uuid.Nil); got != want {
					t.Errorf("panic %v; want %s", got, want)
				}
			}()
			server.AddWorkspace(owner, uuid.Nil, "dev")
		}()
	}
}

func TestChangesBehindTheBack(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	server.AddUser("bob")
	id := server.AddWorkspace("ada", server.AddTemplate("coder", "small", nil), "dev")
	ttl, schedule := 3*time.Hour, "30 9 * * 1-5"
	server.SetTTL(id, &ttl)
	server.SetAutostart(id, &schedule)
	server.SetAutomaticUpdates(id, "always")
	server.RenameWorkspace(id, "Prod")
	server.TransferWorkspace(id, "bob")
	w, err := client.WorkspaceByName(t.Context(), "bob", "prod")
	if err != nil {
		t.Fatal(err)
	}
	if w.ID != id || w.Name != "Prod" || *w.TTL != ttl || *w.Autostart != schedule || w.AutomaticUpdates != "always" {
		t.Errorf("workspace: %+v", w)
	}
	for _, former := range []struct{ owner, name string }{{"ada", "dev"}, {"ada", "prod"}, {"bob", "dev"}} {
		if _, err := client.WorkspaceByName(t.Context(), former.owner, former.name); !coderd.IsNotFound(err) {
			t.Errorf("%s of %s: %v", former.name, former.owner, err)
		}
	}
	server.SetTTL(id, nil)
	server.SetAutostart(id, nil)
	if w, err = client.Workspace(t.Context(), id); err != nil || w.TTL != nil || w.Autostart != nil {
		t.Errorf("workspace: %+v, %v", w, err)
	}
	server.RemoveWorkspace(id)
	if _, err = client.Workspace(t.Context(), id); !coderd.IsNotFound(err) {
		t.Errorf("a removed workspace: %v", err)
	}
	if n, err := client.WorkspaceCount(t.Context()); err != nil || n != 0 {
		t.Errorf("%d workspaces, %v", n, err)
	}
}

func TestLatency(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	server.SetLatency(20 * time.Millisecond)
	begin := time.Now()
	if _, err := client.Me(t.Context()); err != nil || time.Since(begin) < 20*time.Millisecond {
		t.Errorf("after %s: %v", time.Since(begin), err)
	}
}

func TestBuildsThatNobodyTakesWait(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	file := server.AddFile(map[string]string{"main.tf": ""})
	org := server.OrganizationID("coder")
	create := func(tags map[string]string) coderd.TemplateVersion {
		v, err := client.CreateTemplateVersion(t.Context(), org, coderd.NewTemplateVersion{FileID: file, Tags: tags})
		if err == nil {
			v, err = client.TemplateVersion(t.Context(), v.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := create(map[string]string{"gpu": "yes"}); v.Status != "pending" || v.MatchedProvisioners != 0 {
		t.Errorf("of tags that nobody has: %+v", v)
	}
	if v := create(nil); v.Status != "succeeded" {
		t.Errorf("without tags: %+v", v)
	}
	jobs, err := client.ActiveJobs(t.Context(), org)
	if err != nil || len(jobs) != 1 {
		t.Errorf("active jobs: %+v, %v", jobs, err)
	}
}
