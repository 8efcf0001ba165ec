package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

const (
	// namespacesTTL is how long a new namespace is not noticed.
	namespacesTTL = 30 * time.Second
	// namespacesTimeout limits a list request.
	namespacesTimeout = 5 * time.Second
)

// namespaces lists the namespaces that contain a control plane. It uses the server's own
// identity and reads only metadata.
type namespaces struct {
	objects metadata.Interface
	answers *callers.TTLCache[[]string]
}

func newNamespaces(objects metadata.Interface, clk clock.PassiveClock) *namespaces {
	return &namespaces{objects: objects, answers: callers.NewTTLCache[[]string](1, namespacesTimeout, clk)}
}

// list returns the namespaces, sorted.
func (n *namespaces) list(ctx context.Context) ([]string, error) {
	return n.answers.Get(ctx, "", func(ctx context.Context) ([]string, time.Duration, error) {
		resource := coderv1alpha1.GroupVersion.WithResource("codercontrolplanes")
		// With resource version 0, the API server responds from its cache.
		list, err := n.objects.Resource(resource).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return nil, 0, fmt.Errorf("finding the namespaces of control planes: %w", err)
		}
		var found []string
		for _, item := range list.Items {
			found = append(found, item.Namespace)
		}
		slices.Sort(found)
		return slices.Compact(found), namespacesTTL, nil
	})
}
