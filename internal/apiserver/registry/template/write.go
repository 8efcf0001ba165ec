package template

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// Write implements records.Writer.
func (k *Kind) Write(ctx context.Context, _ string, current, wanted records.Object) (records.Object, error) {
	was, _ := current.(*aggregationv1alpha1.CoderTemplate)
	tmpl, _ := wanted.(*aggregationv1alpha1.CoderTemplate)
	switch {
	case was == nil && tmpl == nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("a write of %T to %T makes no sense", current, wanted))
	case was == nil:
		return object(k.create(ctx, tmpl))
	case tmpl == nil:
		return nil, k.remove(ctx, was)
	case equality.Semantic.DeepEqual(was.Spec, tmpl.Spec) && sameSource(was, tmpl):
		return object(k.updateMetadata(ctx, was, tmpl))
	default:
		return object(k.update(ctx, was, tmpl))
	}
}

// object converts a nil pointer to a nil interface.
func object(tmpl *aggregationv1alpha1.CoderTemplate, err error) (records.Object, error) {
	if tmpl == nil || err != nil {
		return nil, err
	}
	return tmpl, nil
}

// sameSource reports whether the update does not replace the archive.
func sameSource(was, tmpl *aggregationv1alpha1.CoderTemplate) bool {
	a, b := was.Status.Source, tmpl.Status.Source
	return a == nil && b == nil || a != nil && b != nil && a.FileID == b.FileID
}

// recordOf returns a copy of the record of an object, or a new record if there is none.
func (k *Kind) recordOf(tmpl *aggregationv1alpha1.CoderTemplate) *metadata.Record {
	controlPlane := controlPlaneOf(tmpl)
	if known, ok := k.config.Records.Get(controlPlane, tmpl.UID); ok {
		record := known.DeepCopy()
		record.Name = tmpl.Name
		return record
	}
	return &metadata.Record{ControlPlane: controlPlane, Kind: kindName, Name: tmpl.Name, UID: tmpl.UID}
}

// updateMetadata stores the metadata in the record. It changes nothing in Coder. If the
// caller needs no Coder user, it also works while Coder is unreachable.
func (k *Kind) updateMetadata(ctx context.Context, was, wanted *aggregationv1alpha1.CoderTemplate) (*aggregationv1alpha1.CoderTemplate, error) {
	by, deletes, err := k.beginMetadata(ctx, was, wanted)
	if err != nil {
		return nil, err
	}
	record := k.recordOf(was)
	metadata.Keep(wanted, record)
	if deletes {
		if err := noteDeletion(record, by); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
	}
	if _, err := k.config.Records.Put(ctx, record); err != nil {
		return nil, fault(was.Name, err)
	}
	out := wanted.DeepCopy()
	if was.Status.ObservedGeneration == was.Generation {
		observe(out)
	}
	return out, nil
}

// observe marks the generation as observed, because it contains nothing that must be sent to Coder.
// The start of a deletion increments the generation too.
func observe(tmpl *aggregationv1alpha1.CoderTemplate) {
	tmpl.Status.ObservedGeneration = tmpl.Generation
	for i := range tmpl.Status.Conditions {
		tmpl.Status.Conditions[i].ObservedGeneration = tmpl.Generation
	}
}

// remove deletes a template in Coder.
func (k *Kind) remove(ctx context.Context, was *aggregationv1alpha1.CoderTemplate) error {
	connection, id, err := k.locate(ctx, was)
	if err != nil {
		return err
	}
	if was.DeletionTimestamp == nil {
		ctx, _, err = k.begin(ctx, connection, id, was.Name, true)
	} else {
		// Another user may have removed the last finalizer.
		ctx, err = k.asDeleter(ctx, connection, k.recordOf(was))
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
	k.book.forget(connection.ControlPlane, id)
	if record, ok := k.config.Records.Get(connection.ControlPlane, was.UID); ok {
		if err := k.config.Records.Delete(ctx, record); err != nil {
			return fault(was.Name, err)
		}
	}
	return nil
}
