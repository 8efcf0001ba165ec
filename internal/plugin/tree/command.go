package tree

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// run is one run of the command.
type run struct {
	*session.Session
	format     cli.Format
	everywhere bool
}

// NewCommand returns the command kubectl coder tree.
func NewCommand(s *session.Session) *cobra.Command {
	r := &run{Session: s}
	cmd := &cobra.Command{
		Use:   "tree [CONTROLPLANE | workspace/NAME]",
		Short: "Show a control plane with all that belongs to it, down to the pods",
		Long: "Shows the control planes of the namespace, or one of them, with the objects that they own, their provisioners and\n" +
			"proxies, templates, workspaces and the pods of all these. What you may not see is left out and named; the exit\n" +
			"code is 3 then.",
		Example: "  kubectl coder tree -n coder\n  kubectl coder tree workspace/dev\n  kubectl coder tree -A",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usage("one tree at a time: a control plane, or workspace/NAME")
			}
			return nil
		},
		RunE:              func(cmd *cobra.Command, args []string) error { return r.do(cmd.Context(), args) },
		ValidArgsFunction: s.CompleteName("CoderControlPlane", "CoderWorkspace"),
	}
	r.format.AddFlag(cmd, cli.JSON, cli.YAML)
	cmd.Flags().BoolVarP(&r.everywhere, "all-namespaces", "A", false, "show the control planes of all namespaces")
	return cmd
}

func (r *run) do(ctx context.Context, args []string) error {
	target := session.Target{Kind: "CoderControlPlane"}
	if len(args) == 1 {
		if r.everywhere {
			return cli.Usage("give a name or -A, not both")
		}
		var err error
		if target, err = session.ParseTarget(args[0], "CoderControlPlane", "CoderWorkspace"); err != nil {
			return err
		}
	}
	cluster, err := r.Cluster()
	if err != nil {
		return err
	}
	var roots []*Node
	switch {
	case r.everywhere:
		roots, err = growAll(ctx, cluster)
	case target.Kind == "CoderWorkspace":
		roots, err = growWorkspace(ctx, cluster, target.Name)
	default:
		roots, err = grow(ctx, cluster, target.Name)
	}
	if len(roots) == 0 {
		return err
	}
	if r.format.Structured() {
		if failed := r.format.Write(r.Out, roots); failed != nil {
			return failed
		}
	} else {
		write(r.Out, r.Paint, roots, r.everywhere)
	}
	if err != nil {
		return &cli.PartialError{Err: err}
	}
	return nil
}

// growWorkspace returns the tree of one workspace.
func growWorkspace(ctx context.Context, c *session.Cluster, name string) ([]*Node, error) {
	ws, err := c.Workspace(ctx, name)
	if err != nil {
		return nil, err
	}
	g := newGrowth(c)
	root := g.workspace(ws)
	pods, _, err := c.WorkspacePods(ctx, ws, nil)
	for i := range pods {
		root.Children = append(root.Children, g.pod(&pods[i]))
	}
	root.sort()
	return []*Node{root}, err
}
