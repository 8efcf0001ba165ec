package tree

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// Node is an object with its dependent objects.
type Node struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// State is the displayed state, for example Ready or 1/2.
	State    string  `json:"state,omitempty"`
	Children []*Node `json:"children,omitempty"`

	colour cli.Colour
}

// order is the order in which the dependent objects of a control plane are displayed.
var order = []string{
	"Deployment", "ReplicaSet", "Pod", "Service", "Ingress", "HTTPRoute", "ServiceAccount", "Role", "RoleBinding", "Secret",
	"PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor", "CoderProvisioner", "CoderWorkspaceProxy", "CoderTemplate", "CoderWorkspace",
}

// sort sorts all nodes below this one.
func (n *Node) sort() {
	slices.SortStableFunc(n.Children, func(a, b *Node) int {
		if by := slices.Index(order, a.Kind) - slices.Index(order, b.Kind); by != 0 {
			return by
		}
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	for _, child := range n.Children {
		child.sort()
	}
}

// write prints the trees, with a column for the state. With namespaces, the roots contain their
// namespace.
func write(w io.Writer, paint cli.Paint, roots []*Node, namespaces bool) {
	table := &cli.Table{}
	for _, root := range roots {
		kind := root.Kind
		if namespaces {
			kind = root.Kind + "/" + root.Namespace
		}
		root.rows(table, "", "", kind, root.Namespace)
	}
	table.Write(w, paint)
}

func (n *Node) rows(table *cli.Table, first, rest, kind, namespace string) {
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
