package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// mostNamedInQuestion is the maximum number of objects in a confirmation prompt, and in the error
// for a name that does not exist.
const mostNamedInQuestion = 5

type workspaceRun struct {
	*Session
	workspaceAction
	selection workspaceSelection
	format    cli.Format
	wait      bool
	timeout   time.Duration
	dryRun    bool
	yes       bool
	// ephemeral are values for the start, as name=value.
	ephemeral []string
	// rollout are the options of update.
	rollout rollout
	// versions are the versions that update writes, by the UID of the workspace.
	versions map[types.UID]string
}

// workspaceOrder is the action for one workspace.
type workspaceOrder struct {
	workspace *aggregationv1alpha1.CoderWorkspace
	// before is the number of its newest build before the action.
	before int32
	// already reports that the workspace has the wanted state, so that nothing is requested.
	already bool
	// phase is the phase of the workspace after the action. Empty means any.
	phase string
	// failed reports that it was stalled before the action, so that only a newer build can fail it.
	failed bool
	// ended reports that the command waited until the action finished.
	ended bool
	// began is when the action was requested, in a rollout.
	began time.Time
	err   error
}

func (r *workspaceRun) do(ctx context.Context, names []string) error {
	r.selection.names = names
	if err := r.validate(); err != nil {
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
	all := len(found)
	if r.updates {
		if found, err = r.outdated(ctx, cluster, found); err == nil {
			found, err = r.skip(ctx, cluster, found)
		}
		if err != nil || len(found) == 0 {
			return err
		}
	}
	if r.removes {
		cluster.reportLeftovers(ctx, r.ErrOut, found)
	}
	if err := r.confirm(ctx, found); err != nil {
		return err
	}
	if r.dryRun {
		cluster.Client = client.NewDryRunClient(cluster.Client)
	}
	if r.rollout.unavailable != "" && !r.dryRun {
		orders, err := r.roll(ctx, cluster, found, all)
		return errors.Join(r.answer(orders), err)
	}
	orders := r.start(ctx, cluster, found)
	var waited error
	if r.wait && !r.dryRun {
		waited = r.await(ctx, cluster, orders)
	}
	return errors.Join(r.answer(orders), failedOrders(orders, waited))
}

func (r *workspaceRun) validate() error {
	if err := r.selection.validate(); err != nil {
		return err
	}
	for _, p := range r.ephemeral {
		if name, _, ok := strings.Cut(p, "="); !ok || name == "" {
			return cli.Usage("--ephemeral-parameter %q: give name=value", p)
		}
	}
	if !r.updates {
		return nil
	}
	switch o := &r.rollout; {
	case o.onlyStopped && o.idle != 0:
		return cli.Usage("give --only-stopped or --idle, not both")
	case o.idle != 0 && o.idle < leastIdle:
		return cli.Usage("--idle %s: give at least %s, because Coder reports the use of a workspace late", o.idle, leastIdle)
	case o.failures < 1:
		return cli.Usage("--max-failures %d: give 1 or more", o.failures)
	case o.unavailable == "":
		return nil
	}
	_, err := r.rollout.most(1)
	return err
}

// confirm asks the user before running workspaces are stopped or deleted.
func (r *workspaceRun) confirm(ctx context.Context, found []aggregationv1alpha1.CoderWorkspace) error {
	changing := slices.DeleteFunc(slices.Clone(found), r.hasState)
	if !r.ends || r.rollout.onlyStopped || r.dryRun || len(changing) == 0 {
		return nil
	}
	verb, where, effect := strings.ToUpper(r.verb[:1])+r.verb[1:], "", "Its processes are stopped."
	if r.removes {
		verb, where, effect = "Delete", " in Coder only", "It cannot be brought back. What is listed above, and all else that its template created, stays."
	}
	if len(changing) == 1 {
		ws := changing[0]
		return r.Confirm(ctx, r.yes, fmt.Sprintf("%s workspace %s of %s%s? %s", verb, ws.Name, ws.Status.OwnerName, where, effect))
	}
	names := firstNames(len(changing), mostNamedInQuestion, func(i int) string { return changing[i].Namespace + "/" + changing[i].Name })
	effect = strings.NewReplacer("Its processes", "Their processes", "It cannot", "They cannot", "its template", "their templates").Replace(effect)
	return r.Confirm(ctx, r.yes, fmt.Sprintf("%s %d workspaces (%s)%s? %s", verb, len(changing), names, where, effect))
}

// start requests the action for each workspace. One that is to be spared if it is in use is read again before.
func (r *workspaceRun) start(ctx context.Context, c *Cluster, found []aggregationv1alpha1.CoderWorkspace) []*workspaceOrder {
	if !r.rollout.spares() || r.dryRun {
		return r.place(ctx, c, found)
	}
	var orders []*workspaceOrder
	for _, ws := range found {
		if o := r.next(ctx, c, ws); o != nil {
			orders = append(orders, o)
		}
	}
	return orders
}

// place requests the action for each workspace. It continues after a workspace that is refused.
func (r *workspaceRun) place(ctx context.Context, c *Cluster, found []aggregationv1alpha1.CoderWorkspace) []*workspaceOrder {
	orders := make([]*workspaceOrder, 0, len(found))
	for i := range found {
		o := &workspaceOrder{workspace: &found[i], before: buildNumber(&found[i]), already: r.hasState(found[i]), phase: r.phase}
		if r.updates && ptr.Deref(found[i].Spec.Running, false) {
			// It is stopped first.
			o.phase = "Running"
		}
		orders = append(orders, o)
		if o.already {
			continue
		}
		o.failed = stalled(o.workspace.Status.Conditions) != nil
		o.err = r.ask(ctx, c, o.workspace)
		if o.err == nil && r.format.Structured() && !r.dryRun && !r.removes {
			o.err = c.Get(ctx, client.ObjectKeyFromObject(o.workspace), o.workspace)
		}
	}
	return orders
}

// hasState reports whether start or stop has nothing to do: the workspace has the wanted state, and no
// change of it was requested or refused.
func (r *workspaceRun) hasState(ws aggregationv1alpha1.CoderWorkspace) bool {
	running, failed := ws.Spec.Running, stalled(ws.Status.Conditions)
	return !r.anew && len(r.ephemeral) == 0 && ws.Status.Phase == r.phase && running != nil && *running != r.ends &&
		(failed == nil || failed.Reason != aggregationv1alpha1.ReasonChangeRefused)
}

func (r *workspaceRun) ask(ctx context.Context, c *Cluster, ws *aggregationv1alpha1.CoderWorkspace) error {
	if r.updates {
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"templateVersionID": r.versions[ws.UID]}})
		if err != nil {
			return err
		}
		return c.Patch(ctx, ws, client.RawPatch(types.MergePatchType, patch))
	}
	// The workspace that the user confirmed, and not another one that has its name now.
	body := &aggregationv1alpha1.CoderWorkspaceAction{ObjectMeta: metav1.ObjectMeta{UID: ws.UID}}
	for _, p := range r.ephemeral {
		name, value, _ := strings.Cut(p, "=")
		body.EphemeralParameters = append(body.EphemeralParameters, aggregationv1alpha1.WorkspaceParameter{Name: name, Value: value})
	}
	return c.SubResource(r.verb).Create(ctx, ws, body)
}

func buildNumber(ws *aggregationv1alpha1.CoderWorkspace) int32 {
	if ws.Status.LatestBuild == nil {
		return 0
	}
	return ws.Status.LatestBuild.Number
}

// answer prints the workspaces for which the action succeeded.
func (r *workspaceRun) answer(orders []*workspaceOrder) error {
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
			outcome := r.verb + " requested"
			switch {
			case o.already:
				outcome = "is " + strings.ToLower(r.phase) + " already"
			case r.dryRun:
				outcome = r.done + " (server dry run)"
			case o.ended:
				outcome = r.done
			case r.removes:
				outcome = "deletion requested"
			}
			fmt.Fprintf(r.Out, "coderworkspace.aggregation.coder.com/%s %s\n", o.workspace.Name, outcome)
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

// failedOrders returns an error that lists the workspaces for which the action failed. waited is the
// error of await.
func failedOrders(orders []*workspaceOrder, waited error) error {
	var failed []error
	for _, o := range orders {
		if o.err != nil {
			failed = append(failed, fmt.Errorf("workspace %s/%s: %w", o.workspace.Namespace, o.workspace.Name, o.err))
		}
	}
	if waited == nil && len(failed) > 0 && len(failed) < len(orders) {
		return &cli.ExitError{Code: cli.ExitPartial, Err: errors.Join(failed...)}
	}
	return errors.Join(append(failed, waited)...)
}

// outdated returns the workspaces that do not have the active version of their template, and
// records that version. It prints the others.
func (r *workspaceRun) outdated(ctx context.Context, c *Cluster, found []aggregationv1alpha1.CoderWorkspace) ([]aggregationv1alpha1.CoderWorkspace, error) {
	templates, err := c.templates(ctx, r.selection.namespace(c))
	if err != nil {
		return nil, err
	}
	r.versions = map[types.UID]string{}
	var outdated []aggregationv1alpha1.CoderWorkspace
	for _, ws := range found {
		tmpl, known := templates[templateOf(&ws)]
		active := tmpl.Status.ActiveVersionID
		switch {
		case !known:
			return nil, fmt.Errorf("template %q of workspace %s/%s was not found in organization %q; if it was renamed in Coder a moment ago, try again in a few minutes",
				ws.Status.TemplateName, ws.Namespace, ws.Name, ws.Status.OrganizationName)
		case active == "":
			return nil, fmt.Errorf("template %s/%s has no active version", tmpl.Namespace, tmpl.Name)
		case ws.Spec.TemplateVersionID == active:
			fmt.Fprintf(r.ErrOut, "coderworkspace.aggregation.coder.com/%s has the active version already\n", ws.Name)
		default:
			r.versions[ws.UID] = active
			outdated = append(outdated, ws)
		}
	}
	return outdated, nil
}

// reportLeftovers prints which pods and volume claims of workspaces stay if these are deleted without a
// build. It finds them by Coder's label, in all namespaces if the user may list them.
func (c *Cluster) reportLeftovers(ctx context.Context, out io.Writer, all []aggregationv1alpha1.CoderWorkspace) {
	for i := range all {
		ws := &all[i]
		for _, kind := range []string{"Pod", "PersistentVolumeClaim"} {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
			ours := client.MatchingLabels{aggregationv1alpha1.LabelWorkspaceID: ws.Status.ID}
			err := c.List(ctx, list, ours)
			if apierrors.IsForbidden(err) {
				err = c.List(ctx, list, ours, client.InNamespace(ws.Namespace))
			}
			if err != nil {
				fmt.Fprintf(out, "workspace %s: its %ss could not be listed: %s\n", ws.Name, kind, cli.Clean(err.Error()))
			}
			for _, item := range list.Items {
				fmt.Fprintf(out, "workspace %s: %s %s/%s stays\n", ws.Name, kind, item.Namespace, item.Name)
			}
		}
	}
}
