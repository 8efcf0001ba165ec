package template

import (
	"cmp"
	"context"
	"fmt"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// Write implements records.Writer.
func (k *Kind) Write(ctx context.Context, key string, current, wanted records.Object) (records.Object, error) {
	return registry.Operations[object]{
		Create: k.create,
		Update: func(ctx context.Context, was, wanted object) (object, error) {
			ctx, d, err := k.decide(ctx, was, wanted)
			if err = cmp.Or(d.newer, err); err != nil {
				return nil, err
			}
			return d.apply(ctx)
		},
		Delete: func(ctx context.Context, was object) (object, error) { return nil, k.remove(ctx, was) },
	}.Write(ctx, key, current, wanted)
}

// CheckCreate implements registry.Checker.
func (k *Kind) CheckCreate(ctx context.Context, obj runtime.Object) error {
	tmpl, err := k.Cast(obj)
	if err != nil {
		return err
	}
	ctx, _, p, err := k.beginCreate(ctx, tmpl)
	if err != nil {
		return err
	}
	if p.existing != nil {
		return apierrors.NewAlreadyExists(resource, tmpl.Name)
	}
	_, err = k.resolve(ctx, tmpl.Namespace, tmpl.Spec.Variables, nil)
	return fault(tmpl.Name, err)
}

// CheckUpdate implements registry.Checker.
func (k *Kind) CheckUpdate(ctx context.Context, wanted, current runtime.Object) error {
	_, _, err := k.decide(ctx, current.(object), wanted.(object))
	return err
}

// CheckDelete implements registry.Checker.
func (k *Kind) CheckDelete(ctx context.Context, obj runtime.Object) error {
	tmpl := obj.(object)
	if err := k.CheckUpdate(ctx, k.Deleted(tmpl), tmpl); err != nil {
		return err
	}
	return k.CheckUnused(ctx, tmpl, "organization:"+tmpl.Status.OrganizationName+" template:"+tmpl.Status.TemplateName)
}

// sameSource reports whether the update does not replace the archive.
func sameSource(was, tmpl object) bool {
	a, b := was.Status.Source, tmpl.Status.Source
	return a == nil && b == nil || a != nil && b != nil && a.FileID == b.FileID
}

// observe marks the generation as observed if the one before was, because it contains nothing that
// must be sent to Coder. The start of a deletion increments the generation too.
func (k *Kind) observe(was, tmpl object) {
	if was.Status.ObservedGeneration == was.Generation {
		tmpl.Status.ObservedGeneration = tmpl.Generation
		k.Observe(tmpl)
	}
}

// remove deletes a template in Coder.
func (k *Kind) remove(ctx context.Context, was object) error {
	connection, id, err := k.Locate(ctx, was)
	if err != nil {
		return err
	}
	if was.DeletionTimestamp == nil || records.IsDeletion(ctx) {
		ctx, err = k.begin(ctx, connection, id, was.Name, true)
	} else {
		// Another user may have removed the last finalizer.
		ctx, err = k.asDeleter(ctx, connection, k.RecordOf(was))
	}
	if err != nil {
		return err
	}
	err = connection.Client.DeleteTemplate(ctx, id)
	if coderd.IsNotFound(err) {
		err = connection.Client.Absent(ctx, k.InCoder, err)
	}
	switch {
	case coderd.IsInvalid(err):
		// Coder returns 400 while the template has workspaces.
		return apierrors.NewConflict(resource, was.Name, fmt.Errorf("delete its workspaces first: %w", err))
	case err != nil:
		return fault(was.Name, err)
	}
	k.versions.forget(connection.ControlPlane, id)
	if record, ok := k.Records.Get(connection.ControlPlane, records.IDOf(was)); ok {
		if err := k.Records.Delete(ctx, record); err != nil {
			return fault(was.Name, err)
		}
	}
	return nil
}

// begin returns a context in which requests are made as the caller, to upload an archive or to delete a template. It
// checks the permission in Coder first.
func (k *Kind) begin(
	ctx context.Context, connection connections.Connection, id uuid.UUID, name string, deletes bool,
) (context.Context, error) {
	s := subjectOf(name)
	s.Deletes = deletes
	ctx, as, err := k.Actors.Begin(ctx, connection, s)
	if err != nil || as == nil {
		return ctx, err
	}
	if deletes {
		return ctx, k.MayDelete(ctx, connection, s, id)
	}
	return ctx, impersonation.May(ctx, connection.Client, s, coderd.Permission{Resource: k.InCoder, Action: "update", ID: id})
}

// asDeleter returns a context in which requests are made as the initiator of the deletion.
func (k *Kind) asDeleter(ctx context.Context, connection connections.Connection, record *metadata.Record) (context.Context, error) {
	in, err := intentOf(record)
	if err != nil {
		return ctx, err
	}
	return k.Actors.Later(ctx, connection, in.DeletedBy, subjectOf(record.Name))
}
