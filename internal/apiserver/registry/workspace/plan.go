package workspace

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectname"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// plan is the request that creates a workspace, with the objects it refers to. Building a plan only
// reads.
type plan struct {
	connection connections.Connection
	name       objectname.Workspace
	request    coderd.NewWorkspace
	// owner and organization are read from Coder.
	owner        coderd.User
	organization coderd.Organization
}

// plan reads the data that a creation needs from Coder. Errors are API statuses.
func (k *Kind) plan(ctx context.Context, ws *aggregationv1alpha1.CoderWorkspace) (plan, error) {
	name, err := objectname.ParseWorkspace(ws.Name)
	if err != nil {
		return plan{}, invalid(ws.Name, field.Invalid(namePath, ws.Name, err.Error()))
	}
	connection, err := registry.Connection(ctx, k.config.Connections, ws.Namespace, name.Prefix)
	if err != nil {
		return plan{}, err
	}
	if connection == nil {
		return plan{}, invalid(ws.Name, registry.NoControlPlane(ws.Namespace, name.Prefix))
	}
	p := plan{connection: *connection, name: name}
	organization, problem, err := registry.Organization(ctx, *connection, ws.Spec.Organization, name.Organization)
	if err != nil {
		return plan{}, fault(ws.Name, err)
	}
	if problem != nil {
		return plan{}, invalid(ws.Name, problem)
	}
	p.organization = organization
	if p.owner, err = checkOwner(ctx, p, ws.Name); err != nil {
		return plan{}, err
	}
	p.request, err = newRequest(ctx, p, ws, organization)
	return p, err
}

// checkOwner returns the owner. The owner must exist and must not have a workspace of this name.
func checkOwner(ctx context.Context, p plan, name string) (coderd.User, error) {
	client := p.connection.Client
	owner, err := client.UserByName(ctx, p.name.Owner)
	if coderd.IsNotFound(err) || err == nil && !strings.EqualFold(owner.Username, p.name.Owner) {
		return owner, invalid(name, field.Invalid(namePath, name, fmt.Sprintf("there is no user %q in Coder", p.name.Owner)))
	}
	if err != nil {
		return owner, fault(name, err)
	}
	existing, err := client.WorkspaceByName(ctx, p.name.Owner, p.name.Name)
	switch {
	case coderd.IsNotFound(err) || err == nil && existing.LatestBuild.Status == statusDeleted:
		return owner, nil
	case err != nil:
		return owner, fault(name, err)
	case strings.EqualFold(existing.OrganizationName, p.name.Organization):
		return owner, apierrors.NewAlreadyExists(resource, name)
	default:
		return owner, invalid(name, field.Invalid(namePath, name, fmt.Sprintf(
			"user %q already has a workspace %q, in organization %q; a user's workspaces have different names",
			p.name.Owner, p.name.Name, existing.OrganizationName)))
	}
}

// noSuchTemplate returns the message for a spec.templateName that does not exist. A common mistake
// is to use the name of the CoderTemplate object.
func noSuchTemplate(name, organization string) string {
	message := fmt.Sprintf("there is no such template in organization %q", organization)
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		message += fmt.Sprintf("; templateName is the name in Coder, without the organization: %q", name[i+1:])
	}
	return message
}

func newRequest(
	ctx context.Context, p plan, ws *aggregationv1alpha1.CoderWorkspace, organization coderd.Organization,
) (coderd.NewWorkspace, error) {
	client, spec := p.connection.Client, ws.Spec
	template, err := client.TemplateByName(ctx, organization.ID, spec.TemplateName)
	if coderd.IsNotFound(err) {
		return coderd.NewWorkspace{}, invalid(ws.Name, field.Invalid(specPath.Child("templateName"), spec.TemplateName,
			noSuchTemplate(spec.TemplateName, organization.Name)))
	}
	if err != nil {
		return coderd.NewWorkspace{}, fault(ws.Name, err)
	}
	request := coderd.NewWorkspace{
		Name: p.name.Name, TemplateID: template.ID,
		TTL: durationOf(spec.TTLMillis), Autostart: spec.AutostartSchedule, AutomaticUpdates: spec.AutomaticUpdates,
	}
	version := template.ActiveVersionID
	if spec.TemplateVersionID != "" {
		if version, err = findVersion(ctx, client, ws.Name, spec.TemplateVersionID, template.ID, spec.TemplateName); err != nil {
			return coderd.NewWorkspace{}, err
		}
		request.TemplateVersionID = version
	}
	return request, addParameters(ctx, p, ws, version, &request)
}

// addParameters validates the parameters of a new workspace and adds them to the request. Coder
// reports missing parameters only in an unstructured message, so they are checked here.
func addParameters(
	ctx context.Context, p plan, ws *aggregationv1alpha1.CoderWorkspace, version uuid.UUID, request *coderd.NewWorkspace,
) error {
	s := subject{connection: p.connection, name: ws.Name}
	var n notes
	n.setSpec(ws.Spec)
	var given []value
	for _, v := range ws.Spec.Parameters {
		given = append(given, value{v.Name, v.Value})
	}
	asked, err := s.asked(ctx, n, change{Parameters: given}, version)
	if err != nil {
		return err
	}
	values := map[string]string{}
	for _, v := range asked.values {
		values[v.Name] = v.Value
		request.Parameters = append(request.Parameters, coderd.Parameter{Name: v.Name, Value: v.Value})
	}
	request.PresetID = asked.presetID
	problems := append(checkParameters(asked.defined, given, nil), checkRequired(asked.defined, values)...)
	return invalid(ws.Name, problems...)
}

func durationOf(millis *int64) *time.Duration {
	if millis == nil {
		return nil
	}
	return ptr.To(time.Duration(*millis) * time.Millisecond)
}
