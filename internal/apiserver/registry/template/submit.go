package template

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// submit creates a version unless it exists already. The name identifies it: it is derived from the
// content, or was free when it was requested.
func submit(
	ctx context.Context, client *coderd.Client, t coderd.Template, r *release, variables []coderd.Variable,
) (coderd.TemplateVersion, error) {
	v, found, err := findVersion(ctx, client, t.ID, r)
	if err != nil || found {
		return v, err
	}
	created, err := client.CreateTemplateVersion(ctx, t.OrganizationID, newVersion(&t.ID, r, variables))
	if !coderd.IsConflict(err) {
		return created, err
	}
	// An earlier request whose response was lost may have created it.
	if v, found, err := findVersion(ctx, client, t.ID, r); err != nil || found {
		return v, err
	}
	return coderd.TemplateVersion{}, &coderd.Error{
		Op: fmt.Sprintf("creating template version %q", r.Name), StatusCode: 422,
		Message: "an archived version has this name; set another in spec.versionName, or unarchive it",
		Fields:  []coderd.FieldError{{Field: "name", Detail: "an archived version has this name"}},
	}
}

// findVersion returns the version of a release by its name and files.
func findVersion(ctx context.Context, client *coderd.Client, template uuid.UUID, r *release) (coderd.TemplateVersion, bool, error) {
	versions, err := client.TemplateVersions(ctx, template)
	if err != nil {
		return coderd.TemplateVersion{}, false, err
	}
	i := slices.IndexFunc(versions, func(v coderd.TemplateVersion) bool {
		return v.FileID == r.FileID && strings.EqualFold(v.Name, r.Name)
	})
	if i < 0 {
		return coderd.TemplateVersion{}, false, nil
	}
	return versions[i], true, nil
}

func newVersion(template *uuid.UUID, r *release, variables []coderd.Variable) coderd.NewTemplateVersion {
	return coderd.NewTemplateVersion{
		TemplateID: template, FileID: r.FileID, Name: r.Name, Message: r.Message, Tags: r.Tags, Variables: variables,
	}
}

// refusal reports whether Coder refused the request permanently, so that a retry is useless.
func refusal(err error) bool {
	return refusesUser(err) || coderd.IsInvalid(err) || coderd.IsConflict(err) || coderd.IsForbidden(err) || coderd.IsNotFound(err)
}

// refusesUser reports whether the request was refused because of the Coder user who made it.
func refusesUser(err error) bool {
	return apierrors.IsForbidden(err) || coderd.ActedAs(err) != "" && (coderd.IsForbidden(err) || coderd.IsUnauthorized(err) || coderd.IsNotFound(err))
}
