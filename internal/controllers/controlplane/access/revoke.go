package access

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
)

// Revoke removes everything that the operator created for its access: its tokens in Coder, then the
// Secrets with the token and the credentials. A Secret from the spec and the initial admin belong
// to the user and stay. While Coder does not respond, the Result is Waiting and the Secrets stay,
// so that Revoke can be retried; the caller decides for how long. The Result is Ready once nothing
// is left, also if there was nothing to remove.
func (m *Manager) Revoke(ctx context.Context, req Request) (Result, error) {
	p := m.newPass(req)
	err := p.withdraw(ctx)
	if err == nil {
		p.result.Ready(coderv1alpha1.ReasonTokenRevoked, "the operator holds no token of its own in Coder")
	}
	err = p.result.Finish(err)
	return p.result, err
}

// withdraw revokes the tokens and deletes the Secrets with the token and the credentials.
func (p *pass) withdraw(ctx context.Context) error {
	p.Forget(p.cp.UID)
	token, err := p.secrets.GetMine(ctx, TokenSecretName(p.cp))
	if err != nil {
		return err
	}
	creds, err := p.secrets.GetMine(ctx, CredentialsSecretName(p.cp))
	if err != nil {
		return err
	}
	if creds != nil {
		// Delete the Job first, so that it cannot create an account afterwards.
		if err := p.deleteJob(ctx); err != nil && ensure.Stopped(err) == nil {
			return err
		}
	}
	if err := p.takeBack(ctx, token, creds); err != nil || creds == nil {
		return err
	}
	return p.secrets.Delete(ctx, creds)
}

// takeBack deletes the operator's tokens in Coder, and then the Secret with the token, which may be
// nil. It uses the stored token, which it deletes last, or the credentials if Coder refuses the token.
// If Coder refuses the credentials as well, no token is left that works.
func (p *pass) takeBack(ctx context.Context, token, creds *corev1.Secret) error {
	done, err := p.revokeWith(ctx, readToken(token))
	if account := readAccount(creds); err == nil && !done && account.complete() {
		err = p.revokeByLogin(ctx, account)
	}
	if err != nil || token == nil {
		return err
	}
	return p.secrets.Delete(ctx, token)
}

// revokeWith uses the token itself. It returns done=false if Coder refuses the token.
func (p *pass) revokeWith(ctx context.Context, t *storedToken) (done bool, err error) {
	if !t.usable() {
		return false, nil
	}
	api, err := p.connect(t.value)
	if err != nil {
		return false, err
	}
	if _, err = p.sweep(ctx, api, t.id); err == nil {
		err = api.DeleteToken(ctx, coderd.Me, t.id)
	}
	switch {
	case coderd.IsUnauthorized(err):
		return false, nil
	case err != nil && !coderd.IsNotFound(err):
		return false, answered(coderv1alpha1.ReasonTokenRefused, err)
	}
	p.result.Events.Normal(coderv1alpha1.ReasonTokenRevoked, fmt.Sprintf("revoked token %q of user %q in Coder", t.name, t.user))
	return true, nil
}

func (p *pass) revokeByLogin(ctx context.Context, creds *account) error {
	s, err := p.open(ctx, creds)
	switch {
	case coderd.IsUnauthorized(err), coderd.IsForbidden(err):
		log.FromContext(ctx).Info("Coder no longer accepts the operator's credentials; remaining tokens expire by themselves",
			"user", creds.username)
		return nil
	case err != nil:
		return answered(coderv1alpha1.ReasonCredentialsRefused, err)
	}
	defer s.end(ctx)
	before := p.swept
	if _, err := p.sweep(ctx, s.client, ""); err != nil {
		return answered(coderv1alpha1.ReasonTokenRefused, err)
	}
	if p.swept > before {
		p.result.Events.Normal(coderv1alpha1.ReasonTokenRevoked, fmt.Sprintf("revoked the tokens of user %q in Coder", creds.username))
	}
	return nil
}
