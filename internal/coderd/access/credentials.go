package access

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/ownsecret"
)

// account is the parsed content of a Secret with username, email and password.
type account struct {
	secret                    *corev1.Secret
	username, email, password string
}

func readAccount(secret *corev1.Secret) *account {
	return &account{
		secret:   secret,
		username: string(secret.Data[coderv1alpha1.SecretKeyUsername]),
		email:    string(secret.Data[coderv1alpha1.SecretKeyEmail]),
		password: string(secret.Data[coderv1alpha1.SecretKeyPassword]),
	}
}

func (a *account) complete() bool {
	return a != nil && a.username != "" && a.email != "" && a.password != ""
}

func (a *account) annotation(key string) string {
	if a == nil {
		return ""
	}
	return a.secret.Annotations[key]
}

// known reports whether Coder has accepted these credentials before.
func (a *account) known() bool { return a.annotation(AnnotationAccountID) != "" }

// madeBy returns how the account is, or was, created: BootstrapFirstUser or BootstrapAdminJob.
func (a *account) madeBy() string { return a.annotation(AnnotationBootstrap) }

// loadAccount reads a Secret with an account. It returns nil if the Secret does not exist.
func (p *pass) loadAccount(ctx context.Context, secretName string) (*account, error) {
	secret, err := p.ownSecret(ctx, secretName)
	if err != nil || secret == nil {
		return nil, err
	}
	return readAccount(secret), nil
}

// saveAccount writes an account with a new password. It replaces an existing account in the Secret.
func (p *pass) saveAccount(ctx context.Context, old *account, secretName, username, email string, annotations map[string]string) (*account, error) {
	password, err := p.random()
	if err != nil {
		return nil, fmt.Errorf("making a password: %w", err)
	}
	values := map[string]string{
		coderv1alpha1.SecretKeyUsername: username,
		coderv1alpha1.SecretKeyEmail:    email,
		coderv1alpha1.SecretKeyPassword: password,
	}
	var secret *corev1.Secret
	if old != nil {
		secret = old.secret
	}
	if secret, err = p.write(ctx, secret, secretName, values, annotations); err != nil {
		return nil, err
	}
	return readAccount(secret), nil
}

// credentials reads the operator's own account. It returns nil if the Secret does not exist.
func (p *pass) credentials(ctx context.Context) (*account, error) {
	return p.loadAccount(ctx, CredentialsSecretName(p.cp))
}

// newCredentials writes credentials for an account that does not exist yet. The first user has the
// plain name. An account created by a Job has a random suffix, so that it does not conflict with an
// account that an earlier control plane left behind.
func (p *pass) newCredentials(ctx context.Context, old *account, bootstrap string) (*account, error) {
	username := Username
	if bootstrap == BootstrapAdminJob {
		random, err := p.random()
		if err != nil {
			return nil, fmt.Errorf("making a name: %w", err)
		}
		username += "-" + suffixFrom(random)
	}
	return p.saveAccount(ctx, old, CredentialsSecretName(p.cp), username, username+"@"+EmailDomain, unknownAccount(bootstrap))
}

// unknownAccount returns the annotations of credentials that Coder has not accepted yet.
func unknownAccount(bootstrap string) map[string]string {
	return map[string]string{
		AnnotationBootstrap:    bootstrap,
		AnnotationAccountID:    "",
		AnnotationInitialAdmin: "",
		AnnotationFailedJob:    "",
		AnnotationJobFailures:  "",
		AnnotationJobRetryAt:   "",
	}
}

// setCredentials writes annotations to the credentials Secret if one of them differs.
func (p *pass) setCredentials(ctx context.Context, a *account, annotations map[string]string) error {
	for key, value := range annotations {
		if a.annotation(key) != value {
			ownsecret.Annotate(a.secret, annotations)
			return p.secrets.Save(ctx, a.secret)
		}
	}
	return nil
}
