package coderd_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// parameterSource defines parameters of every type. Required is set for those without a default.
const parameterSource = `
terraform {
  required_providers {
    coder = {
      source = "coder/coder"
    }
  }
}
variable "token" {
  type        = string
  description = "Of the registry"
  sensitive   = true
}
variable "zone" {
  type    = string
  default = "a"
}
data "coder_parameter" "size" {
  name         = "size"
  display_name = "Size"
  type         = "number"
  default      = "2"
  mutable      = true
  validation {
    min   = 1
    max   = 10
    error = "from 1 to 10"
  }
}
data "coder_parameter" "region" {
  name    = "region"
  default = "eu"
  option {
    name        = "Europe"
    value       = "eu"
    description = "Near to us"
  }
  option {
    name  = "America"
    value = "us"
  }
}
data "coder_parameter" "note" {
  name    = "note"
  type    = "string"
  mutable = true
  validation {
    regex = "^[a-z]*$"
    error = "small letters only"
  }
}
data "coder_parameter" "once" {
  name      = "once"
  type      = "string"
  default   = "no"
  mutable   = true
  ephemeral = true
}
data "coder_parameter" "speed" {
  count   = data.coder_parameter.region.value == "us" ? 1 : 0
  name    = "speed"
  mutable = true
}
data "coder_workspace_preset" "big" {
  name = "Big"
  parameters = {
    "size" = "8"
    "note" = "large"
  }
}
`

func small(n int32) *int32 { return &n }

// imports checks the data of a version: its variables, parameters, presets, tags and name.
func (c *contract) imports(t *testing.T) {
	ctx := t.Context()
	packed := must[[]byte](t)(coderd.PackFiles(map[string]string{"main.tf": parameterSource + "# " + c.suffix}, nil))
	file := must[uuid.UUID](t)(c.admin.UploadArchive(ctx, packed))
	c.waiting(t, file)

	failed := c.newVersion(t, nil, file, "no variables")
	if failed.Status != "failed" || failed.Error != "update job: required template variables need values: token" {
		t.Errorf("a version without a required variable is %s: %s", failed.Status, failed.Error)
	}
	v := c.importVersion(t, coderd.NewTemplateVersion{
		FileID: file, Name: "one", Variables: []coderd.Variable{{Name: "token", Value: "hunter22"}, {Name: "zone", Value: "b"}},
	})
	if v.Status != "succeeded" || v.Name != "one" || v.Archived || v.MatchedProvisioners != -1 ||
		!cmp.Equal(v.ProvisionerTags, map[string]string{"scope": "organization", "owner": ""}) {
		t.Fatalf("version: %+v", v)
	}
	variables := must[[]coderd.VersionVariable](t)(c.admin.VersionVariables(ctx, v.ID))
	if diff := cmp.Diff([]coderd.VersionVariable{
		{Name: "token", Description: "Of the registry", Type: "string", Required: true, Sensitive: true},
		{Name: "zone", Type: "string", Value: "b", Default: "a"},
	}, variables); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	parameters := must[[]coderd.VersionParameter](t)(c.admin.VersionParameters(ctx, v.ID))
	if diff := cmp.Diff([]coderd.VersionParameter{
		{Name: "note", Type: "string", FormType: "input", Required: true, Mutable: true, Regex: "^[a-z]*$", RegexMessage: "small letters only"},
		{Name: "once", Type: "string", FormType: "input", Default: "no", Mutable: true, Ephemeral: true},
		{Name: "region", Type: "string", FormType: "radio", Default: "eu", Options: []coderd.ParameterOption{
			{Name: "Europe", Value: "eu", Description: "Near to us"}, {Name: "America", Value: "us"},
		}},
		{Name: "size", DisplayName: "Size", Type: "number", FormType: "input", Default: "2", Mutable: true, Min: small(1), Max: small(10), RegexMessage: "from 1 to 10"},
	}, parameters, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
	presets := must[[]coderd.VersionPreset](t)(c.admin.VersionPresets(ctx, v.ID))
	if len(presets) != 1 || presets[0].ID == uuid.Nil {
		t.Fatalf("presets: %+v", presets)
	}
	c.preset = presets[0]
	want := coderd.VersionPreset{ID: c.preset.ID, Name: "Big", Parameters: []coderd.Parameter{{Name: "note", Value: "large"}, {Name: "size", Value: "8"}}}
	if diff := cmp.Diff(want, c.preset); diff != "" {
		t.Errorf("preset (-want +got):\n%s", diff)
	}
	c.importedFile, c.imported = file, v
	c.newPolicy(t)
}

// waiting checks a version whose build no provisioner runs.
func (c *contract) waiting(t *testing.T, file uuid.UUID) {
	ctx := t.Context()
	v := must[coderd.TemplateVersion](t)(c.admin.CreateTemplateVersion(ctx, c.org.ID,
		coderd.NewTemplateVersion{FileID: file, Tags: map[string]string{"moon": "yes"}, Variables: []coderd.Variable{{Name: "token", Value: "hunter22"}}}))
	if v.Status != "pending" || v.MatchedProvisioners != 0 || v.AvailableProvisioners != 0 ||
		!cmp.Equal(v.ProvisionerTags, map[string]string{"scope": "organization", "owner": "", "moon": "yes"}) {
		t.Errorf("version that nobody builds: %+v", v)
	}
	if read := must[coderd.TemplateVersion](t)(c.admin.TemplateVersion(ctx, v.ID)); read.MatchedProvisioners != 0 {
		t.Errorf("version that nobody builds, read again: %+v", read)
	}
	if _, err := c.admin.VersionParameters(ctx, v.ID); !isTooEarly(err) {
		t.Errorf("parameters before the import: %v", err)
	}
	if _, err := c.admin.EvaluateParameters(ctx, v.ID, uuid.New(), nil); !isTooEarly(err) {
		t.Errorf("evaluation before the import: %v", err)
	}
	if _, err := c.admin.VersionVariables(ctx, v.ID); !isTooEarly(err) {
		t.Errorf("variables before the import: %v", err)
	}
	if presets := must[[]coderd.VersionPreset](t)(c.admin.VersionPresets(ctx, v.ID)); len(presets) != 0 {
		t.Errorf("presets before the import: %+v", presets)
	}
	imports := func(j coderd.Job) bool { return j.TemplateVersion == v.ID }
	jobs := must[[]coderd.Job](t)(c.admin.ActiveJobs(ctx, c.org.ID))
	if !slices.ContainsFunc(jobs, imports) {
		t.Errorf("active jobs: %+v, want version %s", jobs, v.ID)
	}
	ok(t, c.admin.CancelVersion(ctx, v.ID))
	if read := must[coderd.TemplateVersion](t)(c.admin.TemplateVersion(ctx, v.ID)); read.Status != "canceled" {
		t.Errorf("a version that was cancelled before its build is %s", read.Status)
	}
	expect(t, c.admin.CancelVersion(ctx, v.ID), refusal{http.StatusBadRequest, "Job has already completed!", nil})
	if jobs := must[[]coderd.Job](t)(c.admin.ActiveJobs(ctx, c.org.ID)); slices.ContainsFunc(jobs, imports) {
		t.Error("a job that was cancelled is active")
	}
	_, err := c.admin.VersionParameters(ctx, uuid.New())
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})
	_, err = c.admin.ActiveJobs(ctx, uuid.New())
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})
}

// importVersion creates a version and waits for its build.
func (c *contract) importVersion(t *testing.T, wanted coderd.NewTemplateVersion) coderd.TemplateVersion {
	t.Helper()
	v := must[coderd.TemplateVersion](t)(c.admin.CreateTemplateVersion(t.Context(), c.org.ID, wanted))
	if v.MatchedProvisioners < 1 || v.AvailableProvisioners < 1 {
		t.Errorf("nobody builds %+v", v)
	}
	polltest.Eventually(t, "the end of the build", func() bool {
		v = must[coderd.TemplateVersion](t)(c.admin.TemplateVersion(t.Context(), v.ID))
		return v.Status != "pending" && v.Status != "running"
	})
	return v
}

// newPolicy creates a template with a policy, and changes it.
func (c *contract) newPolicy(t *testing.T) {
	ctx := t.Context()
	hours, minutes, yes, no, passthru, wrong := 2*time.Hour, 30*time.Minute, true, false, "passthru", "sometimes"
	wanted := coderd.NewTemplate{Name: "asking-" + c.suffix, VersionID: c.imported.ID, CORSBehavior: &wrong}
	_, err := c.admin.CreateTemplate(ctx, c.org.ID, wanted)
	expect(t, err, refusal{http.StatusBadRequest, "Invalid create template request.", []string{"cors_behavior"}})
	wanted.CORSBehavior, wanted.DefaultTTL, wanted.ActivityBump = &passthru, &hours, &minutes
	wanted.AllowUserCancelWorkspaceJobs, wanted.UseClassicParameterFlow = &yes, &yes
	tm := must[coderd.Template](t)(c.admin.CreateTemplate(ctx, c.org.ID, wanted))
	policy := coderd.TemplatePolicy{
		DefaultTTL: hours, ActivityBump: minutes, AllowUserCancelWorkspaceJobs: true, CORSBehavior: passthru, UseClassicParameterFlow: true,
	}
	if diff := cmp.Diff(policy, tm.TemplatePolicy); diff != "" {
		t.Errorf("policy of a new template (-want +got):\n%s", diff)
	}
	_, err = c.admin.UpdateTemplate(ctx, tm.ID, coderd.TemplateEdit{CORSBehavior: &wrong})
	expect(t, err, refusal{http.StatusBadRequest, "Invalid request to update template metadata!", []string{"cors_behavior"}})
	never := time.Duration(0)
	policy.DefaultTTL, policy.UseClassicParameterFlow = 0, false
	tm = must[coderd.Template](t)(c.admin.UpdateTemplate(ctx, tm.ID, coderd.TemplateEdit{DefaultTTL: &never, UseClassicParameterFlow: &no}))
	if diff := cmp.Diff(policy, tm.TemplatePolicy); diff != "" {
		t.Errorf("policy after an edit (-want +got):\n%s", diff)
	}
	c.asking = tm
}

// archives checks that an unused version can be archived.
func (c *contract) archives(t *testing.T) {
	ctx := t.Context()
	template := c.asking.ID
	variables := []coderd.Variable{{Name: "token", Value: "hunter22"}}
	request := coderd.NewTemplateVersion{TemplateID: &template, FileID: c.importedFile, Name: "two", Variables: variables}
	second := c.importVersion(t, request)
	_, err := c.admin.CreateTemplateVersion(ctx, c.org.ID, request)
	expect(t, err, refusal{http.StatusConflict, `A template version with name "two" already exists for this template.`, []string{"name"}})
	if err := c.admin.ArchiveVersion(ctx, c.imported.ID); !coderd.IsConflict(err) {
		t.Errorf("archiving the active version: %v", err)
	}
	ok(t, c.admin.ArchiveVersion(ctx, second.ID))
	expect(t, c.admin.ArchiveVersion(ctx, second.ID), refusal{http.StatusBadRequest, "Template version already archived", nil})
	if v := must[coderd.TemplateVersion](t)(c.admin.TemplateVersion(ctx, second.ID)); !v.Archived {
		t.Errorf("archived version: %+v", v)
	}
	for _, v := range must[[]coderd.TemplateVersion](t)(c.admin.TemplateVersions(ctx, template)) {
		if v.ID == second.ID {
			t.Error("an archived version is listed")
		}
	}
	all := must[[]coderd.TemplateVersion](t)(c.admin.AllTemplateVersions(ctx, template))
	if last := all[len(all)-1]; last.ID != second.ID || !last.Archived || last.CreatedBy != contractUser {
		t.Errorf("the newest of all versions: %+v", last)
	}
	expect(t, c.admin.SetActiveVersion(ctx, template, second.ID), refusal{http.StatusBadRequest, "The provided template version is archived.", nil})
	_, err = c.admin.CreateWorkspace(ctx, c.member, coderd.NewWorkspace{Name: "x-" + c.suffix, TemplateVersionID: second.ID})
	expect(t, err, refusal{http.StatusBadRequest, "Archived template versions cannot be used to make a workspace.", []string{"template_version_id"}})
	ok(t, c.admin.DeleteTemplate(ctx, template))
}

// isTooEarly reports whether the requested information is not available yet, because the build of a
// template version has not finished.
func isTooEarly(err error) bool {
	own, ok := errors.AsType[*coderd.Error](err)
	return ok && own.StatusCode == http.StatusTooEarly
}
