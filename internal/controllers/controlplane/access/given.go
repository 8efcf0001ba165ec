package access

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
)

// given verifies the token from spec.operatorAccess.tokenSecretRef. That Secret belongs to the user
// and is never written. A token that the operator created before is revoked once the given one
// works.
func (p *pass) given(ctx context.Context, ref coderv1alpha1.TokenSecretReference) error {
	ref.Key = cmp.Or(ref.Key, coderv1alpha1.SecretKeyToken)
	ours, err := p.secrets.GetMine(ctx, TokenSecretName(p.cp))
	if err != nil {
		return err
	}
	token, err := p.givenToken(ctx, ref, ours)
	if err != nil {
		return err
	}
	verified, err := p.verify(ctx, token, true)
	switch {
	case coderd.IsUnauthorized(err):
		return ensure.Fails(coderv1alpha1.ReasonTokenRefused, retrySecret,
			"Coder does not accept the token in key %q of Secret %q (spec.operatorAccess.tokenSecretRef): it is wrong, revoked or expired; "+
				"put a new one there", ref.Key, ref.Name)
	case err != nil:
		p.result.TokenRef = &ref
		return answered(coderv1alpha1.ReasonTokenRefused, err)
	case !verified.user.IsOwner():
		return notOwner(verified.user, "give it the role, or give the operator the token of an owner")
	}
	p.result.TokenRef = &ref
	p.result.RequeueAfter = recheck
	if ours != nil {
		// The account stays, for the case that the token is removed from the spec.
		creds, err := p.secrets.GetMine(ctx, CredentialsSecretName(p.cp))
		if err == nil {
			err = p.takeBack(ctx, ours, creds)
		}
		if err != nil {
			return err
		}
	}
	p.result.Ready(coderv1alpha1.ReasonTokenAccepted, "Coder accepts the token of spec.operatorAccess.tokenSecretRef")
	if verified.life.ExpiresAt.IsZero() {
		return nil
	}
	expires := verified.life.ExpiresAt.UTC().Truncate(time.Second)
	p.result.ExpiresAt = &expires
	warnAt := expires.Add(-min(warnBefore, expires.Sub(verified.life.CreatedAt.Truncate(time.Second))/3))
	// Since Coder 2.34.3, using a token no longer extends its lifetime.
	if left := warnAt.Sub(p.Clock.Now()); left > 0 {
		p.result.RequeueAfter = min(p.result.RequeueAfter, left)
		return nil
	}
	p.result.Ready(coderv1alpha1.ReasonTokenExpiring, fmt.Sprintf(
		"Coder accepts the token in key %q of Secret %q (spec.operatorAccess.tokenSecretRef), but it expires at %s; put a new token there before that",
		ref.Key, ref.Name, expires.Format(time.RFC3339)))
	return nil
}

// givenToken reads the token from the spec. It must not be one of the operator's own tokens, which the
// operator revokes, and which expire soon. ours is the Secret that contains one, or nil.
func (p *pass) givenToken(ctx context.Context, ref coderv1alpha1.TokenSecretReference, ours *corev1.Secret) (string, error) {
	secret, err := p.secrets.Get(ctx, ref.Name)
	switch {
	case err != nil:
		return "", err
	case secret == nil:
		return "", ensure.Fails(coderv1alpha1.ReasonTokenSecretMissing, retrySecret,
			"Secret %q (spec.operatorAccess.tokenSecretRef) does not exist in namespace %q; create it, or remove tokenSecretRef", ref.Name, p.cp.Namespace)
	case metav1.HasAnnotation(secret.ObjectMeta, AnnotationTokenID) && p.secrets.Mine(secret):
		return "", ensure.Fails(coderv1alpha1.ReasonInvalidSpec, retryFailed,
			"spec.operatorAccess.tokenSecretRef names Secret %q, which the operator created itself; "+
				"remove tokenSecretRef, or use your own Secret", ref.Name)
	}
	token := strings.TrimSpace(string(secret.Data[ref.Key]))
	if token == "" {
		return "", ensure.Fails(coderv1alpha1.ReasonTokenSecretMissing, retrySecret,
			"Secret %q (spec.operatorAccess.tokenSecretRef) has no token in key %q; add it", ref.Name, ref.Key)
	}
	if ours != nil && ours.Annotations[AnnotationTokenID] == coderd.TokenID(token) {
		return "", ensure.Fails(coderv1alpha1.ReasonInvalidSpec, retryFailed,
			"Secret %q (spec.operatorAccess.tokenSecretRef) contains a token that the operator created itself, in Secret %q; "+
				"remove tokenSecretRef, or put your own token there", ref.Name, ours.Name)
	}
	return token, nil
}
