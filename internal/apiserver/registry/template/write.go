package template

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
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
			if equality.Semantic.DeepEqual(was.Spec, wanted.Spec) && sameSource(was, wanted) {
				return k.updateMetadata(ctx, was, wanted)
			}
			return k.update(ctx, was, wanted)
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
	was, tmpl := current.(object), wanted.(object)
	if equality.Semantic.DeepEqual(was.Spec, tmpl.Spec) && sameSource(was, tmpl) {
		_, _, err := k.BeginChange(ctx, was, tmpl, subjectOf(was.Name))
		return err
	}
	connection, id, err := k.Locate(ctx, was)
	if err != nil {
		return err
	}
	if ctx, _, err = k.beginUpdate(ctx, connection, id, was, tmpl); err != nil {
		return err
	}
	if tmpl.Spec.VersionID != was.Spec.VersionID {
		_, err = promotable(ctx, connection, id, tmpl)
		return err
	}
	if !changesContent(tmpl, was) && tmpl.Spec.VersionName == was.Spec.VersionName {
		return nil
	}
	u, err := k.newUpdate(connection, was, tmpl)
	if err != nil {
		return err
	}
	if err := u.read(ctx, id); err != nil {
		return fault(tmpl.Name, err)
	}
	if !u.rebuilds() {
		return nil
	}
	file, _, err := u.knownFile(ctx)
	if err != nil {
		return err
	}
	_, err = u.choose(ctx, file)
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

// updateMetadata stores the metadata in the record. It changes nothing in Coder. If the
// caller needs no Coder user, it also works while Coder is unreachable.
func (k *Kind) updateMetadata(ctx context.Context, was, wanted object) (object, error) {
	_, by, err := k.BeginChange(ctx, was, wanted, subjectOf(was.Name))
	if err != nil {
		return nil, err
	}
	record := k.RecordOf(was)
	if registry.Deletes(ctx, was, wanted) {
		in, err := intentOf(record)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		in.DeletedBy = by
		if _, err = k.Save(ctx, record, wanted, in); err != nil {
			return nil, fault(was.Name, err)
		}
	} else {
		metadata.Keep(wanted, record)
		if _, err := k.Records.Put(ctx, record); err != nil {
			return nil, fault(was.Name, err)
		}
	}
	out := wanted.DeepCopy()
	k.observe(was, out)
	k.showDeletion(out, was.Status.Conditions)
	return out, nil
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
		ctx, _, err = k.begin(ctx, connection, id, was.Name, true)
	} else {
		// Another user may have removed the last finalizer.
		ctx, err = k.asDeleter(ctx, connection, k.RecordOf(was))
	}
	if err != nil {
		return err
	}
	err = connection.Client.DeleteTemplate(ctx, id)
	switch {
	case coderd.IsInvalid(err):
		// Coder returns 400 while the template has workspaces.
		return apierrors.NewConflict(resource, was.Name, fmt.Errorf("delete its workspaces first: %w", err))
	case err != nil && !coderd.IsNotFound(err):
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

// begin determines the Coder user that the caller acts as to change a template. It checks the
// permission in Coder first, because a part of the change may be carried out later.
func (k *Kind) begin(
	ctx context.Context, connection connections.Connection, id uuid.UUID, name string, deletes bool,
) (context.Context, *impersonation.As, error) {
	s := subjectOf(name)
	s.Deletes = deletes
	ctx, as, err := k.Actors.Begin(ctx, connection, s)
	if err != nil || as == nil {
		return ctx, as, err
	}
	if deletes {
		return ctx, as, k.MayDelete(ctx, connection, s, id)
	}
	return ctx, as, impersonation.May(ctx, connection.Client, s, coderd.Permission{Resource: k.InCoder, Action: "update", ID: id})
}

// beginUpdate is begin for an update. A new owner reference needs the permission to delete, as in BeginChange.
func (k *Kind) beginUpdate(
	ctx context.Context, connection connections.Connection, id uuid.UUID, was, wanted object,
) (context.Context, *impersonation.As, error) {
	ctx, as, err := k.begin(ctx, connection, id, was.Name, false)
	if err == nil && as != nil && registry.AddsOwner(was, wanted) {
		err = k.MayDelete(ctx, connection, subjectOf(was.Name), id)
	}
	return ctx, as, err
}

// asDeleter returns a context in which requests are made as the initiator of the deletion.
func (k *Kind) asDeleter(ctx context.Context, connection connections.Connection, record *metadata.Record) (context.Context, error) {
	in, err := intentOf(record)
	if err != nil {
		return ctx, err
	}
	return k.Actors.Later(ctx, connection, in.DeletedBy, subjectOf(record.Name))
}
