package workspace

import (
	"context"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// Settle implements mirror.Kind.
func (k *Kind) Settle(
	ctx context.Context, connection connections.Connection, item coderd.Workspace, record *metadata.Record,
) (again bool, err error) {
	if record == nil {
		return false, nil
	}
	was, err := registry.ReadIntent[intent](record)
	if err != nil {
		return false, err
	}
	s := subject{connection: connection, name: record.Name, workspace: item}
	n, err := k.refresh(ctx, connection, item, was)
	if err != nil {
		return false, err
	}
	switch {
	case record.DeletionDue():
		n, again, err = k.settleDeletion(ctx, s, n)
	case n.waits():
		as, unknown := k.Actors.Later(ctx, connection, n.By, subjectOf(s.name, item))
		if unknown == nil {
			n, again, err = k.settleBuild(as, s, n)
		} else {
			n, again, err = n.refuse(s.name, unknown)
		}
	case n.Change != nil:
		n, again, err = k.settleBuild(ctx, s, n)
	}
	if equality.Semantic.DeepEqual(n, was) {
		return again, err
	}
	if _, putErr := k.saveIntent(ctx, record, n); putErr != nil {
		return true, putErr
	}
	return true, err
}

// settleBuild applies the waiting changes in Coder, unless a build is running. If Coder refuses a
// change, that is recorded and the change is not retried.
func (k *Kind) settleBuild(ctx context.Context, s subject, n intent) (intent, bool, error) {
	client, w := s.connection.Client, s.workspace
	if c := n.Change; c != nil && c.Refused == "" {
		if c.Dormant != nil && *c.Dormant != w.Dormant {
			if err := client.SetDormant(ctx, w.ID, *c.Dormant); err != nil {
				return n, false, fault(s.name, err)
			}
		}
		if c.SharedWith != nil {
			return k.settleSharing(ctx, s, n)
		}
	}
	if isActive(w.LatestBuild) {
		if n.waits() && n.Restart == 0 && w.LatestBuild.UnmatchedTags != "" {
			return k.supersede(ctx, s, n)
		}
		return n, n.waits(), nil
	}
	other, err := s.stoppedByOther(ctx, n)
	if err != nil {
		return n, false, fault(s.name, err)
	}
	if other {
		n.Restart = 0
	}
	n, stop := n.restarted(w)
	if stop {
		_, err := client.Build(ctx, w.ID, coderd.BuildRequest{Transition: coderd.TransitionStop})
		if err == nil || coderd.IsConflict(err) {
			return n, true, nil
		}
		return n.refuse(s.name, err)
	}
	if n.Change == nil {
		return n, false, nil
	}
	return k.settleChange(ctx, s, n)
}

func (k *Kind) settleSharing(ctx context.Context, s subject, n intent) (intent, bool, error) {
	changes, err := k.planSharing(ctx, s, n.Change.SharedWith)
	if err == nil && len(changes) > 0 {
		err = s.connection.Client.ShareWorkspace(ctx, s.workspace.ID, changes)
	}
	if err != nil {
		return n.refuse(s.name, err)
	}
	n.Change = n.Change.withoutSharing()
	return n, true, nil
}

// supersede cancels a build that no provisioner can take, if the waiting change needs another one.
func (k *Kind) supersede(ctx context.Context, s subject, n intent) (intent, bool, error) {
	to, err := k.planBuild(ctx, s, n, *n.Change)
	switch {
	case err != nil:
		return n.refuse(s.name, err)
	case !to.needed:
		n.Change = nil
		return n, true, nil
	}
	if err := s.connection.Client.CancelPending(ctx, s.workspace.LatestBuild.ID); err != nil {
		// The template may allow only Owners to cancel builds.
		log.FromContext(ctx).Info("Could not cancel a build that no provisioner takes; waiting for its end", "workspace", s.name, "reason", err.Error())
	}
	return n, true, nil
}

func (k *Kind) settleChange(ctx context.Context, s subject, n intent) (intent, bool, error) {
	to, err := k.planBuild(ctx, s, n, *n.Change)
	switch {
	case err != nil && n.Change.Refused != "":
		return n, false, nil
	case err != nil:
		return n.refuse(s.name, err)
	case !to.needed:
		n.Change = nil
		return n, true, nil
	case n.Change.Refused != "":
		return n, false, nil
	case to.replaces(s.workspace):
		n.Restart = s.workspace.LatestBuild.Number
		return n, true, nil
	}
	if n, err = s.start(ctx, n, to); err != nil {
		return n.refuse(s.name, err)
	}
	if n.Change == nil {
		log.FromContext(ctx).Info("Started a build for a pending change of the spec", "workspace", s.name, "transition", to.request.Transition)
	}
	return n, true, nil
}

// stoppedByOther reports whether another user, or a schedule, stopped the workspace since a change was
// recorded that stops it first. Then it stays stopped.
func (s subject) stoppedByOther(ctx context.Context, n intent) (bool, error) {
	b := s.workspace.LatestBuild
	if n.Restart == 0 || b.Number <= n.Restart || b.Transition != coderd.TransitionStop || n.Change == nil || n.Change.Running != nil {
		return false, nil
	}
	if n.By != nil {
		return b.InitiatorID != n.By.ID || b.Reason != "initiator", nil
	}
	operator, err := s.connection.Client.Me(ctx)
	return b.InitiatorID != operator.ID || b.Reason != "initiator", err
}

// restarted returns the intent after the current step of a restart. If stop is true, the workspace
// must be stopped next. The start after the stop becomes a normal change.
func (n intent) restarted(w coderd.Workspace) (_ intent, stop bool) {
	b := w.LatestBuild
	switch {
	case n.Restart == 0:
		return n, false
	case b.Number > n.Restart && b.Transition == coderd.TransitionStop && hasFailed(b) && n.Change != nil:
		// A start now would be one over a workspace that may still run.
		c := change{Running: ptr.To(true)}.merge(n.Change)
		c.Refused = "the workspace must be stopped first, and " + buildVerdict(b).Message + "; start the workspace to apply the change nevertheless"
		n.Restart, n.Change = 0, &c
		return n, false
	case b.Number > n.Restart && (isStarted(w) || hasFailed(b)) || b.Transition == coderd.TransitionDelete:
		// It was started again, or could not be stopped. The conditions report the failure.
		n.Restart = 0
		return n, false
	case isStarted(w):
		return n, true
	default:
		n.Restart, n.Change = 0, ptr.To(change{Running: ptr.To(true)}.merge(n.Change))
		return n, false
	}
}

// refuse records that Coder refused the change, or the stop of a restart. If err may be temporary, it
// returns err instead. A token that Coder does not accept is temporary: the next attempt creates
// another one.
func (n intent) refuse(name string, err error) (intent, bool, error) {
	refused := fault(name, err)
	if coderd.IsUnauthorized(err) || !isRefusal(refused) {
		return n, false, err
	}
	if n.Restart > 0 {
		n.Restart, n.Change = 0, ptr.To(change{Running: ptr.To(true)}.merge(n.Change))
	}
	c := *n.Change
	c.Refused = refused.Error()
	n.Change = &c
	return n, true, nil
}

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
