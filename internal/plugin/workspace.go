package plugin

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
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
}

// newWorkspaceCommands returns the commands start, stop, restart and update.
func newWorkspaceCommands(s *Session) []*cobra.Command {
	return []*cobra.Command{
		newActionCommand(s, workspaceAction{verb: "start", done: "started", phase: "Running"}),
		newActionCommand(s, workspaceAction{verb: "stop", done: "stopped", phase: "Stopped", ends: true}),
		newActionCommand(s, workspaceAction{verb: "restart", done: "restarted", phase: "Running", ends: true, anew: true}),
		newUpdateCommand(s),
	}
}

func newUpdateCommand(s *Session) *cobra.Command {
	cmd := newActionCommand(s, workspaceAction{verb: "update", done: "updated", ends: true, anew: true, updates: true})
	cmd.Short = "Bring workspaces to the active version of their templates"
	cmd.Long = "Builds workspaces again from the active version of their templates: it writes status.activeVersionID of the template\n" +
		"into spec.templateVersionID of the workspace. Those that have that version already are left as they are.\n" +
		"The end of a name is sufficient if it is unique: dev for coder.ada.dev.\n" +
		"Without --wait the command ends as soon as Coder has accepted the request.\n\n" +
		"Exit codes: 0 all were updated; 1 none was, or --wait saw one fail; 2 wrong command line; 3 some were, the others are named."
	return cmd
}

func newActionCommand(s *Session, a workspaceAction) *cobra.Command {
	r := &workspaceRun{Session: s, workspaceAction: a}
	cmd := &cobra.Command{
		Use:   a.verb + " {NAME... | -l SELECTOR | --all}",
		Short: map[string]string{"start": "Start workspaces", "stop": "Stop workspaces", "restart": "Stop workspaces and start them again"}[a.verb],
		Long: fmt.Sprintf("%s workspaces. The end of a name is sufficient if it is unique: dev for coder.ada.dev.\n"+
			"Without --wait the command ends as soon as Coder has accepted the request.\n\n"+
			"Exit codes: 0 all were %s; 1 none was, or --wait saw one fail; 2 wrong command line; 3 some were, the others are named.",
			map[string]string{"start": "Starts", "stop": "Stops", "restart": "Restarts"}[a.verb], a.done),
		Example: fmt.Sprintf("  kubectl coder %[1]s coder.ada.dev --wait\n  kubectl coder %[1]s -n coder -l team=compilers\n"+
			"  kubectl coder %[1]s -A --all --template kubernetes", a.verb),
		RunE:              func(cmd *cobra.Command, args []string) error { return r.do(cmd.Context(), args) },
		ValidArgsFunction: s.CompleteNames("CoderWorkspace"),
	}
	r.selection.addFlags(cmd, s)
	r.format.AddFlag(cmd, cli.JSON, cli.YAML, cli.Name)
	flags := cmd.Flags()
	flags.BoolVar(&r.wait, "wait", false, "wait until it is done, and show how far it is")
	flags.DurationVar(&r.timeout, "timeout", 15*time.Minute, "maximum time to wait with --wait; 0 for no limit")
	flags.BoolVar(&r.dryRun, "dry-run", false, "check whether the request would be accepted, and change nothing")
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
}

func (s *workspaceSelection) addFlags(cmd *cobra.Command, completing *Session) {
	flags := cmd.Flags()
	flags.StringVarP(&s.labels, "selector", "l", "", "workspaces with these labels, as team=compilers")
	flags.BoolVar(&s.all, "all", false, "all workspaces of the namespace")
	flags.BoolVarP(&s.everywhere, "all-namespaces", "A", false, "with --all or -l: those of all namespaces")
	flags.StringVar(&s.owner, "owner", "", "with --all or -l: only those of this user of Coder")
	flags.StringVar(&s.template, "template", "", "with --all or -l: only those of this template, for example kubernetes or coder.kubernetes")
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
func (s *workspaceSelection) validate() error {
	named, many := len(s.names) > 0, s.all || s.labels != ""
	switch {
	case named && (many || s.everywhere || s.owner != "" || s.template != ""):
		return cli.Usage("give names, or choose with -l or --all, not both")
	case s.all && s.labels != "":
		return cli.Usage("give -l or --all, not both")
	case !named && !many:
		return cli.Usage("which workspaces? Give names, -l SELECTOR or --all")
	}
	if _, err := labels.Parse(s.labels); err != nil {
		return cli.Usage("--selector: %v", err)
	}
	return nil
}

// find reads the workspaces. It returns an error if there are none.
func (s *workspaceSelection) find(ctx context.Context, c *Cluster) ([]aggregationv1alpha1.CoderWorkspace, error) {
	if len(s.names) > 0 {
		return findNamedWorkspaces(ctx, c, s.names)
	}
	selector, err := labels.Parse(s.labels)
	if err != nil {
		return nil, cli.Usage("--selector: %v", err)
	}
	options := &client.ListOptions{Namespace: c.Namespace, LabelSelector: selector}
	where := "namespace " + c.Namespace
	if s.everywhere {
		options.Namespace, where = "", "any namespace"
	}
	var list aggregationv1alpha1.CoderWorkspaceList
	if err := c.List(ctx, &list, options); err != nil {
		return nil, err
	}
	var found []aggregationv1alpha1.CoderWorkspace
	for _, ws := range list.Items {
		if (s.owner == "" || ws.Status.OwnerName == s.owner) && s.ofTemplate(&ws) {
			found = append(found, ws)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("there is no such workspace in %s: kubectl get coderworkspaces -A --show-labels lists all", where)
	}
	return found, nil
}

// ofTemplate reports whether the workspace belongs to the wanted template, which is given by its
// name in Coder or by the name of its object.
func (s *workspaceSelection) ofTemplate(ws *aggregationv1alpha1.CoderWorkspace) bool {
	return s.template == "" || s.template == ws.Status.TemplateName || s.template == templateOf(ws)
}

func findNamedWorkspaces(ctx context.Context, c *Cluster, names []string) ([]aggregationv1alpha1.CoderWorkspace, error) {
	var found []aggregationv1alpha1.CoderWorkspace
	for _, text := range names {
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
