package coderd_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// No unknown value of an enumeration, from a later release of Coder, makes a read fail.
func TestUnknownValuesBreakNoRead(t *testing.T) {
	server := coderdtest.New(t, coderdtest.WithLicensing(), coderdtest.WithLater(coderdtest.Later{Fields: true, Values: true}))
	client := newClient(t, server, server.AddUser("ada", "owner"))
	ctx := t.Context()
	server.SetFeature(coderd.FeatureExternalProvisioners, "entitled")
	server.SetFeature(coderd.FeatureWorkspaceProxy, "entitled")
	org := must[coderd.Organization](t)(client.OrganizationByName(ctx, coderd.DefaultOrganization))
	template := server.AddTemplate("coder", "small", map[string]string{"main.tf": `
		data "coder_parameter" "size" {
			name = "size"
			type = "number"
			default = "3"
		}
		variable "region" { default = "eu" }`})
	workspace := server.AddWorkspace("ada", template, "dev")
	w := must[coderd.Workspace](t)(client.Workspace(ctx, workspace))
	version := must[coderd.Template](t)(client.Template(ctx, template)).ActiveVersionID
	key := must[string](t)(client.CreateProvisionerKey(ctx, org.ID, "gpu", nil))
	proxy, _, err := client.CreateWorkspaceProxy(ctx, "sydney", "", "")
	ok(t, err)
	token := must[coderd.Token](t)(client.CreateToken(ctx, coderd.Me, coderd.TokenRequest{Name: "one"}))

	if w.LatestBuild.Status != "value-of-a-later-release" {
		t.Errorf("the server does not do what this test is about: the build's status is %q", w.LatestBuild.Status)
	}
	for name, read := range map[string]func(context.Context) error{
		"build info":        nothing(client.BuildInfo),
		"entitlements":      nothing(client.Entitlements),
		"licenses":          nothing(client.Licenses),
		"me":                nothing(client.Me),
		"organizations":     nothing(client.Organizations),
		"tokens":            func(ctx context.Context) error { _, err := client.TokensOf(ctx, coderd.Me); return err },
		"token by name":     func(ctx context.Context) error { _, err := client.TokenByName(ctx, coderd.Me, "one"); return err },
		"own key":           of(client.OwnKey, token.ID),
		"token lifetime":    of(client.MaxTokenLifetime, coderd.Me),
		"templates":         nothing(client.Templates),
		"template by name":  func(ctx context.Context) error { _, err := client.TemplateByName(ctx, org.ID, "small"); return err },
		"versions":          of(client.TemplateVersions, template),
		"all versions":      of(client.AllTemplateVersions, template),
		"version":           of(client.TemplateVersion, version),
		"parameters":        of(client.VersionParameters, version),
		"presets":           of(client.VersionPresets, version),
		"variables":         of(client.VersionVariables, version),
		"version logs":      func(ctx context.Context) error { return readLogs(client.VersionLogs(ctx, version, 0, false)) },
		"workspaces":        func(ctx context.Context) error { _, err := client.WorkspacePage(ctx, 0, 10); return err },
		"workspace count":   nothing(client.WorkspaceCount),
		"workspaces by id":  of(client.WorkspacesByID, []uuid.UUID{workspace}),
		"workspace by name": func(ctx context.Context) error { _, err := client.WorkspaceByName(ctx, "ada", "dev"); return err },
		"build by number":   func(ctx context.Context) error { _, err := client.WorkspaceBuildByNumber(ctx, w, 1); return err },
		"build parameters":  of(client.BuildParameters, w.LatestBuild.ID),
		"build logs":        func(ctx context.Context) error { return readLogs(client.BuildLogs(ctx, w.LatestBuild.ID, 0, false)) },
		"active jobs":       of(client.ActiveJobs, org.ID),
		"newest jobs":       func(ctx context.Context) error { _, err := client.NewestJobs(ctx, org.ID, 10); return err },
		"provisioners":      of(client.ProvisionerDaemons, org.ID),
		"provisioner keys":  of(client.ProvisionerKeys, org.ID),
		"provisioner key":   of(client.CheckProvisionerKey, key),
		"proxy by name":     of(client.WorkspaceProxyByName, "sydney"),
		"proxy by id":       of(client.WorkspaceProxyByID, proxy.ID),
		"evaluation": func(ctx context.Context) error {
			_, err := client.EvaluateParameters(ctx, version, w.OwnerID, nil)
			return err
		},
	} {
		if err := read(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func nothing[T any](read func(context.Context) (T, error)) func(context.Context) error {
	return func(ctx context.Context) error { _, err := read(ctx); return err }
}

func of[A, T any](read func(context.Context, A) (T, error), arg A) func(context.Context) error {
	return func(ctx context.Context) error { _, err := read(ctx, arg); return err }
}

func readLogs(stream *coderd.LogStream, err error) error {
	for err == nil {
		_, err = stream.Next(context.Background())
	}
	if errors.Is(err, io.EOF) {
		return stream.Close()
	}
	return err
}

// A zip archive that is too large when unpacked is an invalid request, in every release.
func TestAnArchiveThatUnpacksToTooMuch(t *testing.T) {
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	_, err := w.CreateRaw(&zip.FileHeader{Name: "main.tf", UncompressedSize64: 200 << 20})
	ok(t, err)
	ok(t, w.Close())
	for _, release := range []coderdtest.Release{coderdtest.Release229, coderdtest.Release234, coderdtest.Release236} {
		server := coderdtest.New(t, coderdtest.WithRelease(release))
		_, err := newClient(t, server, server.AddUser("ada", "owner")).UploadArchive(t.Context(), packed.Bytes())
		if !coderd.IsInvalid(err) || !coderd.IsArchiveTooLarge(err) || coderd.IsUnreachable(err) {
			t.Errorf("%s: %v", release, err)
		}
	}
}

// Only before 2.31 this message means that a user does not exist.
func TestTheSentenceAboutAnUnknownUser(t *testing.T) {
	for _, release := range coderdtest.Releases() {
		server := coderdtest.New(t, coderdtest.WithRelease(release))
		client := newClient(t, server, server.AddUser("ada", "owner"))
		server.Fail(coderdtest.Fault{Status: 400, Message: `"user" must be an existing uuid or username.`})
		_, err := client.UserByName(t.Context(), "ada")
		old := release == coderdtest.Release229 || release == coderdtest.Release230
		if coderd.IsNotFound(err) != old || coderd.IsInvalid(err) == old {
			t.Errorf("%s: %v", release, err)
		}
	}
}
