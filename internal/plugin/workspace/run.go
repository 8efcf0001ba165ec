package workspace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// mostNamed is the maximum number of workspaces in a confirmation prompt.
const mostNamed = 5

// run is one run of a command.
type run struct {
	*session.Session
	action
	selection selection
	format    cli.Format
	wait      bool
	timeout   time.Duration
	dryRun    bool
	yes       bool
	// versions are the versions that update writes, by the UID of the workspace.
	versions map[types.UID]string
}

// order is the action for one workspace.
type order struct {
	workspace *aggregationv1alpha1.CoderWorkspace
	// before is the number of its newest build before the action.
	before int32
	// ended reports that the command waited until the action finished.
	ended bool
	err   error
}

func (r *run) do(ctx context.Context, names []string) error {
	r.selection.names = names
	if err := r.selection.validate(); err != nil {
		return err
	}
	cluster, err := r.Cluster()
	if err != nil {
		return err
	}
	found, err := r.selection.find(ctx, cluster)
	if err != nil {
		return err
	}
	if r.updates {
		if found, err = r.outdated(ctx, cluster, found); err != nil || len(found) == 0 {
			return err
		}
	}
	if r.ends && !r.dryRun {
		if err := r.Confirm(ctx, r.yes, r.question(found)); err != nil {
			return err
		}
	}
	orders := r.place(ctx, cluster, found)
	if r.wait && !r.dryRun {
		if err := r.await(ctx, cluster, orders); err != nil {
			return errors.Join(r.answer(orders), err)
		}
	}
	return errors.Join(r.answer(orders), failures(orders))
}

func (r *run) question(found []aggregationv1alpha1.CoderWorkspace) string {
	verb := strings.ToUpper(r.verb[:1]) + r.verb[1:]
	if len(found) == 1 {
		ws := found[0]
		return fmt.Sprintf("%s workspace %s of %s? What runs in it ends.", verb, ws.Name, ws.Status.OwnerName)
	}
	var names []string
	for _, ws := range found[:min(len(found), mostNamed)] {
		names = append(names, ws.Namespace+"/"+ws.Name)
	}
	if more := len(found) - mostNamed; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%s %d workspaces (%s)? What runs in them ends.", verb, len(found), strings.Join(names, ", "))
}

// place requests the action for each workspace. It continues after a workspace that is refused.
func (r *run) place(ctx context.Context, c *session.Cluster, found []aggregationv1alpha1.CoderWorkspace) []*order {
	orders := make([]*order, 0, len(found))
	for i := range found {
		o := &order{workspace: &found[i], before: buildNumber(&found[i])}
		o.err = r.ask(ctx, c, o.workspace)
		if o.err == nil && r.format.Structured() && !r.dryRun {
			o.err = c.Get(ctx, client.ObjectKeyFromObject(o.workspace), o.workspace)
		}
		orders = append(orders, o)
	}
	return orders
}

// ask requests the action for one workspace.
func (r *run) ask(ctx context.Context, c *session.Cluster, ws *aggregationv1alpha1.CoderWorkspace) error {
	if r.updates {
		return r.update(ctx, c, ws)
	}
	var options []client.SubResourceCreateOption
	if r.dryRun {
		options = append(options, client.DryRunAll)
	}
	return c.SubResource(r.verb).Create(ctx, ws, &aggregationv1alpha1.CoderWorkspaceAction{}, options...)
}

func buildNumber(ws *aggregationv1alpha1.CoderWorkspace) int32 {
	if ws.Status.LatestBuild == nil {
		return 0
	}
	return ws.Status.LatestBuild.Number
}

// answer prints the workspaces for which the action succeeded.
func (r *run) answer(orders []*order) error {
	list := &aggregationv1alpha1.CoderWorkspaceList{Items: []aggregationv1alpha1.CoderWorkspace{}}
	list.SetGroupVersionKind(aggregationv1alpha1.GroupVersion.WithKind("CoderWorkspaceList"))
	for _, o := range orders {
		if o.err != nil {
			continue
		}
		o.workspace.SetGroupVersionKind(aggregationv1alpha1.GroupVersion.WithKind("CoderWorkspace"))
		list.Items = append(list.Items, *o.workspace)
		switch r.format {
		case cli.Name:
			fmt.Fprintf(r.Out, "coderworkspace.aggregation.coder.com/%s\n", o.workspace.Name)
		case cli.Human:
			fmt.Fprintf(r.Out, "coderworkspace.aggregation.coder.com/%s %s\n", o.workspace.Name, r.outcome(o))
		}
	}
	switch {
	case !r.format.Structured():
		return nil
	case len(r.selection.names) == 1 && len(list.Items) == 1:
		return r.format.Write(r.Out, &list.Items[0])
	}
	return r.format.Write(r.Out, list)
}

func (r *run) outcome(o *order) string {
	switch {
	case r.dryRun:
		return r.done + " (server dry run)"
	case o.ended:
		return r.done
	}
	return r.verb + " asked for"
}

// failures returns an error that lists the workspaces for which the action failed.
func failures(orders []*order) error {
	var failed []error
	for _, o := range orders {
		if o.err != nil {
			failed = append(failed, fmt.Errorf("workspace %s/%s: %w", o.workspace.Namespace, o.workspace.Name, o.err))
		}
	}
	err := errors.Join(failed...)
	if err != nil && len(failed) < len(orders) {
		return &cli.PartialError{Err: err}
	}
	return err
}
