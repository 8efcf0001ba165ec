package connections

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// Serves reports whether a namespace has a control plane that is served and whose name prefix is
// set. It reads only the cache, and no token.
func (d *Dynamic) Serves(ctx context.Context, namespace string) (bool, error) {
	if !d.knows(namespace) {
		return false, nil
	}
	var list coderv1alpha1.CoderControlPlaneList
	if err := d.cached.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return false, fmt.Errorf("listing the control planes of namespace %q: %w", namespace, err)
	}
	for i := range list.Items {
		cp := &list.Items[i]
		if Served(cp) && cp.DeletionTimestamp == nil && cp.Status.ObjectNamePrefix != nil {
			return true, nil
		}
	}
	return false, nil
}

// Serves reports whether namespace is the namespace of the one Coder.
func (s *Static) Serves(_ context.Context, namespace string) (bool, error) {
	return namespace == s.connection.ControlPlane.Namespace, nil
}
