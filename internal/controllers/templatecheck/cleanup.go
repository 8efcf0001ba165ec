package templatecheck

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
)

const (
	// createSettles is longer than Coder may work on a request for a workspace that got no answer. Only then a missing workspace
	// proves that there will be none.
	createSettles = coderd.DefaultTimeout + 15*time.Second
	// maxDeletions is how often a failed deletion is repeated before a person must act.
	maxDeletions = 5
	// longestDeletion limits how long the deletion of a test waits for builds in Coder.
	longestDeletion = 30 * time.Minute
)

// release removes the finalizer of a test that is being deleted, when its workspace is gone or the time limit is reached.
func (p *pass) release(ctx context.Context, unavailable error) (time.Duration, error) {
	if !controllerutil.ContainsFinalizer(p.test, coderv1alpha1.FinalizerTemplateTest) {
		return 0, nil
	}
	p.commands.stop(p.test.UID)
	stop, err := p.cleanUp(ctx, unavailable)
	if err != nil {
		return 0, err
	}
	if stop != nil {
		limit := framework.DeletionLimit
		if stop.Reason == coderv1alpha1.ReasonDeletingWorkspace {
			limit = longestDeletion
		}
		if since := p.test.DeletionTimestamp.Time; !coderd.Elapsed(p.now, since, limit) {
			return min(stop.After, framework.DeletionRetry), p.write(ctx)
		}
		p.event(corev1.EventTypeWarning, coderv1alpha1.ReasonWorkspaceLeft, fmt.Sprintf(
			"the workspace %q of user %q may stay in Coder; delete it there: %s", p.test.Status.WorkspaceName, p.test.Status.OwnerName, stop.Message))
	}
	controllerutil.RemoveFinalizer(p.test, coderv1alpha1.FinalizerTemplateTest)
	p.test.Status = p.read.Status
	if err := p.kit.Client.Patch(ctx, p.test, framework.LockedPatch(p.read)); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("removing the finalizer: %w", err)
	}
	return 0, nil
}

// cleanUp takes the next step of the deletion of the workspace, and sets the condition WorkspaceDeleted. It returns nil when
// the workspace is gone, and otherwise what the deletion waits for.
func (p *pass) cleanUp(ctx context.Context, unavailable error) (*ensure.Stop, error) {
	p.commands.stop(p.test.UID)
	was := reasonOf(p.test, coderv1alpha1.ConditionWorkspaceDeleted)
	if !hasWorkspace(p.test) {
		return nil, nil
	}
	err := unavailable
	if err == nil {
		err = p.remove(ctx)
	}
	stop := ensure.Stopped(err)
	if stop == nil {
		return nil, err
	}
	p.set(framework.ConditionFalse(coderv1alpha1.ConditionWorkspaceDeleted, stop.Reason, stop.Message))
	if stop.Reason == coderv1alpha1.ReasonWorkspaceLeft && was != stop.Reason {
		p.event(corev1.EventTypeWarning, stop.Reason, stop.Message)
	}
	return stop, nil
}

// remove takes the next step of the deletion of the workspace.
func (p *pass) remove(ctx context.Context) error {
	w, err := p.find(ctx)
	if err != nil || w == nil {
		return err
	}
	b := w.LatestBuild
	deleting := func() error {
		return ensure.Waits(coderv1alpha1.ReasonDeletingWorkspace, pollInterval, "Coder deletes the workspace %q (build %d: %s)", w.Name, b.Number, b.Status)
	}
	deletes := b.Transition == coderd.TransitionDelete
	switch {
	case b.Status == "pending" && !deletes:
		if err := p.client.CancelPending(ctx, b.ID); err != nil {
			return waits(err)
		}
		return deleting()
	case slices.Contains([]string{"pending", "starting", "stopping", "canceling", "deleting"}, b.Status):
		return deleting()
	case deletes && b.Number > maxDeletions:
		return ensure.Waits(coderv1alpha1.ReasonWorkspaceLeft, framework.RestInterval,
			"%d builds have failed to delete the workspace %q of user %q; delete it in Coder: %s", maxDeletions, w.Name, w.OwnerName, p.cause(ctx, b))
	case deletes && !coderd.Elapsed(p.now, b.UpdatedAt, framework.RetryInterval):
		return ensure.Waits(coderv1alpha1.ReasonDeleteBuildFailed, framework.RetryInterval,
			"build %d failed to delete the workspace %q of user %q: %s", b.Number, w.Name, w.OwnerName, p.cause(ctx, b))
	}
	if b, err = p.client.Build(ctx, w.ID, coderd.BuildRequest{Transition: coderd.TransitionDelete}); err != nil && !coderd.IsConflict(err) {
		return waits(err)
	}
	return deleting()
}

// cause returns why a build failed.
func (p *pass) cause(ctx context.Context, b coderd.Build) string {
	cause, _ := p.client.BuildCause(ctx, b.ID)
	return cmp.Or(cause, b.Error, "Coder gave no reason")
}

// find returns the workspace of the test. If there is none, it sets the condition WorkspaceDeleted and returns nil.
func (p *pass) find(ctx context.Context) (*coderd.Workspace, error) {
	status := &p.test.Status
	var w coderd.Workspace
	id, err := uuid.Parse(status.WorkspaceID)
	known := err == nil
	if known {
		w, err = p.client.Workspace(ctx, id)
	} else {
		w, err = p.client.WorkspaceByName(ctx, status.OwnerName, status.WorkspaceName)
	}
	if coderd.IsNotFound(err) {
		err = p.client.Absent(ctx, workspaceResource, err)
		// No workspace is requested after the test has its result or is being deleted.
		ended := cmp.Or(p.test.Status.CompletionTime, p.test.DeletionTimestamp)
		switch {
		case err != nil:
		case known:
			p.deleted(coderv1alpha1.ReasonWorkspaceGone, "the workspace was deleted")
			return nil, nil
		case !coderd.Elapsed(p.now, ended.Time, createSettles):
			return nil, ensure.Waits(coderv1alpha1.ReasonConfirmingCreate, pollInterval, "Coder has no workspace %q yet, and may still create it", status.WorkspaceName)
		default:
			p.deleted(coderv1alpha1.ReasonWorkspaceNeverCreated, "Coder created no workspace for the test")
			return nil, nil
		}
	}
	if err != nil {
		return nil, waits(err)
	}
	if known {
		return &w, nil
	}
	ours, err := p.ours(ctx, w)
	if err != nil {
		return nil, err
	}
	if !ours {
		p.deleted(coderv1alpha1.ReasonWorkspaceNeverCreated, fmt.Sprintf("the workspace %q of user %q is not that of the test", w.Name, w.OwnerName))
		return nil, nil
	}
	status.WorkspaceID = w.ID.String()
	return &w, nil
}
