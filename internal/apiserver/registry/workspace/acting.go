package workspace

import (
	"cmp"
	"context"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/acting"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectname"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// The actions of Coder's permissions.
const (
	mayCreate = "create"
	mayUpdate = "update"
	mayDelete = "delete"
	mayStart  = "start"
	mayStop   = "stop"
	maySSH    = "ssh"
)

// subjectOf returns the acting.Subject of a workspace that a caller wants to change. Owner is the
// current username of its owner in Coder.
func subjectOf(name, owner string) acting.Subject {
	return acting.Subject{Resource: resource, Name: name, Owner: owner}
}

// ownerOf returns the username of the owner of an object.
func ownerOf(ws *aggregationv1alpha1.CoderWorkspace) string {
	name, _ := objectname.ParseWorkspace(objectname.WithoutID(ws.Name))
	return cmp.Or(ws.Status.OwnerName, name.Owner)
}

// beginCreate determines the Coder user that the caller acts as to create a workspace.
func (k *Kind) beginCreate(ctx context.Context, ws *aggregationv1alpha1.CoderWorkspace) (context.Context, *acting.As, error) {
	name, err := objectname.ParseWorkspace(ws.Name)
	if err != nil {
		return ctx, nil, invalid(ws.Name, field.Invalid(namePath, ws.Name, err.Error()))
	}
	connection, err := registry.Connection(ctx, k.config.Connections, ws.Namespace, name.Prefix)
	if err != nil || connection == nil {
		// If there is no control plane, plan returns the error.
		return ctx, nil, err
	}
	return k.config.Actors.Begin(ctx, *connection, subjectOf(ws.Name, name.Owner))
}

// begin determines the Coder user that the caller acts as to change a workspace. A change that is
// not sent to Coder needs no user, except if it adds an owner reference: the garbage collector
// deletes objects because of owner references.
func (k *Kind) begin(
	ctx context.Context, current, wanted *aggregationv1alpha1.CoderWorkspace, changes bool,
) (context.Context, *acting.As, error) {
	deletes := deletesNow(current, wanted)
	addsOwner := registry.AddsOwner(current, wanted)
	if !changes && !deletes && !addsOwner {
		return ctx, nil, nil
	}
	connection, id, err := k.locate(ctx, current)
	if err != nil && deletes {
		// A deletion that needs no Coder user is recorded even while Coder is unreachable.
		connection, err = registry.Unconnected(ctx, k.config.Connections, controlPlaneOf(current), err)
	}
	if err != nil {
		return ctx, nil, err
	}
	s := subjectOf(current.Name, ownerOf(current))
	s.Deletes = deletes
	ctx, as, err := k.config.Actors.Begin(ctx, connection, s)
	if err == nil && as != nil && (deletes || addsOwner) {
		err = acting.May(ctx, connection.Client, s, coderd.Permission{Resource: "workspace", Action: mayDelete, ID: id})
	}
	return ctx, as, err
}

func deletesNow(current, wanted *aggregationv1alpha1.CoderWorkspace) bool {
	return current.DeletionTimestamp == nil && wanted.DeletionTimestamp != nil
}

// permissions returns the permissions that a change requires which is sent to Coder later.
func (p *prepared) permissions() []coderd.Permission {
	may := func(action string) coderd.Permission {
		return coderd.Permission{Resource: "workspace", Action: action, ID: p.id}
	}
	if p.target.request.Transition == coderd.TransitionStop {
		return []coderd.Permission{may(mayStop), may(mayUpdate)}
	}
	return []coderd.Permission{may(mayStart), may(mayUpdate)}
}

// mayLater returns an error if Coder would refuse the change later.
func (p *prepared) mayLater(ctx context.Context) error {
	return acting.May(ctx, p.connection.Client, subjectOf(p.name, ""), p.permissions()...)
}

// client returns the client for the caller's sessions in a workspace and for reading its logs.
func (k *Kind) client(ctx context.Context, connection connections.Connection, ws *aggregationv1alpha1.CoderWorkspace) (*coderd.Client, error) {
	return k.config.Actors.Client(ctx, connection, subjectOf(ws.Name, ownerOf(ws)))
}

// maySession returns an error with a readable reason if the user may not open a session in the
// workspace.
func maySession(ctx context.Context, connection connections.Connection, client *coderd.Client, name string, id uuid.UUID) error {
	if client == connection.Client {
		return nil
	}
	allowed, err := client.May(ctx, coderd.Permission{Resource: "workspace", Action: maySSH, ID: id})
	if err == nil && !allowed {
		err = &coderd.Error{Op: "entering workspace " + name, StatusCode: 403, Message: "the user may not enter this workspace", ActedAs: client.ActsAs()}
	}
	return fault(name, err)
}
