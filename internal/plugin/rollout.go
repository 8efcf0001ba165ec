package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// leastIdle is the minimum of --idle. Coder reports the use of a workspace up to a few minutes late.
const leastIdle = 5 * time.Minute

// rollout are the options of update for many workspaces.
type rollout struct {
	unavailable string
	failures    int
	onlyStopped bool
	idle        time.Duration
}

// most returns the maximum number of workspaces, of all that were chosen, that are updated at the same time.
func (o *rollout) most(all int) (int, error) {
	number, percent := strings.CutSuffix(o.unavailable, "%")
	n, err := strconv.Atoi(number)
	switch {
	case err != nil || n < 1 || percent && n > 100:
		return 0, cli.Usage("--max-unavailable %q: give a number such as 5 or a percentage such as 10%%, at least 1", o.unavailable)
	case percent:
		n = all * n / 100
	}
	return max(n, 1), nil
}

// spares reports whether workspaces that somebody uses are left as they are.
func (o *rollout) spares() bool { return o.onlyStopped || o.idle != 0 }

// inUse returns why a workspace is not to be updated now, or an empty string.
func (o *rollout) inUse(ws *aggregationv1alpha1.CoderWorkspace, now time.Time) string {
	stopped := ws.Status.Phase == "Stopped" && !ptr.Deref(ws.Spec.Running, false)
	switch used := ws.Status.LastUsedAt; {
	case stopped, !o.spares():
		return ""
	case o.onlyStopped:
		return "is not stopped"
	case used == nil:
		return "is not stopped, and it is not known when it was used"
	case now.Sub(used.Time) < o.idle:
		return fmt.Sprintf("was used at %s", used.UTC().Format(time.RFC3339))
	}
	return ""
}

// skip removes the workspaces that are not to be updated now, and names them.
func (r *workspaceRun) skip(ctx context.Context, c *Cluster, found []aggregationv1alpha1.CoderWorkspace) ([]aggregationv1alpha1.CoderWorkspace, error) {
	// The owners of the workspaces of CoderTemplateTests, by their control planes.
	testers := map[client.ObjectKey]string{}
	if len(r.selection.names) == 0 {
		var list coderv1alpha1.CoderControlPlaneList
		err := c.List(ctx, &list, client.InNamespace(r.selection.namespace(c)))
		if apierrors.IsForbidden(err) {
			fmt.Fprintln(r.ErrOut, "the workspaces of tests are not left out, because you may not list control planes")
		} else if err != nil {
			return nil, fmt.Errorf("listing the control planes, to leave out the workspaces of tests: %w", err)
		}
		for i := range list.Items {
			if tests := list.Items[i].Spec.TemplateTests; tests != nil {
				testers[client.ObjectKeyFromObject(&list.Items[i])] = tests.OwnerUsername
			}
		}
	}
	return slices.DeleteFunc(found, func(ws aggregationv1alpha1.CoderWorkspace) bool {
		why := r.rollout.inUse(&ws, r.Now())
		if owner := testers[client.ObjectKey{Namespace: ws.Namespace, Name: ws.Labels[aggregationv1alpha1.LabelControlPlaneName]}]; owner != "" &&
			strings.EqualFold(owner, ws.Status.OwnerName) {
			why = "belongs to a test of its version"
		}
		if why != "" {
			r.skipped(&ws, why)
		}
		return why != ""
	}), nil
}

func (r *workspaceRun) skipped(ws *aggregationv1alpha1.CoderWorkspace, why string) {
	fmt.Fprintf(r.ErrOut, "coderworkspace.aggregation.coder.com/%s %s: skipped\n", ws.Name, why)
}

// roll updates the workspaces, at most a number of them at the same time, and waits for each. all is the number of workspaces that were
// chosen. It starts no more after too many failures. The same command continues later: it chooses those that are outdated then.
func (r *workspaceRun) roll(ctx context.Context, c *Cluster, found []aggregationv1alpha1.CoderWorkspace, all int) ([]*workspaceOrder, error) {
	most, err := r.rollout.most(all)
	if err != nil {
		return nil, err
	}
	progress := r.Progress()
	defer progress.End()
	waiting := slices.Clone(found)
	var orders, running []*workspaceOrder
	failures := 0
	err = r.poll(ctx, 0, "the updates that have begun continue without this command; the same command continues with the others", func() (bool, error) {
		var still []*workspaceOrder
		for _, o := range running {
			if o.ended, err = r.look(ctx, c, o); err != nil {
				return false, err
			}
			if !o.ended && r.timeout > 0 && r.Now().Sub(o.began) >= r.timeout {
				o.ended, o.err = true, fmt.Errorf("it is not updated after %s: %s", r.timeout, workspaceState(o.workspace))
			}
			switch {
			case !o.ended:
				still = append(still, o)
			case o.err != nil:
				failures++
			}
			progress.Report(r.Now(), len(found)-len(waiting)-len(still), len(found), o.workspace.Name, workspaceState(o.workspace))
		}
		running = still
		for len(running) < most && len(waiting) > 0 && failures < r.rollout.failures {
			o := r.next(ctx, c, waiting[0])
			waiting = waiting[1:]
			switch {
			case o == nil:
			case o.err != nil:
				failures++
				orders = append(orders, o)
			default:
				orders, running = append(orders, o), append(running, o)
			}
		}
		return len(running) == 0 && (len(waiting) == 0 || failures >= r.rollout.failures), nil
	}, ctx.Err)
	failed := failedOrders(orders, err)
	if err == nil && len(waiting) > 0 {
		failed = withReason(failed, fmt.Errorf("stopped, because %d failed: %d workspaces were not updated; the same command continues with them", failures, len(waiting)))
	}
	return orders, failed
}

// withReason adds an error to another one, whose exit code remains.
func withReason(failed, reason error) error {
	if partly, ok := errors.AsType[*cli.ExitError](failed); ok {
		return &cli.ExitError{Code: partly.Code, Err: errors.Join(partly.Err, reason)}
	}
	return errors.Join(failed, reason)
}

// next requests the update of a workspace, if it is still to be updated. Otherwise it returns nil.
func (r *workspaceRun) next(ctx context.Context, c *Cluster, ws aggregationv1alpha1.CoderWorkspace) *workspaceOrder {
	now := &aggregationv1alpha1.CoderWorkspace{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(&ws), now); err != nil {
		if apierrors.IsNotFound(err) {
			r.skipped(&ws, "was deleted meanwhile")
			return nil
		}
		return &workspaceOrder{workspace: &ws, err: err}
	}
	why := r.rollout.inUse(now, r.Now())
	switch {
	case now.UID != ws.UID:
		why = "was deleted and created again"
	case now.Spec.TemplateVersionID != ws.Spec.TemplateVersionID:
		// It may be newer than the version that was active when the rollout began.
		why = "got another version meanwhile"
	}
	if why != "" {
		r.skipped(now, why)
		return nil
	}
	o := r.place(ctx, c, []aggregationv1alpha1.CoderWorkspace{*now})[0]
	o.began = r.Now()
	return o
}
