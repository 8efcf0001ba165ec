package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

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
