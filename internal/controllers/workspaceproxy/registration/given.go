package registration

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
)

// given verifies the session token of spec.proxySessionTokenSecretRef. That Secret belongs to the
// user and is never written.
func (p *pass) given(ctx context.Context, ref coderv1alpha1.TokenSecretReference) error {
	ref.Key = cmp.Or(ref.Key, coderv1alpha1.SecretKeyToken)
	ours, err := p.secrets.GetMine(ctx, ref.Name)
	if err != nil {
		return err
	}
	if ours != nil {
		return ensure.Fails(coderv1alpha1.ReasonInvalidSpec, 0,
			"spec.proxySessionTokenSecretRef names Secret %q, which the operator created itself; use your own Secret, "+
				"or register the proxy through controlPlaneRef or bootstrap", ref.Name)
	}
	p.result.TokenRef = &ref
	token, err := p.tokenIn(ctx, ref.Name, ref.Key)
	if err != nil {
		return err
	}
	if token == "" {
		p.registered(false)
		return ensure.Fails(coderv1alpha1.ReasonTokenSecretMissing, retryFailed,
			"there is no session token in key %q of Secret %q in namespace %q (spec.proxySessionTokenSecretRef); put it there",
			ref.Key, ref.Name, p.proxy.Namespace)
	}
	if err := p.checkGiven(ctx, ref, token); err != nil {
		return err
	}
	p.result.Ready(coderv1alpha1.ReasonTokenAccepted, fmt.Sprintf(
		"Coder at %s accepts the session token of spec.proxySessionTokenSecretRef", strings.TrimSuffix(p.req.AccessURL, "/")))
	p.result.RequeueAfter = p.untilRecheck()
	return nil
}

// checkGiven verifies a token with Coder. If the access URL does not answer, the token stays
// unverified and is not rejected: browsers and pods use that URL, and the operator may be unable to
// reach it.
func (p *pass) checkGiven(ctx context.Context, ref coderv1alpha1.TokenSecretReference, token string) error {
	about := ensure.DigestOf(p.req.AccessURL, token)
	if p.recall(about) {
		if p.checked.Value == nil {
			p.registered(true)
			return nil
		}
		return p.checked.Value
	}
	api, err := p.NewClient(coderd.Config{URL: p.req.AccessURL, Timeout: requestTimeout, Restricted: true})
	if err == nil {
		err = api.CheckWorkspaceProxyToken(ctx, token)
	}
	switch {
	case err == nil:
		p.registered(true)
		p.remember(about, nil)
		return nil
	case coderd.IsUnauthorized(err):
		p.registered(false)
		return ensure.Fails(coderv1alpha1.ReasonTokenRefused, retryFailed,
			"Coder at %s does not accept the session token in key %q of Secret %q (spec.proxySessionTokenSecretRef): it is wrong, "+
				"or the proxy was deleted; put a new one there", api.URL(), ref.Key, ref.Name)
	}
	unverified := &ensure.Stop{State: Unverified, Reason: coderv1alpha1.ReasonNotChecked, After: recheck,
		Message: "the session token of spec.proxySessionTokenSecretRef could not be verified: " + Stable(err.Error())}
	p.remember(about, unverified)
	return unverified
}
