package workspace

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
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
	was, err := intentOf(record)
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
		n, again, err = k.settleAs(ctx, s, n)
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

// settleAs applies the waiting changes in Coder as the user who requested them.
func (k *Kind) settleAs(ctx context.Context, s subject, n intent) (intent, bool, error) {
	ctx, err := k.Actors.Later(ctx, s.connection, n.By, subjectOf(s.name, s.workspace))
	if err == nil {
		return k.settleBuild(ctx, s, n)
	}
	return n.refuse(s.name, err)
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

// settleSharing shares a new workspace.
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
