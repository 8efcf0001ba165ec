package coderd_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func (c *contract) newWorkspace(t *testing.T) {
	ctx := t.Context()
	name := "dev-" + c.suffix
	unknown := uuid.New()
	_, err := c.admin.CreateWorkspace(ctx, c.member, coderd.NewWorkspace{Name: name, TemplateID: unknown})
	expect(t, err, refusal{http.StatusBadRequest, fmt.Sprintf("Template %q doesn't exist.", unknown), []string{"template_id"}})
	_, err = c.admin.CreateWorkspace(ctx, c.member, coderd.NewWorkspace{Name: name, TemplateVersionID: unknown})
	expect(t, err, refusal{http.StatusBadRequest, fmt.Sprintf("Template version %q doesn't exist.", unknown), []string{"template_version_id"}})
	_, err = c.admin.CreateWorkspace(ctx, c.member, coderd.NewWorkspace{Name: "not a name", TemplateID: c.template.ID})
	expect(t, err, refusal{http.StatusBadRequest, invalid, []string{"name"}})
	_, err = c.admin.CreateWorkspace(ctx, "nobody-"+c.suffix, coderd.NewWorkspace{Name: name, TemplateID: c.template.ID})
	expect(t, err, noSuchUser)
	short, never := 10*time.Second, "sometimes"
	_, err = c.admin.CreateWorkspace(ctx, c.member, coderd.NewWorkspace{Name: name, TemplateID: c.template.ID, TTL: &short})
	expect(t, err, refusal{http.StatusBadRequest, "Invalid Workspace Time to Shutdown.", []string{"ttl_ms"}})
	_, err = c.admin.CreateWorkspace(ctx, c.member, coderd.NewWorkspace{Name: name, TemplateID: c.template.ID, Autostart: &never})
	expect(t, err, refusal{http.StatusBadRequest, "Invalid Autostart Schedule.", []string{"schedule"}})

	c.hold()
	defer c.release()
	pending := must[coderd.TemplateVersion](t)(c.admin.CreateTemplateVersion(ctx, c.org.ID,
		coderd.NewTemplateVersion{TemplateID: &c.template.ID, FileID: c.fileID, Message: "pending"}))
	_, err = c.admin.CreateWorkspace(ctx, c.member, coderd.NewWorkspace{Name: name, TemplateVersionID: pending.ID})
	expect(t, err, refusal{Status: http.StatusNotAcceptable})

	ttl, schedule := 90*time.Minute+30*time.Second, "CRON_TZ=Europe/Berlin 30 9 * * 1-5"
	w := must[coderd.Workspace](t)(c.admin.CreateWorkspace(ctx, c.member, coderd.NewWorkspace{
		Name: name, TemplateID: c.template.ID, TTL: &ttl, Autostart: &schedule,
	}))
	if b := w.LatestBuild; b.Status != "pending" || b.Transition != coderd.TransitionStart || b.Number != 1 {
		t.Errorf("first build: %+v", b)
	}
	c.workspace = w
	expect(t, transit(ctx, c.admin, w.ID, coderd.TransitionStop), refusal{http.StatusConflict, "A workspace build is already active.", nil})
	_, err = c.admin.CreateWorkspace(ctx, c.member, coderd.NewWorkspace{Name: name, TemplateID: c.template.ID})
	expect(t, err, refusal{http.StatusConflict, fmt.Sprintf("Workspace %q already exists.", name), []string{"name"}})
}

// becomes waits for the end of a build.
func (c *contract) becomes(t *testing.T, status string) coderd.Workspace {
	t.Helper()
	var w coderd.Workspace
	polltest.Eventually(t, "the workspace to be "+status, func() bool {
		w = must[coderd.Workspace](t)(c.admin.Workspace(t.Context(), c.workspace.ID))
		return w.LatestBuild.Status == status
	})
	return w
}

func (c *contract) readWorkspace(t *testing.T) {
	ctx := t.Context()
	w := c.becomes(t, "running")
	active := must[coderd.Template](t)(c.admin.Template(ctx, c.template.ID)).ActiveVersionID
	if w.OwnerName != c.member || w.OrganizationName != "coder" || w.TemplateName != c.template.Name || w.TemplateID != c.template.ID ||
		w.Outdated || w.Dormant || !w.Healthy || w.LatestBuild.TemplateVersionID != active || w.LatestBuild.Error != "" {
		t.Errorf("workspace: %+v", w)
	}
	if w.TTL == nil || *w.TTL != 90*time.Minute {
		t.Errorf("TTL: %v, want whole minutes", w.TTL)
	}
	if w.Autostart == nil || *w.Autostart != "CRON_TZ=Europe/Berlin 30 9 * * 1-5" {
		t.Errorf("autostart: %v", w.Autostart)
	}
	// A real Coder reads the build and its job one after the other, so a workspace may be running
	// for a moment before it has a deadline.
	polltest.Eventually(t, "the deadline", func() bool {
		return must[coderd.Workspace](t)(c.admin.Workspace(ctx, w.ID)).LatestBuild.Deadline != nil
	})
	if named := must[coderd.Workspace](t)(c.admin.WorkspaceByName(ctx, c.member, c.workspace.Name)); named.ID != w.ID {
		t.Errorf("workspace by name: %+v", named)
	}
	all := must[[]coderd.Workspace](t)(allWorkspaces(ctx, c.admin))
	if !slices.ContainsFunc(all, func(o coderd.Workspace) bool { return o.ID == w.ID && o.LatestBuild.ID == w.LatestBuild.ID }) {
		t.Errorf("the workspace is not among %d", len(all))
	}
	_, err := c.admin.WorkspaceByName(ctx, c.member, "other")
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})
	_, err = c.admin.WorkspaceByName(ctx, "nobody-"+c.suffix, c.workspace.Name)
	expect(t, err, noSuchUser)
	_, err = c.admin.Workspace(ctx, uuid.New())
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})
	expect(t, c.admin.DeleteTemplate(ctx, c.template.ID),
		refusal{http.StatusBadRequest, "All workspaces must be deleted before a template can be removed.", nil})
}

func (c *contract) schedule(t *testing.T) {
	ctx, id := t.Context(), c.workspace.ID
	short, long, day := time.Second, 31*24*time.Hour, 24*time.Hour
	expect(t, c.admin.SetTTL(ctx, id, &short), refusal{http.StatusBadRequest, "Error updating workspace time until shutdown.", []string{"ttl_ms"}})
	expect(t, c.admin.SetTTL(ctx, id, &long), refusal{http.StatusBadRequest, "Error updating workspace time until shutdown.", []string{"ttl_ms"}})
	ok(t, c.admin.SetTTL(ctx, id, &day))
	wrong, right := "30 9 1 * 1-5", "0 8 * * 1-5"
	expect(t, c.admin.SetAutostart(ctx, id, &wrong), refusal{http.StatusBadRequest, "Invalid autostart schedule.", []string{"schedule"}})
	ok(t, c.admin.SetAutostart(ctx, id, &right))
	w := must[coderd.Workspace](t)(c.admin.Workspace(ctx, id))
	if w.TTL == nil || *w.TTL != day || w.Autostart == nil || *w.Autostart != right {
		t.Errorf("TTL %v and autostart %v", w.TTL, w.Autostart)
	}
	ok(t, c.admin.SetTTL(ctx, id, nil))
	ok(t, c.admin.SetAutostart(ctx, id, nil))
	w = must[coderd.Workspace](t)(c.admin.Workspace(ctx, id))
	if w.TTL != nil || w.Autostart != nil || w.LatestBuild.Deadline != nil {
		t.Errorf("TTL %v, autostart %v, deadline %v; want none", w.TTL, w.Autostart, w.LatestBuild.Deadline)
	}
}

func (c *contract) builds(t *testing.T) {
	ctx := t.Context()
	expect(t, transit(ctx, c.admin, uuid.New(), coderd.TransitionStop), refusal{http.StatusNotFound, notFound, nil})
	expect(t, transit(ctx, c.admin, c.workspace.ID, "explode"), refusal{http.StatusBadRequest, invalid, []string{"transition"}})
	ok(t, transit(ctx, c.admin, c.workspace.ID, coderd.TransitionStop))
	if w := c.becomes(t, "stopped"); w.LatestBuild.Number != 2 || w.LatestBuild.Transition != coderd.TransitionStop || len(w.Agents) != 0 {
		t.Errorf("stopped: %+v", w)
	}
	ok(t, transit(ctx, c.admin, c.workspace.ID, coderd.TransitionStart))
	c.becomes(t, "running")
	newest := c.newVersion(t, &c.template.ID, c.fileID, "third")
	ok(t, c.admin.SetActiveVersion(ctx, c.template.ID, newest.ID))
	if w := must[coderd.Workspace](t)(c.admin.Workspace(ctx, c.workspace.ID)); !w.Outdated {
		t.Error("a workspace of an older version is not outdated")
	}
}

func (c *contract) deleteWorkspace(t *testing.T) {
	ctx := t.Context()
	ok(t, transit(ctx, c.admin, c.workspace.ID, coderd.TransitionDelete))
	var err error
	polltest.Eventually(t, "the workspace to be gone", func() bool {
		_, err = c.admin.Workspace(ctx, c.workspace.ID)
		return err != nil
	})
	// The parameter that the message names depends on the release.
	expect(t, err, refusal{Status: http.StatusGone})
	if said := fmt.Sprintf("Workspace %q was deleted, you can view this workspace by specifying ", c.workspace.ID); !strings.Contains(err.Error(), said) {
		t.Errorf("a deleted workspace: %v, want %s", err, said)
	}
	if !coderd.IsNotFound(err) {
		t.Error("a deleted workspace is not found")
	}
	_, err = c.admin.WorkspaceByName(ctx, c.member, c.workspace.Name)
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})
	for _, w := range must[[]coderd.Workspace](t)(allWorkspaces(ctx, c.admin)) {
		if w.ID == c.workspace.ID {
			t.Error("a deleted workspace is listed")
		}
	}
	expect(t, transit(ctx, c.admin, c.workspace.ID, coderd.TransitionStart),
		refusal{http.StatusConflict, "Cannot start a deleted workspace!", nil})
}

func (c *contract) logout(t *testing.T) {
	ctx := t.Context()
	token := must[string](t)(c.anonymous.Login(ctx, contractEmail, contractPassword))
	session := c.client(t, token)
	ok(t, session.Logout(ctx))
	_, err := session.Me(ctx)
	expect(t, err, refusal{http.StatusUnauthorized, signedOut, nil})
	expect(t, session.Logout(ctx), refusal{http.StatusUnauthorized, signedOut, nil})
}

// transit queues a build with only a transition.
func transit(ctx context.Context, client *coderd.Client, workspace uuid.UUID, transition coderd.Transition) error {
	_, err := client.Build(ctx, workspace, coderd.BuildRequest{Transition: transition})
	return err
}
