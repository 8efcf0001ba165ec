package access

import (
	"context"
	"strings"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/outcome"
)

// given verifies the token that spec.operatorAccess.tokenSecretRef names. That
// Secret is a person's: it is never written. A token that the operator made
// before is taken back once the given one works.
func (p *pass) given(ctx context.Context, ref coderv1alpha1.TokenSecretReference) error {
	if ref.Key == "" {
		ref.Key = coderv1alpha1.SecretKeyToken
	}
	token, err := p.givenToken(ctx, ref)
	if err != nil {
		return err
	}
	user, err := p.verify(ctx, token)
	switch {
	case coderd.IsUnauthorized(err):
		return outcome.Fails(coderv1alpha1.ReasonTokenRefused, retrySecret,
			"Coder does not accept the token in key %q of Secret %q (spec.operatorAccess.tokenSecretRef): it is wrong, revoked or expired; "+
				"put a new one there", ref.Key, ref.Name)
	case err != nil:
		p.result.TokenRef = &ref
		return answered(coderv1alpha1.ReasonTokenRefused, err)
	case !isOwner(user):
		return notOwner(user, "give it the role, or give the operator the token of an owner")
	}
	p.result.TokenRef = &ref
	p.result.RequeueAfter = p.recheck()
	if err := p.withdrawToken(ctx); err != nil {
		return err
	}
	p.ready(coderv1alpha1.ReasonTokenAccepted, "Coder accepts the token that spec.operatorAccess.tokenSecretRef names")
	return nil
}

func (p *pass) givenToken(ctx context.Context, ref coderv1alpha1.TokenSecretReference) (string, error) {
	secret, err := p.secrets.Get(ctx, ref.Name)
	switch {
	case err != nil:
		return "", err
	case secret == nil:
		return "", outcome.Fails(coderv1alpha1.ReasonTokenSecretMissing, retrySecret,
			"Secret %q (spec.operatorAccess.tokenSecretRef) does not exist in namespace %q; create it, or remove tokenSecretRef", ref.Name, p.cp.Namespace)
	case p.isTokenSecret(secret):
		return "", outcome.Fails(coderv1alpha1.ReasonInvalidSpec, retryFailed,
			"spec.operatorAccess.tokenSecretRef names Secret %q, which the operator made itself; "+
				"remove tokenSecretRef, or name a Secret of your own", ref.Name)
	}
	token := strings.TrimSpace(string(secret.Data[ref.Key]))
	if token == "" {
		return "", outcome.Fails(coderv1alpha1.ReasonTokenSecretMissing, retrySecret,
			"Secret %q (spec.operatorAccess.tokenSecretRef) has no token in key %q; add it", ref.Name, ref.Key)
	}
	return token, nil
}
