package access

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
)

// storedToken is the parsed content of the token Secret.
type storedToken struct {
	secret          *corev1.Secret
	value           string
	id, name, user  string
	issued, expires time.Time
}

// usable reports whether the Secret holds a token that the operator created. A token that someone
// else put there belongs to an unknown account.
func (t *storedToken) usable() bool {
	return t != nil && t.value != "" && t.id == t.secret.Annotations[AnnotationTokenID]
}

// renewAfter returns two thirds of the token's lifetime. A token with an unknown lifetime is renewed at once.
func (t *storedToken) renewAfter() time.Duration { return t.expires.Sub(t.issued) / 3 * 2 }

// readToken returns nil if there is no Secret.
func readToken(secret *corev1.Secret) *storedToken {
	if secret == nil {
		return nil
	}
	t := &storedToken{
		secret: secret,
		value:  strings.TrimSpace(string(secret.Data[coderv1alpha1.SecretKeyToken])),
		name:   secret.Annotations[AnnotationTokenName],
		user:   secret.Annotations[AnnotationTokenUser],
	}
	t.id = coderd.TokenID(t.value)
	issued, errIssued := time.Parse(time.RFC3339, secret.Annotations[AnnotationTokenIssuedAt])
	expires, errExpires := time.Parse(time.RFC3339, secret.Annotations[AnnotationTokenExpiresAt])
	if errIssued == nil && errExpires == nil {
		t.issued, t.expires = issued, expires
	}
	return t
}

// verify asks Coder for the user of the token, and for its expiry if wanted, unless the answer is cached.
func (p *pass) verify(ctx context.Context, token string, expiry bool) (verification, error) {
	now, about := p.Clock.Now(), ensure.DigestOf(p.req.URL, token, fmt.Sprint(p.req.Quarantined))
	if known, ok := p.verified.Get(p.cp.UID, about, now); ok {
		return known.Value, nil
	}
	api, err := p.connect(token)
	if err != nil {
		return verification{}, err
	}
	var v verification
	v.user, err = api.Me(ctx)
	if err == nil && expiry {
		v.life, err = api.OwnKey(ctx, coderd.TokenID(token))
		if coderd.IsNotFound(err) || coderd.IsForbidden(err) {
			// The token lacks the permission to read that.
			v.life, err = coderd.TokenInfo{}, nil
		}
	}
	if err != nil {
		p.Forget(p.cp.UID)
		return verification{}, err
	}
	if v.user.IsOwner() {
		p.verified.Put(p.cp.UID, ensure.Entry[verification]{Value: v, Digest: about, Until: now.Add(trust)})
	}
	return v, nil
}

// mint creates a token, stores it and returns it. Before that, it deletes the tokens in Coder that
// have the operator's names, except the one to keep: an earlier pass created them and could not
// store them.
func (p *pass) mint(ctx context.Context, api *coderd.Client, user coderd.User, stored *storedToken, keep string) (*storedToken, error) {
	var secret *corev1.Secret
	if stored != nil {
		secret = stored.secret
	}
	if err := p.secrets.CheckUnchanged(ctx, TokenSecretName(p.cp), secret); err != nil {
		return nil, err
	}
	kept, err := p.sweep(ctx, api, keep)
	if err != nil {
		return nil, answered(coderv1alpha1.ReasonTokenRefused, err)
	}
	longest, err := api.MaxTokenLifetime(ctx, coderd.Me)
	if err != nil {
		return nil, answered(coderv1alpha1.ReasonTokenRefused, err)
	}
	lifetime := lifetimeWanted
	if longest > 0 {
		lifetime = min(longest, lifetimeWanted)
	}
	name := TokenName(p.cp)
	if kept == name {
		name = otherTokenName(p.cp)
	}
	issued := p.Clock.Now().UTC().Truncate(time.Second)
	token, err := p.createToken(ctx, api, secret, coderd.TokenRequest{Name: name, Lifetime: lifetime})
	if err != nil {
		return nil, answered(coderv1alpha1.ReasonTokenRefused, err)
	}
	secret, err = p.write(ctx, secret, TokenSecretName(p.cp), map[string]string{coderv1alpha1.SecretKeyToken: token.Value}, map[string]string{
		AnnotationTokenID:         token.ID,
		AnnotationTokenName:       name,
		AnnotationTokenUser:       user.Username,
		AnnotationTokenIssuedAt:   issued.Format(time.RFC3339),
		AnnotationTokenExpiresAt:  issued.Add(lifetime).Format(time.RFC3339),
		AnnotationPreviousTokenID: keep,
	})
	if err != nil {
		return nil, err
	}
	return readToken(secret), nil
}

// createToken creates a token of the operator's account. If a token that the sweep did not see has
// the same name, createToken deletes it first: its value is not stored anywhere.
func (p *pass) createToken(ctx context.Context, api *coderd.Client, stored *corev1.Secret, request coderd.TokenRequest) (coderd.Token, error) {
	token, err := api.CreateToken(ctx, coderd.Me, request)
	if !coderd.IsConflict(err) {
		return token, err
	}
	taken, err := api.TokenByName(ctx, coderd.Me, request.Name)
	if err == nil {
		err = p.secrets.CheckUnchanged(ctx, TokenSecretName(p.cp), stored)
	}
	if err == nil {
		err = api.DeleteToken(ctx, coderd.Me, taken.ID)
	}
	if err != nil && !coderd.IsNotFound(err) {
		return coderd.Token{}, err
	}
	return api.CreateToken(ctx, coderd.Me, request)
}

// sweep deletes the operator's tokens of this control plane in Coder, except the one to keep, and
// returns the name of that one.
func (p *pass) sweep(ctx context.Context, api *coderd.Client, keep string) (kept string, err error) {
	tokens, err := api.TokensOf(ctx, coderd.Me)
	if err != nil {
		return "", err
	}
	names := []string{TokenName(p.cp), otherTokenName(p.cp)}
	for _, token := range tokens {
		switch {
		case !slices.Contains(names, token.Name):
		case token.ID == keep:
			kept = token.Name
		default:
			if err := api.DeleteToken(ctx, coderd.Me, token.ID); err != nil && !coderd.IsNotFound(err) {
				return "", err
			}
			p.swept++
		}
	}
	return kept, nil
}

func notOwner(user coderd.User, remedy string) error {
	return ensure.Fails(coderv1alpha1.ReasonTokenRefused, retryFailed,
		"Coder accepts the token, but its user %q does not have the role owner, which the operator needs; %s", user.Username, remedy)
}

func describeToken(what string, t *storedToken) string {
	return fmt.Sprintf("%s token %q of user %q in Coder; it expires at %s", what, t.name, t.user, t.expires.Format(time.RFC3339))
}

// own creates and maintains a token of the operator's own account.
func (p *pass) own(ctx context.Context) error {
	secret, err := p.ownSecret(ctx, TokenSecretName(p.cp))
	if err != nil {
		return err
	}
	access, err := p.tokenAccess(ctx, readToken(secret))
	if err != nil {
		return err
	}
	p.useToken(access)
	note, err := p.initialAdmin(ctx, access)
	if err != nil {
		return err
	}
	p.result.Ready(coderv1alpha1.ReasonTokenAccepted, "Coder accepts the operator's token"+note)
	return nil
}

// tokenAccess returns a token that Coder accepts: the stored one, or a new one.
func (p *pass) tokenAccess(ctx context.Context, stored *storedToken) (*storedToken, error) {
	if stored.usable() {
		p.useToken(stored)
		verified, err := p.verify(ctx, stored.value, false)
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
	if !user.IsOwner() {
		p.dropToken()
		return nil, notOwner(user, "give it back in Coder")
	}
	if coderd.Elapsed(p.Clock.Now(), stored.issued, stored.renewAfter()) {
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
	// Until the replaced token is deleted, its id is in an annotation of the Secret.
	previous := stored.secret.Annotations[AnnotationPreviousTokenID]
	if previous == "" {
		return stored, nil
	}
	if err := api.DeleteToken(ctx, coderd.Me, previous); err != nil && !coderd.IsNotFound(err) {
		return stored, answered(coderv1alpha1.ReasonTokenRefused, err)
	}
	ensure.Annotate(stored.secret, map[string]string{AnnotationPreviousTokenID: ""})
	return stored, p.secrets.Save(ctx, stored.secret)
}

func (p *pass) useToken(stored *storedToken) {
	p.result.TokenRef = &coderv1alpha1.TokenSecretReference{Name: stored.secret.Name, Key: coderv1alpha1.SecretKeyToken}
	expires := stored.expires
	p.result.ExpiresAt = &expires
	p.result.RequeueAfter = min(recheck, max(stored.issued.Add(stored.renewAfter()).Sub(p.Clock.Now()), time.Second))
}

// dropToken removes a token that does not work from the Result.
func (p *pass) dropToken() { p.result.TokenRef, p.result.ExpiresAt = nil, nil }
