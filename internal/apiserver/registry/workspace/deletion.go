package workspace

import (
	"context"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// The delay before a failed deletion is retried. It doubles with each failure.
const (
	minDeletionBackoff = time.Minute
	maxDeletionBackoff = 30 * time.Minute
)

// deletionBackoff returns the delay after the given number of failures.
func deletionBackoff(times int32) time.Duration {
	d := minDeletionBackoff
	for ; times > 1 && d < maxDeletionBackoff; times-- {
		d *= 2
	}
	return min(d, maxDeletionBackoff)
}

// settleDeletion starts the deletion in Coder if no build is running and the delay after the last
// failure has passed. It cancels a build that no provisioner has taken yet.
func (k *Kind) settleDeletion(ctx context.Context, s subject, n intent) (intent, bool, error) {
	b := s.workspace.LatestBuild
	// A deletion without a build replaces the deletion that was requested before it.
	replaced := b.Number <= n.Orphan
	cancels := b.Status == statusPending && (replaced || !isDeleting(b))
	if (isActive(b) || isDeleting(b)) && !cancels {
		return n, true, nil
	}
	if b.Transition == coderd.TransitionDelete && !replaced && (n.Failed == nil || n.Failed.Build < b.Number) {
		// Coder's clock may differ from this one.
		n.Failed = n.Failed.next(failure{Build: b.Number, At: registry.Seconds(k.Clock.Now()), Message: buildVerdict(b).Message})
	}
	if n.Failed != nil && !coderd.Elapsed(k.Clock.Now(), n.Failed.At.Time, deletionBackoff(n.Failed.Times)) {
		return n, false, nil
	}
	ctx, err := k.Actors.Later(ctx, s.connection, n.DeletedBy, subjectOf(s.name, s.workspace))
	if err == nil && cancels {
		if err := s.connection.Client.CancelPending(ctx, b.ID); err != nil {
			// The template may allow only Owners to cancel builds.
			logPostponed(ctx, s.name, err)
			return n, true, nil
		}
	}
	if err == nil {
		request := coderd.BuildRequest{Transition: coderd.TransitionDelete, Orphan: n.Orphan > 0}
		_, err = s.connection.Client.Build(ctx, s.workspace.ID, request)
	}
	if err == nil || coderd.IsConflict(err) {
		return n, true, nil
	}
	return k.refuseDeletion(s.name, n, err)
}

// refuseDeletion records that Coder refused to start the deletion. If err may be temporary, it returns
// err instead.
func (k *Kind) refuseDeletion(name string, n intent, err error) (intent, bool, error) {
	if coderd.IsUnauthorized(err) {
		// The next attempt creates another token.
		return n, false, err
	}
	if err = fault(name, err); !isRefusal(err) {
		return n, false, err
	}
	build := int32(0)
	if n.Failed != nil {
		build = n.Failed.Build
	}
	n.Failed = n.Failed.next(failure{Build: build, At: registry.Seconds(k.Clock.Now()), Message: err.Error()})
	return n, true, nil
}

// next returns the failure now with the count of f plus one.
func (f *failure) next(now failure) *failure {
	now.Times = 1
	if f != nil {
		now.Times = f.Times + 1
	}
	return &now
}

// tryDestroy starts the deletion of an object in Coder after the deletion was recorded. It returns
// nil if that fails: the mirror retries it.
func (k *Kind) tryDestroy(ctx context.Context, d *decision, record *metadata.Record) object {
	connection, id, err := k.Locate(ctx, d.current)
	w := d.workspace
	if err == nil {
		err = d.unread
	}
	if err == nil && w.ID == uuid.Nil {
		// Only the last finalizer was removed, which needs no decision in Coder.
		w, err = connection.Client.Workspace(ctx, id)
	}
	if id != uuid.Nil {
		k.Hint(metadata.ControlPlaneOf(d.current), id)
	}
	var out object
	if err == nil {
		out, err = k.destroy(ctx, subject{connection: connection, name: d.name, workspace: w}, record, d.intent, d.current)
	}
	if err != nil {
		logPostponed(ctx, d.name, err)
		return nil
	}
	return out
}

// logPostponed logs why a deletion in Coder could not be started. The deletion is recorded, so the
// mirror retries it.
func logPostponed(ctx context.Context, name string, err error) {
	log.FromContext(ctx).Info("Could not delete a workspace yet; retrying later", "workspace", name, "reason", err.Error())
}

// destroy starts the deletion in Coder and returns the resulting object.
func (k *Kind) destroy(
	ctx context.Context, s subject, record *metadata.Record, was intent, previous object,
) (object, error) {
	n, _, err := k.settleDeletion(ctx, s, was)
	if err != nil {
		logPostponed(ctx, s.name, err)
		return k.object(s.connection, s.workspace, record, was, previous), nil
	}
	if !equality.Semantic.DeepEqual(n, was) {
		if record, err = k.saveIntent(ctx, record, n); err != nil {
			return nil, unrecorded(s.name, err)
		}
	}
	if now, err := s.connection.Client.Workspace(ctx, s.workspace.ID); err == nil {
		// If the workspace is gone already, the object stays until the mirror has confirmed it.
		s.workspace = now
	}
	return k.object(s.connection, s.workspace, record, n, previous), nil
}
