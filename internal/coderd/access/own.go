package access

import (
	"context"
	"time"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/kube/ownsecret"
)

const acceptedMessage = "Coder accepts the operator's token"

// own creates and maintains a token of the operator's own account.
func (p *pass) own(ctx context.Context) error {
	stored, err := p.loadToken(ctx)
	if err != nil {
		return err
	}
	access, err := p.tokenAccess(ctx, stored)
	if err != nil {
		return err
	}
	if err := p.dropRenamed(ctx); err != nil {
		return err
	}
	p.useToken(access)
	note, err := p.initialAdmin(ctx, access)
	if err != nil {
		return err
	}
	p.result.Ready(coderv1alpha1.ReasonTokenAccepted, acceptedMessage+note)
	return nil
}

// tokenAccess returns a token that Coder accepts: the stored one, or a new one.
func (p *pass) tokenAccess(ctx context.Context, stored *storedToken) (*storedToken, error) {
	if stored.usable() {
		p.useToken(stored)
		verified, err := p.verify(ctx, stored.value, nil)
		switch {
		case err == nil:
			return p.keepFresh(ctx, stored, verified.user)
		case !coderd.IsUnauthorized(err):
			return nil, answered(coderv1alpha1.ReasonTokenRefused, err)
		}
		p.dropToken()
	}
	session, err := p.signIn(ctx)
	if err != nil {
		return nil, err
	}
	defer session.end(ctx)
	stored, err = p.mint(ctx, session.client, session.user, stored, "")
	if err != nil {
		return nil, err
	}
	p.result.Events.Normal(coderv1alpha1.ReasonTokenMinted, describeToken("minted", stored))
	return stored, nil
}

// keepFresh rotates a token that Coder accepts once it is old enough, and deletes the replaced one.
func (p *pass) keepFresh(ctx context.Context, stored *storedToken, user coderd.User) (*storedToken, error) {
	api, err := p.connect(stored.value)
	if err != nil {
		return nil, err
	}
	if !isOwner(user) {
		p.dropToken()
		return nil, notOwner(user, "give it back in Coder")
	}
	if !p.now().Before(stored.renewAt()) {
		stored, err = p.mint(ctx, api, user, stored, stored.id)
		if err != nil {
			return nil, err
		}
		p.useToken(stored)
		p.result.Events.Normal(coderv1alpha1.ReasonTokenRotated, describeToken("rotated", stored))
		if api, err = p.connect(stored.value); err != nil {
			return nil, err
		}
	}
	return stored, p.finishRotation(ctx, api, stored)
}

// finishRotation deletes the replaced token. Until that is done, its id is in an annotation of the
// Secret.
func (p *pass) finishRotation(ctx context.Context, api *coderd.Client, stored *storedToken) error {
	previous := stored.secret.Annotations[AnnotationPreviousTokenID]
	if previous == "" {
		return nil
	}
	if err := api.DeleteToken(ctx, coderd.Me, previous); err != nil && !coderd.IsNotFound(err) {
		return answered(coderv1alpha1.ReasonTokenRefused, err)
	}
	ownsecret.Annotate(stored.secret, map[string]string{AnnotationPreviousTokenID: ""})
	return p.secrets.Save(ctx, stored.secret)
}

// useToken reports the token in the Result.
func (p *pass) useToken(stored *storedToken) {
	p.result.TokenRef = &coderv1alpha1.TokenSecretReference{Name: stored.secret.Name, Key: coderv1alpha1.SecretKeyToken}
	expires := stored.expires
	p.result.ExpiresAt = &expires
	p.result.RequeueAfter = min(recheck, max(stored.renewAt().Sub(p.now()), time.Second))
}

// dropToken removes a token that does not work from the Result.
func (p *pass) dropToken() { p.result.TokenRef, p.result.ExpiresAt = nil, nil }

// dropRenamed deletes the token Secret of an earlier spec.operatorAccess.generatedTokenSecretName.
// Its token was deleted in Coder when the current one was created.
func (p *pass) dropRenamed(ctx context.Context) error {
	ref := p.cp.Status.OperatorTokenSecretRef
	if ref == nil || ref.Name == TokenSecretName(p.cp) {
		return nil
	}
	secret, err := p.secrets.Get(ctx, ref.Name)
	if err != nil || secret == nil || !p.isTokenSecret(secret) {
		return err
	}
	return p.secrets.Delete(ctx, secret)
}
