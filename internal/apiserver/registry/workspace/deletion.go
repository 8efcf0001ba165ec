package workspace

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// How long a deletion that failed rests before it is tried again: the first time,
// and at most.
const (
	firstRest   = time.Minute
	longestRest = 30 * time.Minute
)

// restFor is how long a deletion rests that failed so many times.
func restFor(times int32) time.Duration {
	d := firstRest
	for ; times > 1 && d < longestRest; times-- {
		d *= 2
	}
	return min(d, longestRest)
}

// due says that a workspace is to be deleted in Coder now: nobody else wants to do
// something before.
func due(record *metadata.Record) bool {
	return record != nil && record.DeletionTimestamp != nil && len(record.Finalizers) == 0
}

// settleDeletion deletes a workspace in Coder, where no build is under way and the
// last failure has rested.
func (k *Kind) settleDeletion(ctx context.Context, s subject, n notes) (notes, bool, error) {
	b := s.workspace.LatestBuild
	if isActive(b) || isDeleting(b) {
		return n, true, nil
	}
	if b.Transition == coderd.TransitionDelete && (n.Failed == nil || n.Failed.Build < b.Number) {
		n.Failed = n.Failed.next(failure{Build: b.Number, At: registry.Seconds(b.UpdatedAt), Message: buildVerdict(b).message})
	}
	if n.Failed != nil && k.config.Clock.Now().Before(n.Failed.At.Add(restFor(n.Failed.Times))) {
		return n, false, nil
	}
	ctx, err := k.config.Actors.Later(ctx, s.connection, n.DeletedBy, subjectOf(s.name, ""))
	if err == nil {
		_, err = s.connection.Client.Build(ctx, s.workspace.ID, coderd.BuildRequest{Transition: coderd.TransitionDelete})
	}
	if err == nil || coderd.IsConflict(err) {
		return n, true, nil
	}
	if err = fault(s.name, err); !isRefusal(err) {
		return n, false, err
	}
	build := int32(0)
	if n.Failed != nil {
		build = n.Failed.Build
	}
	n.Failed = n.Failed.next(failure{Build: build, At: registry.Seconds(k.config.Clock.Now()), Message: err.Error()})
	return n, true, nil
}

// next counts one more failure.
func (f *failure) next(now failure) *failure {
	now.Times = 1
	if f != nil {
		now.Times = f.Times + 1
	}
	return &now
}

// tryDestroy begins the deletion in Coder, of an object whose deletion is recorded.
// It is nil where Coder cannot be asked: the mirror begins it then.
func (k *Kind) tryDestroy(
	ctx context.Context, current *aggregationv1alpha1.CoderWorkspace, record *metadata.Record, n notes,
) *aggregationv1alpha1.CoderWorkspace {
	connection, id, err := k.locate(ctx, current)
	var w coderd.Workspace
	if err == nil {
		w, err = connection.Client.Workspace(ctx, id)
	}
	if err != nil {
		log.FromContext(ctx).Info("Deleting a workspace later", "workspace", current.Name, "reason", err.Error())
		if id != [16]byte{} {
			k.hint(controlPlaneOf(current), id)
		}
		return nil
	}
	k.hint(connection.ControlPlane, id)
	out, err := k.destroy(ctx, subject{connection: connection, name: current.Name, workspace: w}, record, n, current)
	if err != nil {
		log.FromContext(ctx).Info("Deleting a workspace later", "workspace", current.Name, "reason", err.Error())
		return nil
	}
	return out
}

// destroy begins the deletion in Coder and gives the object as it is then.
func (k *Kind) destroy(
	ctx context.Context, s subject, record *metadata.Record, was notes, previous *aggregationv1alpha1.CoderWorkspace,
) (*aggregationv1alpha1.CoderWorkspace, error) {
	n, _, err := k.settleDeletion(ctx, s, was)
	if err != nil {
		// It is recorded, so it goes on.
		log.FromContext(ctx).Info("Deleting a workspace later", "workspace", s.name, "reason", err.Error())
		return k.object(s.connection, s.workspace, record, was, previous), nil
	}
	if !equality.Semantic.DeepEqual(n, was) {
		if record, err = k.saveNotes(ctx, record, n); err != nil {
			return nil, unrecorded(s.name, err)
		}
	}
	if now, err := s.connection.Client.Workspace(ctx, s.workspace.ID); err == nil {
		// One that is gone already is so for certain only when the mirror has seen it.
		s.workspace = now
	}
	return k.object(s.connection, s.workspace, record, n, previous), nil
}
