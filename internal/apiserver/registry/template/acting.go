package template

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/google/uuid"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/acting"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
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
)

func subjectOf(name string) acting.Subject { return acting.Subject{Resource: resource, Name: name} }

// beginCreate determines the Coder user that the caller acts as to create a template.
func (k *Kind) beginCreate(ctx context.Context, tmpl *aggregationv1alpha1.CoderTemplate) (context.Context, *acting.As, error) {
	name, err := objectname.ParseTemplate(tmpl.Name)
	if err != nil {
		return ctx, nil, invalid(tmpl, field.Invalid(namePath, tmpl.Name, err.Error()))
	}
	connection, err := registry.Connection(ctx, k.config.Connections, tmpl.Namespace, name.Prefix)
	if err != nil || connection == nil {
		// If there is no control plane, planCreate returns the error.
		return ctx, nil, err
	}
	return k.config.Actors.Begin(ctx, *connection, subjectOf(tmpl.Name))
}

// mayCreate returns an error if Coder would refuse the template. It is called before files are
// uploaded.
func (p *plan) mayCreate(ctx context.Context, name string) error {
	return acting.May(ctx, p.connection.Client, subjectOf(name), coderd.Permission{
		Resource: "template", Action: mayCreate, Organization: p.organization.ID,
	})
}

// begin determines the Coder user that the caller acts as to change a template. It checks the
// permission in Coder first, because a part of the change may be carried out later.
func (k *Kind) begin(
	ctx context.Context, connection connections.Connection, id uuid.UUID, name string, deletes bool,
) (context.Context, *acting.As, error) {
	s := subjectOf(name)
	s.Deletes = deletes
	ctx, as, err := k.config.Actors.Begin(ctx, connection, s)
	if err != nil || as == nil {
		return ctx, as, err
	}
	action := mayUpdate
	if deletes {
		action = mayDelete
	}
	return ctx, as, acting.May(ctx, connection.Client, s, coderd.Permission{Resource: "template", Action: action, ID: id})
}

// beginMetadata determines the Coder user that the caller acts as to change metadata that is not
// sent to Coder. Such a change needs no user, with two exceptions: the start of a deletion, and a
// new owner reference, because the garbage collector deletes objects because of owner references.
// The user of a deletion is recorded.
func (k *Kind) beginMetadata(ctx context.Context, was, wanted *aggregationv1alpha1.CoderTemplate) (by *acting.As, deletes bool, err error) {
	deletes = was.DeletionTimestamp == nil && wanted.DeletionTimestamp != nil
	addsOwner := registry.AddsOwner(was, wanted)
	if !deletes && !addsOwner {
		return nil, false, nil
	}
	connection, id, err := k.locate(ctx, was)
	if err != nil && deletes {
		// A deletion that needs no Coder user is recorded even while Coder is unreachable.
		connection, err = registry.Unconnected(ctx, k.config.Connections, controlPlaneOf(was), err)
	}
	if err != nil {
		return nil, deletes, err
	}
	s := subjectOf(was.Name)
	// The garbage collector never adds owner references.
	s.Deletes = deletes
	ctx, by, err = k.config.Actors.Begin(ctx, connection, s)
	if err == nil && by != nil {
		err = acting.May(ctx, connection.Client, s, coderd.Permission{Resource: "template", Action: mayDelete, ID: id})
	}
	return by, deletes, err
}

// noteDeletion records the initiator of the deletion.
func noteDeletion(record *metadata.Record, by *acting.As) error {
	in, err := intentOf(record)
	if err != nil {
		return err
	}
	in.DeletedBy = by
	return in.into(record)
}

// asDeleter returns a context in which requests are made as the initiator of the deletion.
func (k *Kind) asDeleter(ctx context.Context, connection connections.Connection, record *metadata.Record) (context.Context, error) {
	in, err := intentOf(record)
	if err != nil {
		return ctx, err
	}
	return k.config.Actors.Later(ctx, connection, in.DeletedBy, subjectOf(record.Name))
}
