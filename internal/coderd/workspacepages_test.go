package coderd_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

func TestPagesHaveAllWorkspacesOnce(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	server.AddUser("bob")
	template := server.AddTemplate("coder", "small", nil)
	ids := append(server.AddWorkspaces(30, "bob", template), server.AddWorkspaces(40, "ada", template)...)
	server.BuildWorkspace(ids[69], "stop")
	server.BuildWorkspace(ids[0], "delete")
	var got []string
	for offset := 0; ; offset += 25 {
		page, err := client.WorkspacePage(t.Context(), offset, 25)
		if err != nil || page.Count != 69 {
			t.Fatalf("page at %d of %d: %v", offset, page.Count, err)
		}
		for _, w := range page.Workspaces {
			got = append(got, w.OwnerName+"/"+w.Name)
		}
		if offset+25 >= page.Count {
			break
		}
	}
	var want []string
	for i := 31; i < 70; i++ {
		want = append(want, fmt.Sprintf("ada/scale-%06d", i+1))
	}
	for i := 2; i <= 30; i++ {
		want = append(want, fmt.Sprintf("bob/scale-%06d", i+1))
	}
	// Workspaces that are not running are last.
	want = append(want, "ada/scale-000071")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("workspaces (-want +got):\n%s", diff)
	}
	if n, err := client.WorkspaceCount(t.Context()); err != nil || n != 69 {
		t.Errorf("%d workspaces, %v", n, err)
	}
}

func TestWorkspacesByIDAreAskedForTogether(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	ids := server.AddWorkspaces(coderd.MaxWorkspaceIDs, "ada", server.AddTemplate("coder", "small", nil))
	server.BuildWorkspace(ids[3], "delete")
	server.RemoveWorkspace(ids[4])
	server.ResetRequests()
	workspaces, err := client.WorkspacesByID(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	var got []uuid.UUID
	for _, w := range workspaces {
		got = append(got, w.ID)
	}
	if want := slices.Delete(slices.Clone(ids), 3, 5); !slices.Equal(want, got) {
		t.Errorf("%d workspaces, want %d", len(got), len(want))
	}
	if none, err := client.WorkspacesByID(t.Context(), nil); err != nil || none != nil {
		t.Errorf("none: %v, %v", none, err)
	}
	if _, err := client.WorkspacesByID(t.Context(), append(ids, uuid.New())); err == nil {
		t.Error("more than the address can hold are asked for")
	}
	if diff := cmp.Diff(map[string]int{"GET /api/v2/workspaces": 1}, server.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestThatCoderIsAskedTooOften(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	server.Fail(coderdtest.Fault{Status: http.StatusTooManyRequests, RetryAfter: 17 * time.Second})
	_, err := client.WorkspacePage(t.Context(), 0, 10)
	if wrapped := fmt.Errorf("reading: %w", err); !coderd.IsRateLimited(wrapped) || coderd.RetryAfter(wrapped) != 17*time.Second || coderd.IsUnreachable(wrapped) {
		t.Errorf("got %v after %s", err, coderd.RetryAfter(err))
	}
	if d := coderd.RetryAfter(errors.New("other")); d != 0 {
		t.Errorf("another error says %s", d)
	}
}

func TestAllVersionsAreRead(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	template := server.AddTemplate("coder", "small", nil)
	other := server.AddTemplate("coder", "other", nil)
	want := 1
	for i := range 420 {
		server.AddTemplateVersion(template, fmt.Sprint(i), nil)
		server.AddTemplateVersion(other, fmt.Sprint(i), nil)
		want++
	}
	server.ResetRequests()
	versions, err := client.TemplateVersions(t.Context(), template)
	if err != nil || len(versions) != want {
		t.Fatalf("%d versions, want %d: %v", len(versions), want, err)
	}
	for i, v := range versions[1:] {
		if v.Message != fmt.Sprint(i) {
			t.Fatalf("version %d is %q", i, v.Message)
		}
	}
	if diff := cmp.Diff(map[string]int{"GET /api/v2/templates/{template}/versions": 3}, server.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestArchivedVersionsAreReadWhereTheyAreAskedFor(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	template := server.AddTemplate("coder", "small", nil)
	old := server.AddTemplateVersion(template, "old", nil)
	if err := client.ArchiveVersion(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for i := range 250 {
		server.AddTemplateVersion(template, fmt.Sprint(i), nil)
	}
	offered, err := client.TemplateVersions(t.Context(), template)
	if err != nil || len(offered) != 251 {
		t.Errorf("%d versions are offered, want 251: %v", len(offered), err)
	}
	all, err := client.AllTemplateVersions(t.Context(), template)
	if err != nil || len(all) != 252 || all[1].ID != old || !all[1].Archived || all[2].Archived {
		t.Errorf("%d versions in all, want 252 of which the second is archived: %v", len(all), err)
	}
}

func TestTheValueOfAVariableIsInNoError(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"message":"hunter22 is no value","detail":"hunter22","validations":[{"field":"token","detail":"not hunter22"}]}`))
	}))
	defer web.Close()
	client, err := coderd.New(coderd.Config{URL: web.URL, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CreateTemplateVersion(t.Context(), uuid.New(), coderd.NewTemplateVersion{
		Variables: []coderd.Variable{{Name: "zone", Value: "a"}, {Name: "token", Value: "hunter22"}},
	})
	if !coderd.IsInvalid(err) || strings.Contains(err.Error(), "hunter") || !strings.Contains(err.Error(), "is no value") {
		t.Errorf("got %v", err)
	}
}
