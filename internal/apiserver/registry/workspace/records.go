package workspace

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// kindName stands in the records of workspaces.
const kindName = "CoderWorkspace"

// controlPlaneOf is where an object lives.
func controlPlaneOf(ws *aggregationv1alpha1.CoderWorkspace) types.NamespacedName {
	return types.NamespacedName{Namespace: ws.Namespace, Name: ws.Labels[aggregationv1alpha1.LabelControlPlaneName]}
}

// recordOf gives a copy of the record of an object, a new one where there is none.
func (k *Kind) recordOf(ws *aggregationv1alpha1.CoderWorkspace) *metadata.Record {
	controlPlane := controlPlaneOf(ws)
	if known, ok := k.config.Records.Get(controlPlane, ws.UID); ok {
		return known.DeepCopy()
	}
	return &metadata.Record{ControlPlane: controlPlane, Kind: kindName, Name: ws.Name, UID: ws.UID}
}

// save records what Coder has no place for, and gives the record. Where it was
// changed by hand meanwhile, it is tried once more.
func (k *Kind) save(ctx context.Context, current, wanted *aggregationv1alpha1.CoderWorkspace, n notes) (*metadata.Record, error) {
	var err error
	for range 2 {
		record := k.recordOf(current)
		deleted := record.DeletionTimestamp != nil
		record.Name = current.Name
		metadata.Keep(wanted, record)
		if current.DeletionTimestamp != nil && !deleted {
			// It was deleted in Coder itself. If that fails, the workspace lives on.
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

// saveNotes records notes alone, where they are others than before.
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

// putPending records a workspace that will be created. What an earlier try left is
// replaced.
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
