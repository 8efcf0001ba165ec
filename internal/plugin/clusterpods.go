package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/portforward"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
)

// PodsOf returns the pods of a Deployment, selected by its own selector, the oldest first.
func (c *Cluster) PodsOf(ctx context.Context, namespace, deployment string) ([]corev1.Pod, error) {
	d := &appsv1.Deployment{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: deployment}, d); err != nil {
		return nil, fmt.Errorf("reading Deployment %s/%s: %w", namespace, deployment, err)
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("the selector of Deployment %s/%s: %w", namespace, deployment, err)
	}
	return c.pods(ctx, namespace, selector)
}

// WorkspacePods returns the pods of a workspace in the given namespaces, or else in those in which
// its control plane creates workspaces. where is the list of these namespaces. A namespace that the
// caller may not read is skipped if there are others.
func (c *Cluster) WorkspacePods(ctx context.Context, ws *aggregationv1alpha1.CoderWorkspace, namespaces []string) (pods []corev1.Pod, where []string, err error) {
	if ws.Status.ID == "" {
		return nil, namespaces, nil
	}
	if len(namespaces) == 0 {
		namespaces = c.workspaceNamespaces(ctx, ws.Namespace)
	}
	selector := labels.SelectorFromSet(labels.Set{aggregationv1alpha1.LabelWorkspaceID: ws.Status.ID})
	var refused []error
	for _, namespace := range namespaces {
		found, err := c.pods(ctx, namespace, selector)
		if apierrors.IsForbidden(err) {
			refused = append(refused, err)
			continue
		}
		if err != nil {
			return nil, namespaces, err
		}
		pods, where = append(pods, found...), append(where, namespace)
	}
	if len(pods) == 0 && len(refused) > 0 {
		return nil, where, fmt.Errorf("looking for the pods of workspace %s: %w", ws.Name, errors.Join(refused...))
	}
	return pods, where, nil
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

// NamespacesWithControlPlane returns the namespaces that have a control plane.
func (c *Cluster) NamespacesWithControlPlane(ctx context.Context) ([]string, error) {
	var list coderv1alpha1.CoderControlPlaneList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing the control planes: %w", err)
	}
	var all []string
	for i := range list.Items {
		all = append(all, list.Items[i].Namespace)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// workspaceNamespaces returns the namespaces in which the control planes of a namespace, and their
// provisioners, may create pods. The namespace itself is the first one. What cannot be read is left
// out.
func (c *Cluster) workspaceNamespaces(ctx context.Context, namespace string) []string {
	var others []string
	add := func(spec coderv1alpha1.RBACSpec) {
		others = append(others, spec.WorkspaceNamespaces...)
		for _, n := range spec.Namespaces {
			others = append(others, n.Name)
		}
	}
	var planes coderv1alpha1.CoderControlPlaneList
	_ = c.List(ctx, &planes, client.InNamespace(namespace))
	for i := range planes.Items {
		add(planes.Items[i].Spec.RBAC)
	}
	var provisioners coderv1alpha1.CoderProvisionerList
	_ = c.List(ctx, &provisioners, client.InNamespace(namespace))
	for i := range provisioners.Items {
		add(provisioners.Items[i].Spec.RBAC)
	}
	slices.Sort(others)
	others = slices.DeleteFunc(slices.Compact(others), func(n string) bool { return n == namespace })
	return append([]string{namespace}, others...)
}

func (c *Cluster) pods(ctx context.Context, namespace string, selector labels.Selector) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := c.List(ctx, &list, &client.ListOptions{Namespace: namespace, LabelSelector: selector}); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}

// Endpoint is a port of a pod.
type Endpoint struct {
	Namespace, Pod string
	Port           int
}

// Forwarder forwards a local port to a port of a pod until ctx is done. Local 0 selects a free
// port. It calls ready once with the local port.
type Forwarder func(ctx context.Context, c *Cluster, to Endpoint, local int, ready func(local int)) error

// forward connects through kube-apiserver, as kubectl does.
func forward(ctx context.Context, c *Cluster, to Endpoint, local int, ready func(local int)) error {
	pod := c.Kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(to.Namespace).Name(to.Pod).SubResource("portforward").URL()
	err := remoteexec.ForwardPod(ctx, c.Config, pod, local, to.Port, ready)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, portforward.ErrLostConnectionToPod):
		return fmt.Errorf("the connection to pod %s/%s is lost, for example because it was replaced: run this command again", to.Namespace, to.Pod)
	}
	return fmt.Errorf("forwarding port %d of pod %s/%s: %w", to.Port, to.Namespace, to.Pod, err)
}
