package plugin

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// await waits until all orders have finished. The error of a failed order is set on the order.
// await itself returns an error if it could not wait.
func (r *workspaceRun) await(ctx context.Context, c *Cluster, orders []*workspaceOrder) error {
	progress := r.Progress()
	defer progress.End()
	began := r.Clock.Now()
	waiting := make([]*workspaceOrder, 0, len(orders))
	for _, o := range orders {
		if o.err == nil {
			waiting = append(waiting, o)
		}
	}
	all := len(waiting)
	for {
		var still []*workspaceOrder
		for _, o := range waiting {
			var err error
			if o.ended, err = r.look(ctx, c, o); err != nil {
				return err
			}
			if !o.ended {
				still = append(still, o)
			}
			progress.Report(r.Clock.Now(), all-len(still), all, o.workspace.Name, workspaceState(o.workspace))
		}
		if waiting = still; len(waiting) == 0 {
			return nil
		}
		if r.timeout > 0 && r.Clock.Now().Sub(began) >= r.timeout {
			o := waiting[0]
			return fmt.Errorf("after %s %d of %d workspaces are not yet %s: %s is %s; the change continues without this command",
				r.timeout, len(waiting), all, r.done, o.workspace.Name, workspaceState(o.workspace))
		}
		if err := r.Clock.Wait(ctx, PollInterval); err != nil {
			return &cli.InterruptedError{GoesOn: "the requested change continues without this command"}
		}
	}
}

// look reads the workspace again and reports whether its order has finished.
func (r *workspaceRun) look(ctx context.Context, c *Cluster, o *workspaceOrder) (ended bool, err error) {
	ws := &aggregationv1alpha1.CoderWorkspace{}
	err = c.Get(ctx, client.ObjectKeyFromObject(o.workspace), ws)
	switch {
	case apierrors.IsNotFound(err):
		o.err = errors.New("it was deleted in the meantime")
		return true, nil
	case IsTemporary(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading workspace %s/%s: %w", o.workspace.Namespace, o.workspace.Name, err)
	}
	o.workspace = ws
	built := buildNumber(ws) > o.before
	if stalled := meta.FindStatusCondition(ws.Status.Conditions, aggregationv1alpha1.ConditionStalled); stalled != nil &&
		stalled.Status == metav1.ConditionTrue && (built || stalled.Reason == aggregationv1alpha1.ReasonChangeRefused) {
		o.err = fmt.Errorf("%s; kubectl coder logs -n %s %s shows the whole log", cli.Clean(stalled.Message), ws.Namespace, ws.Name)
		return true, nil
	}
	ready := meta.IsStatusConditionTrue(ws.Status.Conditions, aggregationv1alpha1.ConditionReady)
	return ready && (r.phase == "" || ws.Status.Phase == r.phase) && (built || !r.anew), nil
}

// workspaceState describes the state of the workspace for the progress output.
func workspaceState(ws *aggregationv1alpha1.CoderWorkspace) string {
	ready := meta.FindStatusCondition(ws.Status.Conditions, aggregationv1alpha1.ConditionReady)
	if ready == nil {
		return ws.Status.Phase
	}
	return ws.Status.Phase + ", " + ready.Message
}
