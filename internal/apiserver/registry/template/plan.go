package template

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/fleet"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectname"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// plan is what a creation will ask of Coder. Making it only reads.
type plan struct {
	connection   connections.Connection
	organization coderd.Organization
	// request lacks the version where it will be made of files.
	request coderd.NewTemplate
}

// CheckCreate implements registry.Checker.
func (b *backend) CheckCreate(ctx context.Context, obj runtime.Object) error {
	_, err := b.planCreate(ctx, obj.(*aggregationv1alpha1.CoderTemplate))
	return err
}

// CheckUpdate implements registry.Checker.
func (b *backend) CheckUpdate(ctx context.Context, wanted, current runtime.Object) error {
	tmpl, was := wanted.(*aggregationv1alpha1.CoderTemplate), current.(*aggregationv1alpha1.CoderTemplate)
	if tmpl.Spec.VersionID == was.Spec.VersionID {
		return nil
	}
	connection, id, err := b.locate(ctx, was)
	if err != nil {
		return err
	}
	_, err = promotable(ctx, connection, id, tmpl)
	return err
}

func (b *backend) planCreate(ctx context.Context, tmpl *aggregationv1alpha1.CoderTemplate) (plan, error) {
	name, err := objectname.ParseTemplate(tmpl.Name)
	if err != nil {
		return plan{}, invalid(tmpl, field.Invalid(namePath, tmpl.Name, err.Error()))
	}
	connection, err := fleet.Find(ctx, b.provider, tmpl.Namespace, name.Prefix)
	if err != nil {
		return plan{}, err
	}
	if connection == nil {
		return plan{}, invalid(tmpl, registry.NoControlPlane(tmpl.Namespace, name.Prefix))
	}
	p := plan{connection: *connection, request: coderd.NewTemplate{
		Name: name.Name, DisplayName: tmpl.Spec.DisplayName, Description: tmpl.Spec.Description, Icon: tmpl.Spec.Icon,
	}}
	organization, problem, err := registry.Organization(ctx, *connection, tmpl.Spec.Organization, name.Organization)
	if err != nil {
		return plan{}, fault(tmpl.Name, err)
	}
	if problem != nil {
		return plan{}, invalid(tmpl, problem)
	}
	p.organization = organization
	// Seen now, it costs no version that nobody would use.
	_, err = connection.Client.TemplateByName(ctx, organization.ID, name.Name)
	if err == nil {
		return plan{}, apierrors.NewAlreadyExists(resource, tmpl.Name)
	}
	if !coderd.IsNotFound(err) {
		return plan{}, fault(tmpl.Name, err)
	}
	if tmpl.Spec.VersionID == "" {
		return p, nil
	}
	p.request.VersionID, err = unused(ctx, *connection, tmpl)
	return p, err
}

// unused finds the version of a new template, which must belong to none.
func unused(ctx context.Context, connection connections.Connection, tmpl *aggregationv1alpha1.CoderTemplate) (uuid.UUID, error) {
	version, err := readVersion(ctx, connection, tmpl)
	if err != nil {
		return uuid.Nil, err
	}
	if version.TemplateID != nil {
		return uuid.Nil, invalid(tmpl, field.Invalid(versionPath, tmpl.Spec.VersionID, "belongs to another template"))
	}
	return version.ID, nil
}

// promotable finds the version that shall become active.
func promotable(
	ctx context.Context, connection connections.Connection, template uuid.UUID, tmpl *aggregationv1alpha1.CoderTemplate,
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
	default:
		return version, nil
	}
}

func readVersion(ctx context.Context, connection connections.Connection, tmpl *aggregationv1alpha1.CoderTemplate) (coderd.TemplateVersion, error) {
	// Validation has seen that it is a UUID.
	id, _ := uuid.Parse(tmpl.Spec.VersionID)
	version, err := connection.Client.TemplateVersion(ctx, id)
	if coderd.IsNotFound(err) {
		return version, invalid(tmpl, field.Invalid(versionPath, tmpl.Spec.VersionID, "there is no such version in Coder"))
	}
	return version, fault(tmpl.Name, err)
}

func invalid(tmpl *aggregationv1alpha1.CoderTemplate, problem *field.Error) error {
	return apierrors.NewInvalid(kind, tmpl.Name, field.ErrorList{problem})
}
