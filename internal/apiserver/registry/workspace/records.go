package workspace

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// kindName is the kind in the records of workspaces.
const kindName = "CoderWorkspace"

// controlPlaneOf returns the control plane of an object.
func controlPlaneOf(ws *aggregationv1alpha1.CoderWorkspace) types.NamespacedName {
	return types.NamespacedName{Namespace: ws.Namespace, Name: ws.Labels[aggregationv1alpha1.LabelControlPlaneName]}
}

// recordOf returns a copy of the record of an object, or a new record if there is none.
func (k *Kind) recordOf(ws *aggregationv1alpha1.CoderWorkspace) *metadata.Record {
	controlPlane := controlPlaneOf(ws)
	if known, ok := k.config.Records.Get(controlPlane, ws.UID); ok {
		return known.DeepCopy()
	}
	return &metadata.Record{ControlPlane: controlPlane, Kind: kindName, Name: ws.Name, UID: ws.UID}
}

// save records the data that Coder cannot store, and returns the record. It retries once if the
// record was changed concurrently.
func (k *Kind) save(ctx context.Context, current, wanted *aggregationv1alpha1.CoderWorkspace, n notes) (*metadata.Record, error) {
	var err error
	for range 2 {
		record := k.recordOf(current)
		deleted := record.DeletionTimestamp != nil
		record.Name = current.Name
		metadata.Keep(wanted, record)
		if current.DeletionTimestamp != nil && !deleted {
			// The deletion was started in Coder itself. If it fails, the workspace stays.
			record.DeletionTimestamp, record.DeletionGracePeriodSeconds = nil, nil
		}
		if err := n.into(record); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		var saved *metadata.Record
		if saved, err = k.config.Records.Put(ctx, record); err == nil {
			return saved, nil
		}
		if !apierrors.IsConflict(err) {
			break
		}
	}
	return nil, unrecorded(current.Name, err)
}

// saveNotes stores notes in a record, and returns the new record.
func (k *Kind) saveNotes(ctx context.Context, record *metadata.Record, n notes) (*metadata.Record, error) {
	changed := record.DeepCopy()
	if err := n.into(changed); err != nil {
		return nil, err
	}
	saved, err := k.config.Records.Put(ctx, changed)
	if err != nil {
		return nil, fmt.Errorf("recording what is to be done with workspace %q: %w", record.Name, err)
	}
	return saved, nil
}

// putPending records a workspace that will be created. It replaces the record of an earlier
// attempt.
func (k *Kind) putPending(ctx context.Context, record *metadata.Record) (*metadata.Record, error) {
	pending, err := k.config.Records.Put(ctx, record)
	if apierrors.IsConflict(err) {
		if earlier, ok := k.config.Records.PendingFor(record.ControlPlane, record.Kind, record.Name); ok {
			record.Version = earlier.Version
			pending, err = k.config.Records.Put(ctx, record)
		}
	}
	return pending, unrecorded(record.Name, err)
}
