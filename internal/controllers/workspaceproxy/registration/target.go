package registration

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// target is a Coder and the token of an owner in it.
type target struct {
	api   *coderd.Client
	url   string
	token string
}

// target returns the Coder of the spec. A control plane that is being deleted is used only to remove
// a registration.
func (p *pass) target(ctx context.Context, toRemove bool) (*target, error) {
	spec := p.proxy.Spec
	if spec.ControlPlaneRef != nil {
		return p.viaControlPlane(ctx, spec.ControlPlaneRef.Name, toRemove)
	}
	if ref := spec.Bootstrap.CredentialsSecretRef; ref != nil && spec.Bootstrap.CoderURL != "" {
		key := cmp.Or(ref.Key, coderv1alpha1.SecretKeyToken)
		token, err := p.tokenIn(ctx, ref.Name, key)
		if err != nil {
			return nil, err
		}
		if token == "" {
			return nil, ensure.Unavailable(coderv1alpha1.ReasonTokenSecretMissing, retryFailed,
				"there is no token in key %q of Secret %q in namespace %q (spec.bootstrap.credentialsSecretRef); put that of an owner of Coder there",
				key, ref.Name, p.proxy.Namespace)
		}
		return p.connect(coderd.Config{URL: spec.Bootstrap.CoderURL, Token: token, Restricted: true})
	}
	return nil, ensure.Unavailable(coderv1alpha1.ReasonInvalidSpec, 0,
		"the spec does not specify where to register the proxy; set controlPlaneRef, bootstrap.coderURL with bootstrap.credentialsSecretRef, or proxySessionTokenSecretRef")
}

// viaControlPlane uses the operator's access to a control plane.
func (p *pass) viaControlPlane(ctx context.Context, name string, toRemove bool) (*target, error) {
	cp := &coderv1alpha1.CoderControlPlane{}
	err := p.Reader.Get(ctx, client.ObjectKey{Namespace: p.proxy.Namespace, Name: name}, cp)
	switch {
	case apierrors.IsNotFound(err):
		return nil, ensure.Unavailable(coderv1alpha1.ReasonControlPlaneUnavailable, retryFailed, "there is no CoderControlPlane %q in namespace %q", name, p.proxy.Namespace)
	case err != nil:
		return nil, fmt.Errorf("reading CoderControlPlane %q: %w", name, err)
	case cp.Spec.OperatorAccess.Disabled:
		return nil, ensure.Unavailable(coderv1alpha1.ReasonOperatorAccessDisabled, retryFailed,
			"the operator has no access to CoderControlPlane %q, because spec.operatorAccess.disabled is set there; "+
				"unset it, or, before the proxy is registered, set spec.proxySessionTokenSecretRef instead of controlPlaneRef", name)
	case cp.Status.URL == "", cp.Status.OperatorTokenSecretRef == nil, !toRemove && !cp.Status.OperatorAccessReady:
		return nil, ensure.Waits(coderv1alpha1.ReasonWaiting, 0, "waiting until the operator has access to CoderControlPlane %q", name)
	case !toRemove && !cp.DeletionTimestamp.IsZero():
		return nil, ensure.Waits(coderv1alpha1.ReasonWaiting, retryFailed, "CoderControlPlane %q is being deleted", name)
	}
	ref := cp.Status.OperatorTokenSecretRef
	token, err := p.tokenIn(ctx, ref.Name, cmp.Or(ref.Key, coderv1alpha1.SecretKeyToken))
	if err != nil {
		return nil, err
	}
	if token == "" {
		return nil, ensure.Waits(coderv1alpha1.ReasonWaiting, retryFailed, "waiting until the operator's token for CoderControlPlane %q is stored", name)
	}
	refused := func() { p.Refused(client.ObjectKeyFromObject(cp)) }
	return p.connect(coderd.Config{URL: cp.Status.URL, Token: token, OnUnauthorized: refused})
}

// tokenIn returns the value in a Secret, or an empty string if there is none.
func (p *pass) tokenIn(ctx context.Context, name, key string) (string, error) {
	secret, err := p.secrets.Get(ctx, name)
	if err != nil || secret == nil {
		return "", err
	}
	return strings.TrimSpace(string(secret.Data[key])), nil
}

func (p *pass) connect(cfg coderd.Config) (*target, error) {
	cfg.Timeout = requestTimeout
	api, err := p.NewClient(cfg)
	if err != nil {
		return nil, ensure.Fails(coderv1alpha1.ReasonInvalidSpec, 0, "%v", err)
	}
	return &target{api: api, url: api.URL(), token: cfg.Token}, nil
}

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
			!strings.EqualFold(resources.ProxyName(other), name) || !p.sameCoder(t, other) || !framework.Older(other, p.proxy) {
			continue
		}
		whose := "an older CoderWorkspaceProxy in another namespace"
		if other.Namespace == p.proxy.Namespace {
			whose = fmt.Sprintf("the older CoderWorkspaceProxy %q", other.Name)
		}
		return ensure.Fails(coderv1alpha1.ReasonNameTaken, retryFailed,
			"%s uses the name %q in the same Coder, and the older one gets the name; set another spec.bootstrap.proxyName, or delete one of the two", whose, name)
	}
	return nil
}

// sameCoder reports whether the operator registers another proxy in this Coder.
func (p *pass) sameCoder(t *target, other *coderv1alpha1.CoderWorkspaceProxy) bool {
	if other.Spec.ProxySessionTokenSecretRef != nil {
		return false
	}
	if ref := other.Spec.ControlPlaneRef; ref != nil {
		ours := p.proxy.Spec.ControlPlaneRef
		return ours != nil && other.Namespace == p.proxy.Namespace && ours.Name == ref.Name
	}
	return other.Spec.Bootstrap.CoderURL != "" && strings.TrimSuffix(other.Spec.Bootstrap.CoderURL, "/") == t.url
}
