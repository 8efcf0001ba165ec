package workspace

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// create creates a workspace. It first records the data that Coder cannot store. If the process
// ends before Coder responds, the record is matched with the workspace by name.
func (k *Kind) create(ctx context.Context, wanted object) (object, error) {
	ctx, as, p, err := k.beginCreate(ctx, wanted)
	if err != nil {
		return nil, err
	}
	// Coder starts each workspace that it creates, so other wishes, such as running=false, are applied after that build.
	n, c := intent{By: as, Owner: p.owner.ID}, change{}
	n.setSpec(wanted.Spec)
	if !ptr.Deref(wanted.Spec.Running, true) {
		c.Running = ptr.To(false)
	}
	if ptr.Deref(wanted.Spec.Dormant, false) {
		c.Dormant = ptr.To(true)
	}
	if len(wanted.Spec.SharedWith) > 0 {
		c.SharedWith = wanted.Spec.SharedWith
	}
	if !c.empty() {
		n.Change = &c
	}
	record := &metadata.Record{ControlPlane: p.connection.ControlPlane, Kind: k.Kind, Name: wanted.Name}
	// An earlier attempt may have left its record.
	earlier, retried := k.Records.PendingFor(record.ControlPlane, record.Kind, record.Name)
	if retried {
		record.Version = earlier.Version
	}
	pending, err := k.Save(ctx, record, wanted, n.stored())
	if err != nil {
		return nil, unrecorded(wanted.Name, err)
	}
	w, err := p.connection.Client.CreateWorkspace(ctx, p.owner.ID.String(), p.request)
	if err != nil {
		// If the creation may have succeeded, the record stays, and the mirror resolves it. The workspace that has the name may
		// be the result of an earlier attempt.
		if !coderd.IsUnreachable(err) && (!retried || !coderd.IsConflict(err)) && pending.Version != "" {
			if problem := k.Records.Delete(context.WithoutCancel(ctx), pending); problem != nil {
				log.FromContext(ctx).Error(problem, "Could not remove the record of a workspace that was not created", "workspace", pending.Name)
			}
		}
		return nil, k.CreateFault(wanted.Name, err)
	}
	k.Hint(p.connection.ControlPlane, w.ID)
	n.Owner = uuid.Nil
	if n.Parameters != nil {
		n.Values = &buildValues{Build: w.LatestBuild.ID, Values: map[string]string{}}
		for _, v := range wanted.Spec.Parameters {
			n.Values.Values[v.Name] = v.Value
		}
	}
	bound, err := k.BindPending(ctx, pending, nil, n.stored(), w.ID)
	if err != nil {
		return nil, unrecorded(wanted.Name, fmt.Errorf("the workspace was created, but its metadata could not be stored: %w", err))
	}
	return k.object(p.connection, w, bound, n, nil), nil
}

// Adopts implements mirror.Adopter. After a rename, the workspace of another owner may have the name
// of one whose creation was interrupted.
func (k *Kind) Adopts(item coderd.Workspace, pending *metadata.Record) bool {
	n, err := registry.ReadIntent[intent](pending)
	return err == nil && (n.Owner == uuid.Nil || n.Owner == item.OwnerID)
}

// plan is the request that creates a workspace, with the objects it refers to. Building a plan only
// reads.
type plan struct {
	connection connections.Connection
	name       metadata.Name
	request    coderd.NewWorkspace
	// owner and organization are read from Coder.
	owner        coderd.User
	organization coderd.Organization
}

// beginCreate determines the Coder user that the caller acts as to create a workspace, and plans the
// creation: it reads the data that it needs from Coder. Errors are API statuses.
func (k *Kind) beginCreate(ctx context.Context, ws object) (_ context.Context, as *impersonation.As, p plan, err error) {
	// LocateNew returns the error of a name that is not valid.
	p.name, _ = metadata.ParseWorkspaceName(ws.Name)
	if p.connection, err = k.LocateNew(ctx, ws); err != nil {
		return ctx, nil, p, err
	}
	if p.owner, err = p.connection.Client.UserByName(ctx, p.name.Owner); err != nil && !coderd.IsNotFound(err) {
		return ctx, nil, p, fault(ws.Name, err)
	}
	s := subjectOf(ws.Name, coderd.Workspace{OwnerID: p.owner.ID, OwnerName: p.name.Owner})
	if ctx, as, err = k.Actors.Begin(ctx, p.connection, s); err != nil {
		return ctx, nil, p, err
	}
	p.organization, err = registry.Organization(ctx, p.connection, ws.Spec.Organization, p.name.Organization)
	if err != nil {
		return ctx, nil, p, fault(ws.Name, err)
	}
	if err = checkOwner(ctx, p, ws.Name); err != nil {
		return ctx, nil, p, err
	}
	if len(ws.Spec.SharedWith) > 0 {
		s := subject{connection: p.connection, name: ws.Name, workspace: coderd.Workspace{
			OwnerID: p.owner.ID, OrganizationID: p.organization.ID, OrganizationName: p.organization.Name,
		}}
		err = mayShare(ctx, s, coderd.Permission{Owner: p.owner.ID, Organization: p.organization.ID})
		if err == nil {
			_, err = k.planSharing(ctx, s, ws.Spec.SharedWith)
		}
		if err != nil {
			return ctx, nil, p, err
		}
	}
	p.request, err = newRequest(ctx, p, ws)
	return ctx, as, p, err
}

// checkOwner returns an error if the owner does not exist, or has a workspace of this name.
func checkOwner(ctx context.Context, p plan, name string) error {
	// Coder also accepts ids as names.
	if !strings.EqualFold(p.owner.Username, p.name.Owner) {
		return invalid(name, field.Invalid(namePath, name, fmt.Sprintf("there is no user %q in Coder", p.name.Owner)))
	}
	existing, err := p.connection.Client.WorkspaceByName(ctx, p.name.Owner, p.name.Name)
	switch {
	case coderd.IsNotFound(err) || err == nil && existing.LatestBuild.Status == statusDeleted:
		return nil
	case err != nil:
		return fault(name, err)
	case strings.EqualFold(existing.OrganizationName, p.name.Organization):
		return apierrors.NewAlreadyExists(resource, name)
	default:
		return invalid(name, field.Invalid(namePath, name, fmt.Sprintf(
			"user %q already has a workspace %q, in organization %q; the names of a user's workspaces must be unique",
			p.name.Owner, p.name.Name, existing.OrganizationName)))
	}
}

func newRequest(ctx context.Context, p plan, ws object) (coderd.NewWorkspace, error) {
	client, spec := p.connection.Client, ws.Spec
	template, err := client.TemplateByName(ctx, p.organization.ID, spec.TemplateName)
	if coderd.IsNotFound(err) {
		problem := fmt.Sprintf("there is no such template in organization %q", p.organization.Name)
		if i := strings.LastIndexByte(spec.TemplateName, '.'); i >= 0 {
			// A common mistake is to use the name of the CoderTemplate object.
			problem += fmt.Sprintf("; templateName is the name in Coder, without the organization: %q", spec.TemplateName[i+1:])
		}
		return coderd.NewWorkspace{}, invalid(ws.Name, field.Invalid(specPath.Child("templateName"), spec.TemplateName, problem))
	}
	if err != nil {
		return coderd.NewWorkspace{}, fault(ws.Name, err)
	}
	if template.Deprecated {
		return coderd.NewWorkspace{}, invalid(ws.Name, field.Invalid(specPath.Child("templateName"), spec.TemplateName,
			"is deprecated, so no new workspace can be created from it: "+template.DeprecationMessage))
	}
	request := coderd.NewWorkspace{
		Name: p.name.Name, TemplateID: template.ID,
		TTL: registry.Millis(spec.TTLMillis), Autostart: spec.AutostartSchedule, AutomaticUpdates: spec.AutomaticUpdates,
	}
	version := template.ActiveVersionID
	if spec.TemplateVersionID != "" {
		if version, err = findVersion(ctx, client, ws.Name, spec.TemplateVersionID, template.ID, spec.TemplateName); err != nil {
			return coderd.NewWorkspace{}, err
		}
		request.TemplateVersionID = version
	}
	s := subject{connection: p.connection, name: ws.Name, workspace: coderd.Workspace{
		OwnerID: p.owner.ID, UseClassicParameterFlow: template.UseClassicParameterFlow,
	}}
	var n intent
	n.setSpec(spec)
	var given []value
	for _, v := range spec.Parameters {
		given = append(given, value{v.Name, v.Value})
	}
	set, err := s.readParameters(ctx, n, change{Parameters: given}, version, nil)
	if err != nil {
		return request, fault(ws.Name, err)
	}
	for _, v := range set.values {
		request.Parameters = append(request.Parameters, coderd.Parameter{Name: v.Name, Value: v.Value})
	}
	request.PresetID = set.presetID
	// Coder reports missing parameters only in an unstructured message, so they are checked here.
	return request, invalid(ws.Name, set.problems(nil)...)
}
