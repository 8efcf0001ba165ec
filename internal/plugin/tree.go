package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

type treeRun struct {
	*Session
	format     cli.Format
	everywhere bool
}

func newTreeCommand(s *Session) *cobra.Command {
	r := &treeRun{Session: s}
	cmd := &cobra.Command{
		Use:   "tree [CONTROLPLANE | workspace/NAME]",
		Short: "Show a control plane with all that belongs to it, down to the pods",
		Long: "Shows the control planes of the namespace, or one of them, with the objects that they own, their provisioners and\n" +
			"proxies, templates, workspaces and the pods of all these. Objects of other namespaces are shown as\n" +
			"KIND/NAMESPACE/NAME. Objects that you may not read are left out and listed on standard error, and the exit code is 3.",
		Example:           "  kubectl coder tree -n coder\n  kubectl coder tree workspace/dev\n  kubectl coder tree -A",
		Args:              arguments(0, 1, "one tree at a time: a control plane, or workspace/NAME"),
		RunE:              func(cmd *cobra.Command, args []string) error { return r.do(cmd.Context(), args) },
		ValidArgsFunction: s.CompleteName("CoderControlPlane", "CoderWorkspace"),
	}
	r.format.AddFlag(cmd, cli.JSON, cli.YAML)
	cmd.Flags().BoolVarP(&r.everywhere, "all-namespaces", "A", false, "show the control planes of all namespaces")
	return cmd
}

func (r *treeRun) do(ctx context.Context, args []string) error {
	if len(args) == 1 && r.everywhere {
		return cli.Usage("give a name or -A, not both")
	}
	target, err := optionalTarget(args, "CoderControlPlane", "CoderWorkspace")
	if err != nil {
		return err
	}
	cluster, err := r.Cluster()
	if err != nil {
		return err
	}
	var roots []*treeNode
	switch {
	case r.everywhere:
		roots, err = growAllTrees(ctx, cluster)
	case target.Kind == "CoderWorkspace":
		roots, err = growWorkspaceTree(ctx, cluster, target.Name)
	default:
		roots, err = growTree(ctx, cluster, target.Name)
	}
	if len(roots) == 0 {
		return err
	}
	if r.format.Structured() {
		if failed := r.format.Write(r.Out, roots); failed != nil {
			return failed
		}
	} else {
		table := &cli.Table{}
		for _, root := range roots {
			kind := root.Kind
			if r.everywhere {
				kind += "/" + root.Namespace
			}
			root.rows(table, "", "", kind, root.Namespace)
		}
		table.Write(r.Out, r.Paint)
	}
	if err != nil {
		return &cli.ExitError{Code: cli.ExitPartial, Err: err}
	}
	return nil
}

// growWorkspaceTree returns the tree of one workspace.
func growWorkspaceTree(ctx context.Context, c *Cluster, name string) ([]*treeNode, error) {
	ws, err := c.Workspace(ctx, name)
	if err != nil {
		return nil, err
	}
	pods, _, err := c.WorkspacePods(ctx, ws, nil)
	root := workspaceNode(ws, pods)
	root.sort()
	return []*treeNode{root}, err
}

// treeNode is an object with its dependent objects.
type treeNode struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// State is the displayed state, for example Ready or 1/2.
	State    string      `json:"state,omitempty"`
	Children []*treeNode `json:"children,omitempty"`

	colour cli.Colour
	uid    types.UID
}

// treeOrder is the order in which the dependent objects of a control plane are displayed.
var treeOrder = []string{
	"Deployment", "ReplicaSet", "Pod", "Service", "Ingress", "HTTPRoute", "ServiceAccount", "Role", "RoleBinding", "Secret",
	"PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor", "CoderProvisioner", "CoderWorkspaceProxy", "CoderTemplate", "CoderWorkspace",
}

// sort sorts all nodes below this one.
func (n *treeNode) sort() {
	slices.SortStableFunc(n.Children, func(a, b *treeNode) int {
		return cmp.Or(slices.Index(treeOrder, a.Kind)-slices.Index(treeOrder, b.Kind),
			strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	for _, child := range n.Children {
		child.sort()
	}
}

// rows adds the node and those below it to a table with a column for the state.
func (n *treeNode) rows(table *cli.Table, first, rest, kind, namespace string) {
	name := n.Name
	if n.Namespace != namespace {
		name = n.Namespace + "/" + name
	}
	state := cli.Cell{Text: cli.Clean(n.State), Colour: n.colour}
	table.Add(cli.Text(fmt.Sprintf("%s%s/%s", first, kind, name)), state)
	for i, child := range n.Children {
		if i == len(n.Children)-1 {
			child.rows(table, rest+"└─", rest+"  ", child.Kind, namespace)
		} else {
			child.rows(table, rest+"├─", rest+"│ ", child.Kind, namespace)
		}
	}
}
