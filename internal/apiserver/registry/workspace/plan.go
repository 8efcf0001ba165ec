package workspace

import (
	"context"
	"fmt"
	"strings"

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
	connection connections.Connection
	name       objectname.Workspace
	request    coderd.NewWorkspace
}

// CheckCreate implements registry.Checker.
func (b *backend) CheckCreate(ctx context.Context, obj runtime.Object) error {
	_, err := b.plan(ctx, obj.(*aggregationv1alpha1.CoderWorkspace))
	return err
}

// CheckUpdate implements registry.Checker. All that an update needs was read
// when the object was.
func (b *backend) CheckUpdate(context.Context, runtime.Object, runtime.Object) error { return nil }

func (b *backend) plan(ctx context.Context, ws *aggregationv1alpha1.CoderWorkspace) (plan, error) {
	name, err := objectname.ParseWorkspace(ws.Name)
	if err != nil {
		return plan{}, invalid(ws, field.Invalid(namePath, ws.Name, err.Error()))
	}
	connection, err := fleet.Find(ctx, b.provider, ws.Namespace, name.Prefix)
	if err != nil {
		return plan{}, err
	}
	if connection == nil {
		return plan{}, invalid(ws, registry.NoControlPlane(ws.Namespace, name.Prefix))
	}
	p := plan{connection: *connection, name: name}
	organization, problem, err := registry.Organization(ctx, *connection, ws.Spec.Organization, name.Organization)
	if err != nil || problem != nil {
		return plan{}, orInvalid(ws, err, problem)
	}
	if err := b.checkOwner(ctx, p, ws); err != nil {
		return plan{}, err
	}
	p.request, err = b.request(ctx, p, ws, organization)
	return p, err
}

// checkOwner wants an owner that exists and has no workspace of this name.
func (b *backend) checkOwner(ctx context.Context, p plan, ws *aggregationv1alpha1.CoderWorkspace) error {
	client := p.connection.Client
	owner, err := client.UserByName(ctx, p.name.Owner)
	if coderd.IsNotFound(err) || err == nil && !strings.EqualFold(owner.Username, p.name.Owner) {
		return invalid(ws, field.Invalid(namePath, ws.Name, fmt.Sprintf("there is no user %q in Coder", p.name.Owner)))
	}
	if err != nil {
		return fault(ws.Name, err)
	}
	existing, err := client.WorkspaceByName(ctx, p.name.Owner, p.name.Name)
	switch {
	case coderd.IsNotFound(err) || err == nil && existing.LatestBuild.Status == statusDeleted:
		return nil
	case err != nil:
		return fault(ws.Name, err)
	case strings.EqualFold(existing.OrganizationName, p.name.Organization):
		return apierrors.NewAlreadyExists(resource, ws.Name)
	default:
		return invalid(ws, field.Invalid(namePath, ws.Name, fmt.Sprintf(
			"user %q already has a workspace %q, in organization %q; a user's workspaces have different names",
			p.name.Owner, p.name.Name, existing.OrganizationName)))
	}
}

func (b *backend) request(
	ctx context.Context, p plan, ws *aggregationv1alpha1.CoderWorkspace, organization coderd.Organization,
) (coderd.NewWorkspace, error) {
	client, spec := p.connection.Client, ws.Spec
	template, err := client.TemplateByName(ctx, organization.ID, spec.TemplateName)
	if coderd.IsNotFound(err) {
		return coderd.NewWorkspace{}, invalid(ws, field.Invalid(specPath.Child("templateName"), spec.TemplateName,
			fmt.Sprintf("there is no such template in organization %q", organization.Name)))
	}
	if err != nil {
		return coderd.NewWorkspace{}, fault(ws.Name, err)
	}
	request := coderd.NewWorkspace{
		Name: p.name.Name, TemplateID: template.ID,
		TTL: durationOf(spec.TTLMillis), Autostart: spec.AutostartSchedule,
	}
	if spec.TemplateVersionID == "" {
		return request, nil
	}
	// Validation has seen that it is a UUID.
	id, _ := uuid.Parse(spec.TemplateVersionID)
	version, err := client.TemplateVersion(ctx, id)
	if coderd.IsNotFound(err) || err == nil && (version.TemplateID == nil || *version.TemplateID != template.ID) {
		return coderd.NewWorkspace{}, invalid(ws, field.Invalid(specPath.Child("templateVersionID"), spec.TemplateVersionID,
			fmt.Sprintf("template %q has no such version", spec.TemplateName)))
	}
	request.TemplateVersionID = id
	return request, fault(ws.Name, err)
}

func invalid(ws *aggregationv1alpha1.CoderWorkspace, problem *field.Error) error {
	return apierrors.NewInvalid(kind, ws.Name, field.ErrorList{problem})
}

func orInvalid(ws *aggregationv1alpha1.CoderWorkspace, err error, problem *field.Error) error {
	if err != nil {
		return fault(ws.Name, err)
	}
	return invalid(ws, problem)
}
