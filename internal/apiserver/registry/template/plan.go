package template

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// plan is the request that creates a template, with the objects it refers to. Building a plan only
// reads.
type plan struct {
	connection   connections.Connection
	organization coderd.Organization
	// request has no version if the version will be created from files.
	request coderd.NewTemplate
	// existing is the template that already has the name, or nil.
	existing *coderd.Template
}

// nameTaken returns an error if an existing version has the name.
func nameTaken(versions []coderd.TemplateVersion, name string) *field.Error {
	taken := func(v coderd.TemplateVersion) bool { return strings.EqualFold(v.Name, name) }
	if name == "" || !slices.ContainsFunc(versions, taken) {
		return nil
	}
	return field.Invalid(versionNamePath, name, "is the name of an existing version, which may be archived; set another name, or omit the field")
}

// beginCreate determines the Coder user that the caller acts as to create a template, and plans the
// creation. It returns an error if Coder would refuse the template, before files are uploaded.
func (k *Kind) beginCreate(ctx context.Context, tmpl object) (context.Context, *impersonation.As, plan, error) {
	connection, err := k.LocateNew(ctx, tmpl)
	if err != nil {
		return ctx, nil, plan{}, err
	}
	ctx, as, err := k.Actors.Begin(ctx, connection, subjectOf(tmpl.Name))
	if err != nil {
		return ctx, as, plan{}, err
	}
	p, err := k.planCreate(ctx, connection, tmpl)
	if err == nil {
		err = k.checkTests(ctx, connection, nil, tmpl)
	}
	if err != nil {
		return ctx, as, plan{}, err
	}
	return ctx, as, p, impersonation.May(ctx, connection.Client, subjectOf(tmpl.Name), coderd.Permission{
		Resource: k.InCoder, Action: "create", Organization: p.organization.ID,
	})
}

func (k *Kind) planCreate(ctx context.Context, connection connections.Connection, tmpl object) (plan, error) {
	// LocateNew has checked the name.
	name, _ := metadata.ParseTemplateName(tmpl.Name)
	organization, err := registry.Organization(ctx, connection, tmpl.Spec.Organization, name.Organization)
	if err != nil {
		return plan{}, fault(tmpl.Name, err)
	}
	p := plan{connection: connection, organization: organization, request: newTemplate(name.Name, tmpl.Spec)}
	// Check the name first, so that no unused version is created.
	existing, err := connection.Client.TemplateByName(ctx, organization.ID, name.Name)
	switch {
	case err == nil:
		p.existing = &existing
		return p, nil
	case !coderd.IsNotFound(err):
		return plan{}, fault(tmpl.Name, err)
	case tmpl.Spec.VersionID == "":
		return p, nil
	}
	p.request.VersionID, err = unused(ctx, connection, tmpl)
	return p, err
}

func newTemplate(name string, spec aggregationv1alpha1.CoderTemplateSpec) coderd.NewTemplate {
	request := coderd.NewTemplate{
		Name: name, DisplayName: spec.DisplayName, Description: spec.Description, Icon: spec.Icon,
		DefaultTTL: registry.Millis(spec.DefaultTTLMillis), ActivityBump: registry.Millis(spec.ActivityBumpMillis),
		AllowUserCancelWorkspaceJobs: spec.AllowUserCancelWorkspaceJobs,
		UseClassicParameterFlow:      spec.UseClassicParameterFlow,
	}
	if spec.CORSBehavior != "" {
		request.CORSBehavior = ptr.To(spec.CORSBehavior)
	}
	return request
}

// unused returns the version for a new template. It must not belong to a template.
func unused(ctx context.Context, connection connections.Connection, tmpl object) (uuid.UUID, error) {
	version, err := readVersion(ctx, connection, tmpl)
	if err != nil {
		return uuid.Nil, err
	}
	if version.TemplateID != nil {
		return uuid.Nil, invalid(tmpl, field.Invalid(versionPath, tmpl.Spec.VersionID, "belongs to another template"))
	}
	return version.ID, nil
}

// promotable returns the version that is to become active. It must belong to the template, be
// built, and not be archived.
func promotable(
	ctx context.Context, connection connections.Connection, template uuid.UUID, tmpl object,
) (coderd.TemplateVersion, error) {
	version, err := readVersion(ctx, connection, tmpl)
	switch {
	case err != nil:
		return version, err
	case version.TemplateID == nil || *version.TemplateID != template:
		return version, invalid(tmpl, field.Invalid(versionPath, tmpl.Spec.VersionID, "is not a version of this template"))
	case version.Status != buildSucceeded:
		return version, invalid(tmpl, field.Invalid(versionPath, tmpl.Spec.VersionID,
			fmt.Sprintf("cannot become active, because its build is %s and not %s", version.Status, buildSucceeded)))
	case version.Archived:
		return version, invalid(tmpl, field.Invalid(versionPath, tmpl.Spec.VersionID, "cannot become active, because it is archived; unarchive it in Coder first"))
	default:
		return version, nil
	}
}

func readVersion(ctx context.Context, connection connections.Connection, tmpl object) (coderd.TemplateVersion, error) {
	// The validation has checked that it is a UUID.
	id, _ := uuid.Parse(tmpl.Spec.VersionID)
	version, err := connection.Client.TemplateVersion(ctx, id)
	if coderd.IsNotFound(err) {
		return version, invalid(tmpl, field.Invalid(versionPath, tmpl.Spec.VersionID, "there is no such version in Coder"))
	}
	return version, fault(tmpl.Name, err)
}
