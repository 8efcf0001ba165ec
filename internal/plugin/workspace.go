package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// workspaceAction describes one of the commands.
type workspaceAction struct {
	verb, done string
	// phase is the phase of a workspace after the action. Empty means any.
	phase string
	// ends reports that the action ends running processes, so that the user must confirm it.
	ends bool
	// anew reports that the action always starts a build.
	anew bool
	// updates reports that the action changes the version in the spec, and uses no subresource.
	updates bool
	// removes reports that the workspace is deleted.
	removes bool
	// starts reports that the action takes values for the start.
	starts bool
}

func newWorkspaceCommands(s *Session) []*cobra.Command {
	return []*cobra.Command{
		newActionCommand(s, "Start workspaces", "Starts workspaces. Those that run already are left as they are.\n",
			workspaceAction{verb: "start", done: "started", phase: "Running", starts: true}),
		newActionCommand(s, "Stop workspaces", "Stops workspaces. Those that are stopped already are left as they are.\n",
			workspaceAction{verb: "stop", done: "stopped", phase: "Stopped", ends: true}),
		newActionCommand(s, "Stop workspaces and start them again", "Restarts workspaces. ",
			workspaceAction{verb: "restart", done: "restarted", phase: "Running", ends: true, anew: true, starts: true}),
		newActionCommand(s, "Bring workspaces to the active version of their templates",
			"Builds workspaces again from the active version of their templates: it writes status.activeVersionID of the template\n"+
				"into spec.templateVersionID of the workspace. Workspaces that run are stopped first, and then started. Those that have\n"+
				"that version already are left as they are.\n"+
				"With --max-unavailable it is a rollout: a few workspaces at the same time, which stops after failures. The same command\n"+
				"continues it. With --only-stopped or --idle it stops no workspace that somebody uses.\n",
			workspaceAction{verb: "update", done: "updated", ends: true, anew: true, updates: true}),
		newActionCommand(s, "Delete workspaces in Coder without a build, and leave their resources",
			"Deletes workspaces in Coder without the build that destroys their resources, if no provisioner can run it any more.\n"+
				"What their templates created stays; pods and volume claims with Coder's label are listed. Otherwise use kubectl delete.\n"+
				"This is not kubectl delete --cascade=orphan. It requires the permission to create coderworkspaces/orphan.\n",
			workspaceAction{verb: "orphan", done: "deleted", ends: true, anew: true, removes: true}),
	}
}

// newActionCommand returns a command. what is the beginning of its help text.
func newActionCommand(s *Session, short, what string, a workspaceAction) *cobra.Command {
	r := &workspaceRun{Session: s, workspaceAction: a}
	cmd := &cobra.Command{
		Use:   a.verb + " {NAME... | -l SELECTOR | --template NAME | --all}",
		Short: short,
		Long: what + "The end of a name is sufficient if it is unique: dev for coder.ada.dev.\n" +
			"Without --wait the command ends as soon as Coder has accepted the request.\n\n" +
			"Exit codes: 0 all were " + a.done + "; 1 none was, or --wait saw one fail; 2 wrong command line; 3 some were, the others are named.",
		Example: fmt.Sprintf("  kubectl coder %[1]s coder.ada.dev --wait\n  kubectl coder %[1]s -n coder -l team=compilers\n"+
			"  kubectl coder %[1]s -A --template kubernetes", a.verb),
		RunE:              func(cmd *cobra.Command, args []string) error { return r.do(cmd.Context(), args) },
		ValidArgsFunction: s.CompleteNames("CoderWorkspace"),
	}
	r.selection.addFlags(cmd, s)
	r.format.AddFlag(cmd, cli.JSON, cli.YAML, cli.Name)
	flags := cmd.Flags()
	flags.BoolVar(&r.wait, "wait", false, "wait until it is done, and show how far it is")
	flags.DurationVar(&r.timeout, "timeout", 15*time.Minute, "maximum time to wait with --wait; 0 for no limit")
	flags.BoolVar(&r.dryRun, "dry-run", false, "check whether the request would be accepted, and change nothing")
	if a.updates {
		cmd.Example = "  kubectl coder update coder.ada.dev --wait\n" +
			"  kubectl coder update -n coder --template kubernetes --only-stopped\n" +
			"  kubectl coder update -n coder --template kubernetes --max-unavailable 10% --idle 30m --yes"
		flags.StringVar(&r.rollout.unavailable, "max-unavailable", "",
			"update at most this number or percentage of the chosen workspaces at the same time, as 5 or 10%, and wait for them; if not given, all at once")
		flags.IntVar(&r.rollout.failures, "max-failures", 1, "with --max-unavailable: start no more updates after this number of failures")
		flags.BoolVar(&r.rollout.onlyStopped, "only-stopped", false, "only workspaces that are stopped")
		flags.DurationVar(&r.rollout.idle, "idle", 0, "only workspaces that are stopped, or that nobody has used for this time; at least 5m")
	}
	if a.starts {
		flags.StringArrayVar(&r.ephemeral, "ephemeral-parameter", nil,
			"value of an ephemeral parameter of the template, as name=value, for this start only; can be repeated")
	}
	if a.ends {
		flags.BoolVarP(&r.yes, "yes", "y", false, "do not ask for confirmation")
	}
	return cmd
}

// workspaceSelection selects workspaces.
type workspaceSelection struct {
	names           []string
	labels          string
	all, everywhere bool
	owner, template string
	// selector is labels, parsed.
	selector labels.Selector
}

func (s *workspaceSelection) addFlags(cmd *cobra.Command, completing *Session) {
	flags := cmd.Flags()
	flags.StringVarP(&s.labels, "selector", "l", "", "workspaces with these labels, as team=compilers")
	flags.BoolVar(&s.all, "all", false, "all workspaces of the namespace")
	flags.BoolVarP(&s.everywhere, "all-namespaces", "A", false, "with --all, --template or -l: those of all namespaces")
	flags.StringVar(&s.owner, "owner", "", "with --all, --template or -l: only those of this user of Coder")
	flags.StringVar(&s.template, "template", "", "only those of this template, for example kubernetes or coder.kubernetes")
	completing.CompleteWorkspaceFields(cmd, "owner", func(ws *aggregationv1alpha1.CoderWorkspace) []string {
		return []string{ws.Status.OwnerName}
	})
	completing.CompleteWorkspaceFields(cmd, "template", func(ws *aggregationv1alpha1.CoderWorkspace) []string {
		return []string{ws.Status.TemplateName}
	})
	completing.CompleteWorkspaceFields(cmd, "selector", func(ws *aggregationv1alpha1.CoderWorkspace) []string {
		var pairs []string
		for key, value := range ws.Labels {
			pairs = append(pairs, key+"="+value)
		}
		return pairs
	})
}

// validate refuses ambiguous selections, which could match more workspaces than intended.
func (s *workspaceSelection) validate() (err error) {
	named, many := len(s.names) > 0, s.all || s.labels != "" || s.template != ""
	switch {
	case named && (many || s.everywhere || s.owner != "" || s.template != ""):
		return cli.Usage("give names, or choose with -l, --template or --all, not both")
	case s.all && s.labels != "":
		return cli.Usage("give -l or --all, not both")
	case !named && !many:
		return cli.Usage("which workspaces? Give names, -l SELECTOR, --template or --all")
	}
	if s.selector, err = labels.Parse(s.labels); err != nil {
		return cli.Usage("--selector: %v", err)
	}
	return nil
}

// namespace returns the namespace of the workspaces, or "" for all namespaces.
func (s *workspaceSelection) namespace(c *Cluster) string {
	if s.everywhere {
		return ""
	}
	return c.Namespace
}

// find reads the workspaces. It returns an error if there are none.
func (s *workspaceSelection) find(ctx context.Context, c *Cluster) ([]aggregationv1alpha1.CoderWorkspace, error) {
	if len(s.names) > 0 {
		var found []aggregationv1alpha1.CoderWorkspace
		for _, text := range s.names {
			target, err := ParseTarget(text, "CoderWorkspace")
			if err != nil {
				return nil, err
			}
			ws, err := c.Workspace(ctx, target.Name)
			if err != nil {
				return nil, err
			}
			found = append(found, *ws)
		}
		return found, nil
	}
	namespace := s.namespace(c)
	var list aggregationv1alpha1.CoderWorkspaceList
	if err := c.List(ctx, &list, &client.ListOptions{Namespace: namespace, LabelSelector: s.selector}); err != nil {
		return nil, err
	}
	var templates map[templateKey]aggregationv1alpha1.CoderTemplate
	if strings.Contains(s.template, ".") {
		// The name of an object: a name in Coder contains no dot.
		var err error
		if templates, err = c.templates(ctx, namespace); err != nil {
			return nil, err
		}
	}
	var found []aggregationv1alpha1.CoderWorkspace
	for _, ws := range list.Items {
		ofTemplate := s.template == "" || s.template == ws.Status.TemplateName || s.template == templates[templateOf(&ws)].Name
		if ofTemplate && (s.owner == "" || strings.EqualFold(ws.Status.OwnerName, s.owner)) {
			found = append(found, ws)
		}
	}
	if len(found) == 0 {
		where := "any namespace"
		if namespace != "" {
			where = "namespace " + namespace
		}
		return nil, fmt.Errorf("there is no such workspace in %s: kubectl get coderworkspaces -A --show-labels lists all", where)
	}
	return found, nil
}

// await waits until all orders have finished. The error of a failed order is set on the order.
// await itself returns an error if it could not wait.
func (r *workspaceRun) await(ctx context.Context, c *Cluster, orders []*workspaceOrder) error {
	progress := r.Progress()
	defer progress.End()
	waiting := slices.DeleteFunc(slices.Clone(orders), func(o *workspaceOrder) bool { return o.err != nil })
	all := len(waiting)
	return r.poll(ctx, r.timeout, "the requested change continues without this command", func() (done bool, err error) {
		var still []*workspaceOrder
		for _, o := range waiting {
			if o.ended, err = r.look(ctx, c, o); err != nil {
				return false, err
			}
			if !o.ended {
				still = append(still, o)
			}
			progress.Report(r.Now(), all-len(still), all, o.workspace.Name, workspaceState(o.workspace))
		}
		waiting = still
		return len(waiting) == 0, nil
	}, func() error {
		o := waiting[0]
		return fmt.Errorf("after %s %d of %d workspaces are not yet %s: %s is %s; the change continues without this command",
			r.timeout, len(waiting), all, r.done, o.workspace.Name, workspaceState(o.workspace))
	})
}

// look reads the workspace again and reports whether its order has finished.
func (r *workspaceRun) look(ctx context.Context, c *Cluster, o *workspaceOrder) (ended bool, err error) {
	ws := &aggregationv1alpha1.CoderWorkspace{}
	err = c.Get(ctx, client.ObjectKeyFromObject(o.workspace), ws)
	switch {
	case apierrors.IsNotFound(err) && r.removes:
		return true, nil
	case apierrors.IsNotFound(err):
		o.err = errors.New("it was deleted in the meantime")
		return true, nil
	case IsTemporary(err), errors.Is(err, context.Canceled):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading workspace %s/%s: %w", o.workspace.Namespace, o.workspace.Name, err)
	}
	o.workspace = ws
	if r.removes {
		if failed := meta.FindStatusCondition(ws.Status.Conditions, aggregationv1alpha1.ConditionDeletionFailed); failed != nil && buildNumber(ws) > o.before {
			o.err = errors.New(cli.Clean(failed.Message))
		}
		return o.err != nil, nil
	}
	built := buildNumber(ws) > o.before
	// With these reasons another action is needed, whatever was requested before.
	lasting := []string{aggregationv1alpha1.ReasonChangeRefused, aggregationv1alpha1.ReasonNoProvisioner}
	if failed := stalled(ws.Status.Conditions); failed != nil && (built || !o.failed || slices.Contains(lasting, failed.Reason)) {
		o.err = fmt.Errorf("%s; kubectl coder logs -n %s %s shows the whole log", cli.Clean(failed.Message), ws.Namespace, ws.Name)
		return true, nil
	}
	ready := meta.IsStatusConditionTrue(ws.Status.Conditions, aggregationv1alpha1.ConditionReady)
	return ready && (o.phase == "" || ws.Status.Phase == o.phase) && (built || !r.anew), nil
}

// workspaceState describes the state of the workspace for the progress output.
func workspaceState(ws *aggregationv1alpha1.CoderWorkspace) string {
	ready := meta.FindStatusCondition(ws.Status.Conditions, aggregationv1alpha1.ConditionReady)
	if ready == nil {
		return ws.Status.Phase
	}
	return ws.Status.Phase + ", " + ready.Message
}
