package coderd_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func (c *contract) uploads(t *testing.T) {
	ctx := t.Context()
	files := map[string]string{"main.tf": "resource \"terraform_data\" \"nothing\" {}\n# " + c.suffix + "\n", "docs/read.md": "ä\n"}
	c.files = must[[]byte](t)(coderd.PackFiles(files, nil))
	c.fileID = must[uuid.UUID](t)(c.admin.UploadArchive(ctx, c.files))
	if again := must[uuid.UUID](t)(c.admin.UploadArchive(ctx, c.files)); again != c.fileID {
		t.Errorf("the same bytes have the ids %s and %s", c.fileID, again)
	}
	archive := must[*coderd.Archive](t)(c.admin.DownloadArchive(ctx, c.fileID))
	if diff := cmp.Diff(files, archive.TextFiles()); diff != "" {
		t.Errorf("files (-sent +read):\n%s", diff)
	}
	_, err := c.admin.DownloadArchive(ctx, uuid.New())
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})
	_, err = c.admin.UploadArchive(ctx, []byte("no archive"))
	expect(t, err, refusal{http.StatusBadRequest, "Incomplete .zip archive file.", nil})
}

func (c *contract) versions(t *testing.T) {
	ctx := t.Context()
	_, err := c.admin.CreateTemplateVersion(ctx, c.org.ID, coderd.NewTemplateVersion{FileID: uuid.New()})
	expect(t, err, refusal{http.StatusNotFound, "File not found.", nil})
	unknown := uuid.New()
	_, err = c.admin.CreateTemplateVersion(ctx, c.org.ID, coderd.NewTemplateVersion{FileID: c.fileID, TemplateID: &unknown})
	expect(t, err, refusal{http.StatusNotFound, "Template does not exist.", nil})
	_, err = c.admin.TemplateVersion(ctx, uuid.New())
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})

	c.version = c.newVersion(t, nil, c.fileID, "first")
	if v := c.version; v.Status != "succeeded" || v.TemplateID != nil || v.FileID != c.fileID || v.Message != "first" ||
		v.CreatedBy != contractUser || v.Name == "" || v.Error != "" {
		t.Errorf("first version: %+v", v)
	}
}

// newVersion creates a version and waits for its build.
func (c *contract) newVersion(t *testing.T, template *uuid.UUID, file uuid.UUID, message string) coderd.TemplateVersion {
	t.Helper()
	created := must[coderd.TemplateVersion](t)(c.admin.CreateTemplateVersion(t.Context(), c.org.ID,
		coderd.NewTemplateVersion{TemplateID: template, FileID: file, Message: message}))
	if created.Status != "pending" {
		t.Errorf("a new version is %s", created.Status)
	}
	var built coderd.TemplateVersion
	polltest.Eventually(t, "the end of the build", func() bool {
		built = must[coderd.TemplateVersion](t)(c.admin.TemplateVersion(t.Context(), created.ID))
		return built.Status != "pending" && built.Status != "running"
	})
	return built
}

func (c *contract) templates(t *testing.T) {
	ctx := t.Context()
	name := "small-" + c.suffix
	_, err := c.admin.CreateTemplate(ctx, c.org.ID, coderd.NewTemplate{Name: "not a name", VersionID: c.version.ID})
	expect(t, err, refusal{http.StatusBadRequest, invalid, []string{"name"}})
	unknown := uuid.New()
	_, err = c.admin.CreateTemplate(ctx, c.org.ID, coderd.NewTemplate{Name: name, VersionID: unknown})
	expect(t, err, refusal{http.StatusNotFound, fmt.Sprintf("Template version %q does not exist.", unknown), []string{"template_version_id"}})
	c.template = must[coderd.Template](t)(c.admin.CreateTemplate(ctx, c.org.ID, coderd.NewTemplate{
		Name: name, DisplayName: "Small", Description: "of the contract", Icon: "/icon/k8s.png", VersionID: c.version.ID,
	}))
	if tm := c.template; tm.ActiveVersionID != c.version.ID || tm.OrganizationName != "coder" || tm.DisplayName != "Small" || tm.Deprecated {
		t.Errorf("template: %+v", tm)
	}
	_, err = c.admin.CreateTemplate(ctx, c.org.ID, coderd.NewTemplate{Name: name, VersionID: c.version.ID})
	expect(t, err, refusal{http.StatusConflict, fmt.Sprintf("Template with name %q already exists.", name), []string{"name"}})
	_, err = c.admin.CreateTemplate(ctx, c.org.ID, coderd.NewTemplate{Name: "other-" + c.suffix, VersionID: c.version.ID})
	expect(t, err, refusal{http.StatusBadRequest, fmt.Sprintf("Template version %s is already part of a template", c.version.ID), []string{"template_version_id"}})
	_, err = c.admin.TemplateByName(ctx, c.org.ID, "other-"+c.suffix)
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})

	if read := must[coderd.Template](t)(c.admin.TemplateByName(ctx, c.org.ID, name)); read.ID != c.template.ID {
		t.Errorf("template by name: %+v", read)
	}
	all := must[[]coderd.Template](t)(c.admin.Templates(ctx))
	if !slices.ContainsFunc(all, func(tm coderd.Template) bool { return tm.ID == c.template.ID }) {
		t.Errorf("the template is not among %+v", all)
	}
}

// policy checks that an edit of the metadata changes nothing else.
func (c *contract) policy(t *testing.T) {
	ctx := t.Context()
	member := c.client(t, must[string](t)(c.anonymous.Login(ctx, c.member+"@example.com", contractPassword)))
	for action, want := range map[string]bool{"use": true, "update": false} {
		if may := must[bool](t)(member.May(ctx, coderd.Permission{Resource: "template", Action: action, ID: c.template.ID, Organization: c.org.ID})); may != want {
			t.Errorf("a member may %s the template: %t", action, may)
		}
	}
	before := c.rawTemplate(t, http.MethodPatch, fmt.Sprintf(
		`{"name": %q, "default_ttl_ms": 7200000, "activity_bump_ms": 1800000, "allow_user_cancel_workspace_jobs": true,
		  "allow_user_autostart": true, "allow_user_autostop": true, "cors_behavior": "passthru", "use_classic_parameter_flow": true}`, c.template.Name))
	title := "Small but fine"
	edited := must[coderd.Template](t)(c.admin.UpdateTemplate(ctx, c.template.ID, coderd.TemplateEdit{DisplayName: &title}))
	if edited.DisplayName != title || edited.Description != "of the contract" {
		t.Errorf("edited: %+v", edited)
	}
	before["display_name"] = title
	after := c.rawTemplate(t, http.MethodGet, "")
	for _, changes := range []string{"updated_at", "build_time_stats", "active_user_count"} {
		delete(before, changes)
		delete(after, changes)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the edit changed more than the display name (-before +after):\n%s", diff)
	}
	// Zero and false are values as well.
	must[coderd.Template](t)(c.admin.UpdateTemplate(ctx, c.template.ID,
		coderd.TemplateEdit{DefaultTTL: new(time.Duration(0)), ActivityBump: new(time.Duration(0)), AllowUserCancelWorkspaceJobs: new(false)}))
	before["default_ttl_ms"], before["activity_bump_ms"], before["allow_user_cancel_workspace_jobs"] = 0.0, 0.0, false
	after = c.rawTemplate(t, http.MethodGet, "")
	for _, changes := range []string{"updated_at", "build_time_stats", "active_user_count"} {
		delete(after, changes)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the edit to zero and false (-want +got):\n%s", diff)
	}
	edited = must[coderd.Template](t)(c.admin.Template(ctx, c.template.ID))
	same := must[coderd.Template](t)(c.admin.UpdateTemplate(ctx, c.template.ID, coderd.TemplateEdit{DisplayName: &title}))
	if !same.UpdatedAt.Equal(edited.UpdatedAt) {
		t.Errorf("an edit that changes nothing moved the template from %s to %s", edited.UpdatedAt, same.UpdatedAt)
	}
	bad := " with a blank in front"
	_, err := c.admin.UpdateTemplate(ctx, c.template.ID, coderd.TemplateEdit{DisplayName: &bad})
	expect(t, err, refusal{http.StatusBadRequest, invalid, []string{"display_name"}})
	_, err = c.admin.UpdateTemplate(ctx, uuid.New(), coderd.TemplateEdit{DisplayName: &title})
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})
}

func (c *contract) activeVersion(t *testing.T) {
	ctx := t.Context()
	broken := must[[]byte](t)(coderd.PackFiles(map[string]string{"main.tf": "resource \"terraform_data\" \"a\" { input = nothing.at.all }\n# " + c.suffix}, nil))
	c.fail()
	failed := c.newVersion(t, &c.template.ID, must[uuid.UUID](t)(c.admin.UploadArchive(ctx, broken)), "broken")
	c.release()
	if failed.Status != "failed" || failed.Error == "" || failed.TemplateID == nil || *failed.TemplateID != c.template.ID {
		t.Errorf("broken version: %+v", failed)
	}
	expect(t, c.admin.SetActiveVersion(ctx, c.template.ID, failed.ID),
		refusal{http.StatusForbidden, "Only versions that have been built successfully can be promoted.", nil})
	expect(t, c.admin.SetActiveVersion(ctx, c.template.ID, uuid.New()), refusal{http.StatusNotFound, "Template version not found.", nil})
	stray := c.newVersion(t, nil, c.fileID, "of no template")
	expect(t, c.admin.SetActiveVersion(ctx, c.template.ID, stray.ID),
		refusal{http.StatusBadRequest, "The provided template version doesn't belong to the specified template.", nil})

	second := c.newVersion(t, &c.template.ID, c.fileID, "second")
	if active := must[coderd.Template](t)(c.admin.Template(ctx, c.template.ID)).ActiveVersionID; active != c.version.ID {
		t.Errorf("a version became active by itself: %s", active)
	}
	ok(t, c.admin.SetActiveVersion(ctx, c.template.ID, second.ID))
	if active := must[coderd.Template](t)(c.admin.Template(ctx, c.template.ID)).ActiveVersionID; active != second.ID {
		t.Errorf("active version: %s, want %s", active, second.ID)
	}
	var messages []string
	for _, v := range must[[]coderd.TemplateVersion](t)(c.admin.TemplateVersions(ctx, c.template.ID)) {
		messages = append(messages, v.Message+" "+v.Status)
	}
	if diff := cmp.Diff([]string{"first succeeded", "broken failed", "second succeeded"}, messages); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}

	_, err := c.admin.CreateWorkspace(ctx, coderd.Me, coderd.NewWorkspace{Name: "w-" + c.suffix, TemplateVersionID: failed.ID})
	expect(t, err, refusal{http.StatusBadRequest, fmt.Sprintf(
		"The provided template version %q has failed to import: %q. You cannot build workspaces with it!", failed.Name, failed.Error), nil})
}

func (c *contract) deleteTemplate(t *testing.T) {
	ctx := t.Context()
	ok(t, c.admin.DeleteTemplate(ctx, c.template.ID))
	expect(t, c.admin.DeleteTemplate(ctx, c.template.ID), refusal{http.StatusNotFound, notFound, nil})
	_, err := c.admin.Template(ctx, c.template.ID)
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})
	_, err = c.admin.TemplateByName(ctx, c.org.ID, c.template.Name)
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})
}
