package workspace

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// Write implements records.Writer.
func (k *Kind) Write(ctx context.Context, key string, current, wanted records.Object) (records.Object, error) {
	return registry.Operations[object]{
		Create: k.create,
		Update: k.update,
		Delete: func(ctx context.Context, was object) (object, error) { return k.update(ctx, was, k.Deleted(was)) },
	}.Write(ctx, key, current, wanted)
}

// CheckCreate implements registry.Checker.
func (k *Kind) CheckCreate(ctx context.Context, obj runtime.Object) error {
	ws, err := k.Cast(obj)
	if err != nil {
		return err
	}
	ctx, _, p, err := k.beginCreate(ctx, ws)
	if err != nil {
		return err
	}
	return impersonation.May(ctx, p.connection.Client, subjectOf(ws.Name, coderd.Workspace{}), coderd.Permission{
		Resource: k.InCoder, Action: "create", Owner: p.owner.ID, Organization: p.organization.ID,
	})
}

// CheckUpdate implements registry.Checker.
func (k *Kind) CheckUpdate(ctx context.Context, wanted, current runtime.Object) error {
	ctx, d, err := k.decide(ctx, current.(object), wanted.(object))
	if err == nil && d.sends() {
		err = d.may(ctx)
	}
	return err
}

// CheckDelete implements registry.Checker.
func (k *Kind) CheckDelete(ctx context.Context, obj runtime.Object) error {
	ws := obj.(object)
	return k.CheckUpdate(ctx, k.Deleted(ws), ws)
}

// subjectOf returns the impersonation.Subject of a workspace that a caller wants to change. w is the
// workspace as Coder reports it for this change. It is empty if Coder cannot be asked.
func subjectOf(name string, w coderd.Workspace) impersonation.Subject {
	return impersonation.Subject{Resource: resource, Name: name, Owner: &impersonation.Owner{ID: w.OwnerID, Username: w.OwnerName}}
}

// client returns the client for the caller's sessions in a workspace and for reading its logs.
func (k *Kind) client(ctx context.Context, ws registry.Found[object]) (*coderd.Client, error) {
	return k.Actors.Client(ctx, ws.Connection, subjectOf(ws.Object.Name, coderd.Workspace{}))
}

// maySession returns an error with a readable reason if the user may not open a session in the
// workspace.
func maySession(ctx context.Context, ws registry.Found[object], client *coderd.Client) error {
	name := ws.Object.Name
	if client == ws.Connection.Client {
		return nil
	}
	allowed, err := client.May(ctx, coderd.Permission{Resource: info.InCoder, Action: "ssh", ID: ws.ID})
	if err == nil && !allowed {
		err = &coderd.Error{Op: "opening a session in workspace " + name, StatusCode: 403, Message: "the user has no permission to open a session in this workspace", ActedAs: client.ActsAs()}
	}
	return fault(name, err)
}

// save records the data that Coder cannot store, and returns the record. It retries once if the
// record was changed concurrently.
func (k *Kind) save(ctx context.Context, d *decision) (*metadata.Record, error) {
	for retried := false; ; retried = true {
		record := k.RecordOf(d.current)
		deleted := record.DeletionTimestamp != nil
		metadata.Keep(d.wanted, record)
		if d.wanted.DeletionGracePeriodSeconds == nil && !deleted {
			// The deletion was only started in Coder. If it fails, the workspace stays.
			record.DeletionTimestamp = nil
		}
		saved, err := k.Save(ctx, record, nil, d.intent.stored())
		if !apierrors.IsConflict(err) || retried {
			return saved, unrecorded(d.name, err)
		}
	}
}

// saveIntent stores the intent in a record, and returns the new record.
func (k *Kind) saveIntent(ctx context.Context, record *metadata.Record, n intent) (*metadata.Record, error) {
	saved, err := k.Save(ctx, record, nil, n.stored())
	if err != nil {
		return nil, fmt.Errorf("storing the pending change of workspace %q: %w", record.Name, err)
	}
	return saved, nil
}
