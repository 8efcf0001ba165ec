package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

// treeGrowth collects the trees of one namespace.
type treeGrowth struct {
	cluster *Cluster
	// owned contains the nodes by the UID of their owner.
	owned map[types.UID][]*treeNode
	// unseen lists what could not be read. Entries may be nil.
	unseen []error
}

// growAllTrees returns the trees of the control planes in all namespaces.
func growAllTrees(ctx context.Context, c *Cluster) ([]*treeNode, error) {
	namespaces, err := c.NamespacesWithControlPlane(ctx)
	if err != nil {
		return nil, err
	}
	if len(namespaces) == 0 {
		return nil, errors.New("there is no control plane on this cluster")
	}
	var roots []*treeNode
	var unseen []error
	for _, namespace := range namespaces {
		in := *c
		in.Namespace = namespace
		found, err := growTree(ctx, &in, "")
		if err != nil {
			unseen = append(unseen, fmt.Errorf("namespace %s: %w", namespace, err))
		}
		roots = append(roots, found...)
	}
	return roots, errors.Join(unseen...)
}

// growTree returns the trees of the control planes in the namespace, or only of the one with the wanted
// name.
func growTree(ctx context.Context, c *Cluster, wanted string) ([]*treeNode, error) {
	g := &treeGrowth{cluster: c, owned: map[types.UID][]*treeNode{}}
	var planes coderv1alpha1.CoderControlPlaneList
	if err := c.List(ctx, &planes, client.InNamespace(c.Namespace)); err != nil {
		return nil, err
	}
	if err := g.children(ctx); err != nil {
		return nil, err
	}
	var roots []*treeNode
	byName := map[string]*treeNode{}
	for i := range planes.Items {
		cp := &planes.Items[i]
		if wanted != "" && cp.Name != wanted {
			continue
		}
		root := judgedNode("CoderControlPlane", cp, cp.Status.Conditions)
		roots, byName[cp.Name] = append(roots, root), root
	}
	if len(roots) == 0 {
		return nil, fmt.Errorf("there is no such control plane in namespace %s: kubectl get codercontrolplanes -A lists all", c.Namespace)
	}
	g.dependents(ctx, byName)
	g.aggregated(ctx, byName)
	for _, root := range roots {
		g.attach(root)
		root.sort()
	}
	return roots, errors.Join(g.unseen...)
}

func newNode(kind string, object client.Object) *treeNode {
	return &treeNode{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), uid: object.GetUID()}
}

// own records a node under its controller, or else under its first owner.
func (g *treeGrowth) own(n *treeNode, object client.Object) {
	owners := object.GetOwnerReferences()
	if len(owners) == 0 {
		return
	}
	owner := owners[0]
	if controller := metav1.GetControllerOf(object); controller != nil {
		owner = *controller
	}
	g.owned[owner.UID] = append(g.owned[owner.UID], n)
}

// attach adds owned nodes to their owners. It skips ReplicaSets without pods, which are old
// revisions.
func (g *treeGrowth) attach(n *treeNode) {
	for _, child := range n.Children {
		g.attach(child)
	}
	for _, child := range g.owned[n.uid] {
		g.attach(child)
		if child.Kind != "ReplicaSet" || len(child.Children) > 0 {
			n.Children = append(n.Children, child)
		}
	}
}

// children reads all objects that a control plane, provisioner or proxy may own, directly or
// indirectly.
func (g *treeGrowth) children(ctx context.Context) error {
	var pods corev1.PodList
	if err := g.list(ctx, &pods, "pods"); err != nil {
		return err
	}
	for i := range pods.Items {
		g.own(podNode(&pods.Items[i]), &pods.Items[i])
	}
	var deployments appsv1.DeploymentList
	if err := g.list(ctx, &deployments, "deployments"); err != nil {
		return err
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		n := newNode("Deployment", d)
		n.State, n.colour = fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, d.Status.Replicas), cli.Green
		if d.Status.ReadyReplicas < d.Status.Replicas {
			n.colour = cli.Yellow
		}
		g.own(n, d)
	}
	for _, kind := range Kinds() {
		if kind.Kind == "Pod" || kind.Kind == "Deployment" || kind.Group == coderv1alpha1.GroupVersion.Group ||
			kind.Group == aggregationv1alpha1.GroupVersion.Group {
			continue
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := g.list(ctx, list, strings.ToLower(kind.Kind)+"s"); err != nil {
			return err
		}
		for i := range list.Items {
			g.own(newNode(kind.Kind, &list.Items[i]), &list.Items[i])
		}
	}
	return nil
}

// list reads a kind. It ignores kinds that the cluster does not serve, and records kinds that the user
// may not read, so that the rest of the tree is shown.
func (g *treeGrowth) list(ctx context.Context, list client.ObjectList, what string) error {
	err := g.cluster.List(ctx, list, client.InNamespace(g.cluster.Namespace))
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err), apierrors.IsServiceUnavailable(err):
		g.unseen = append(g.unseen, fmt.Errorf("%s: %w", what, err))
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// dependents adds provisioners and proxies to the control plane in their controlPlaneRef.
func (g *treeGrowth) dependents(ctx context.Context, planes map[string]*treeNode) {
	below := func(ref *coderv1alpha1.ControlPlaneReference, kind string, object client.Object, conditions []metav1.Condition) {
		if ref == nil || planes[ref.Name] == nil {
			return
		}
		planes[ref.Name].Children = append(planes[ref.Name].Children, judgedNode(kind, object, conditions))
	}
	var provisioners coderv1alpha1.CoderProvisionerList
	g.unseen = append(g.unseen, g.list(ctx, &provisioners, "coderprovisioners"))
	for i := range provisioners.Items {
		p := &provisioners.Items[i]
		below(p.Spec.ControlPlaneRef, "CoderProvisioner", p, p.Status.Conditions)
	}
	var proxies coderv1alpha1.CoderWorkspaceProxyList
	g.unseen = append(g.unseen, g.list(ctx, &proxies, "coderworkspaceproxies"))
	for i := range proxies.Items {
		p := &proxies.Items[i]
		below(p.Spec.ControlPlaneRef, "CoderWorkspaceProxy", p, p.Status.Conditions)
	}
}

// aggregated adds templates to their control plane, workspaces to their template, and pods to their
// workspace.
func (g *treeGrowth) aggregated(ctx context.Context, planes map[string]*treeNode) {
	templates := map[templateKey]*treeNode{}
	var tmpls aggregationv1alpha1.CoderTemplateList
	g.unseen = append(g.unseen, g.list(ctx, &tmpls, "codertemplates"))
	for i := range tmpls.Items {
		t := &tmpls.Items[i]
		plane := planes[t.Labels[aggregationv1alpha1.LabelControlPlaneName]]
		if plane == nil {
			continue
		}
		n := judgedNode("CoderTemplate", t, t.Status.Conditions)
		n.State = TemplateState(t)
		plane.Children = append(plane.Children, n)
		templates[keyOf(t)] = n
	}
	var list aggregationv1alpha1.CoderWorkspaceList
	g.unseen = append(g.unseen, g.list(ctx, &list, "coderworkspaces"))
	pods, err := g.cluster.PodsByWorkspace(ctx)
	g.unseen = append(g.unseen, err)
	for i := range list.Items {
		w := &list.Items[i]
		parent := planes[w.Labels[aggregationv1alpha1.LabelControlPlaneName]]
		if t := templates[templateOf(w)]; t != nil {
			parent = t
		}
		if parent == nil {
			continue
		}
		parent.Children = append(parent.Children, workspaceNode(w, pods[w.Status.ID]))
	}
}

// workspaceNode returns the node of a workspace with its pods.
func workspaceNode(w *aggregationv1alpha1.CoderWorkspace, pods []corev1.Pod) *treeNode {
	n := judgedNode("CoderWorkspace", w, w.Status.Conditions)
	n.State = WorkspaceState(w)
	for i := range pods {
		n.Children = append(n.Children, podNode(&pods[i]))
	}
	return n
}

func podNode(pod *corev1.Pod) *treeNode {
	n := newNode("Pod", pod)
	n.State, n.colour = string(pod.Status.Phase), cli.Yellow
	switch {
	case pod.DeletionTimestamp != nil:
		n.State = "Terminating"
	case podproblem.IsReady(pod):
		n.colour = cli.Green
	default:
		for _, s := range podproblem.Containers(pod) {
			if s.State.Waiting != nil && s.State.Waiting.Reason != "" {
				n.State, n.colour = s.State.Waiting.Reason, cli.Red
			}
		}
		if n.State == string(corev1.PodRunning) {
			n.State = "NotReady"
		}
	}
	return n
}

// judgedNode returns a node whose state is the condition Ready, which all kinds of this project have.
func judgedNode(kind string, object client.Object, conditions []metav1.Condition) *treeNode {
	n := newNode(kind, object)
	c := meta.FindStatusCondition(conditions, coderv1alpha1.ConditionReady)
	switch {
	case c == nil:
		n.State, n.colour = "Unknown", cli.Yellow
	case c.Status == metav1.ConditionTrue:
		n.State, n.colour = c.Reason, cli.Green
		if c.Reason == coderv1alpha1.ReasonScaledToZero {
			n.colour = cli.Yellow
		}
	default:
		n.State, n.colour = c.Reason, cli.Red
		if meta.IsStatusConditionTrue(conditions, coderv1alpha1.ConditionReconciling) {
			n.colour = cli.Yellow
		}
	}
	return n
}
