package registration

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/outcome"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// checkSiblings returns an error for the younger of two CoderWorkspaceProxies that want the same
// name in the same Coder, so that the result does not depend on their order.
func (p *pass) checkSiblings(ctx context.Context, t *target, name string) error {
	list := &coderv1alpha1.CoderWorkspaceProxyList{}
	if err := p.Reader.List(ctx, list); err != nil {
		return fmt.Errorf("listing workspace proxies: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID == p.proxy.UID || !other.DeletionTimestamp.IsZero() ||
			!strings.EqualFold(resources.ProxyName(other), name) || !p.sameCoder(t, other) || !older(other, p.proxy) {
			continue
		}
		whose := "an older CoderWorkspaceProxy in another namespace"
		if other.Namespace == p.proxy.Namespace {
			whose = fmt.Sprintf("the older CoderWorkspaceProxy %q", other.Name)
		}
		return outcome.Fails(coderv1alpha1.ReasonNameTaken, retryFailed,
			"%s wants the name %q in the same Coder and has it before this one; give another spec.bootstrap.proxyName, or delete one of the two", whose, name)
	}
	return nil
}

// sameCoder reports whether the operator registers another proxy in this Coder.
func (p *pass) sameCoder(t *target, other *coderv1alpha1.CoderWorkspaceProxy) bool {
	if other.Spec.ProxySessionTokenSecretRef != nil {
		return false
	}
	if ref := other.Spec.ControlPlaneRef; ref != nil {
		return other.Namespace == p.proxy.Namespace && t.through == throughControlPlane+"/"+ref.Name
	}
	return other.Spec.Bootstrap.CoderURL != "" && strings.TrimSuffix(other.Spec.Bootstrap.CoderURL, "/") == t.url
}

func older(a, b *coderv1alpha1.CoderWorkspaceProxy) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name)) < 0
}
