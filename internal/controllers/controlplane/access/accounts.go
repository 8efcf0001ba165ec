package access

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
)

// account is the parsed content of a Secret with username, email and password.
type account struct {
	secret                    *corev1.Secret
	username, email, password string
}

// readAccount returns nil if there is no Secret.
func readAccount(secret *corev1.Secret) *account {
	if secret == nil {
		return nil
	}
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
	secret, err := p.ownSecret(ctx, CredentialsSecretName(p.cp))
	return readAccount(secret), err
}

// newCredentials writes credentials for an account that does not exist yet. The first user has the
// plain name. An account created by a Job has a random suffix, so that it does not conflict with an
// account that an earlier control plane left behind.
func (p *pass) newCredentials(ctx context.Context, old *account, bootstrap string) (*account, error) {
	username := coderv1alpha1.OperatorUsername
	if bootstrap == BootstrapAdminJob {
		random, err := p.random()
		if err != nil {
			return nil, fmt.Errorf("making a name: %w", err)
		}
		// The random text cannot be read from the name.
		h := fnv.New32a()
		_, _ = h.Write([]byte(random))
		username += fmt.Sprintf("-%08x", h.Sum32())
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
			ensure.Annotate(a.secret, annotations)
			return p.secrets.Save(ctx, a.secret)
		}
	}
	return nil
}

// ownSecret reads a Secret of this control plane. It returns nil if the Secret does not exist. A
// Secret of that name that this control plane does not own stops the pass.
func (p *pass) ownSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := p.secrets.Get(ctx, name)
	if err != nil || secret == nil || p.secrets.Mine(secret) {
		return secret, err
	}
	return nil, p.secrets.Taken("Secret", secret, retryFailed, renameIt)
}

// renameIt is the remedy for an object of another owner.
const renameIt = "give it another name"

// write puts values and annotations into a Secret, and creates the Secret if it is nil.
func (p *pass) write(ctx context.Context, secret *corev1.Secret, name string, values, annotations map[string]string) (*corev1.Secret, error) {
	if secret == nil {
		var err error
		if secret, err = p.secrets.New(name); err != nil {
			return nil, err
		}
	}
	for key, value := range values {
		ensure.SetValue(secret, key, value)
	}
	ensure.Annotate(secret, annotations)
	return secret, p.secrets.Save(ctx, secret)
}

// initialAdmin creates the account for the first human login, once, in a Coder whose first user is
// the operator. If Coder had users before, no account is created, because people can log in
// already. The result is recorded on the credentials Secret and not on the Secret of the account,
// because a user may delete the latter after changing the password.
func (p *pass) initialAdmin(ctx context.Context, token *storedToken) (note string, err error) {
	if p.cp.Spec.InitialAdmin.Disabled {
		return "", nil
	}
	creds, err := p.credentials(ctx)
	if err != nil || !creds.known() || creds.madeBy() != BootstrapFirstUser {
		return "", err
	}
	switch creds.annotation(AnnotationInitialAdmin) {
	case InitialAdminCreated:
		return "", nil
	case InitialAdminExists:
		return p.existsNote(), nil
	}
	secret, err := p.ownSecret(ctx, coderv1alpha1.InitialAdminSecretName(p.cp.Name))
	if err != nil {
		return "", err
	}
	// The Secret is written before the account exists. Until then, it follows the spec.
	admin := readAccount(secret)
	if !admin.complete() || admin.username != p.adminName() || admin.email != p.adminEmail() {
		if admin, err = p.saveAccount(ctx, admin, coderv1alpha1.InitialAdminSecretName(p.cp.Name), p.adminName(), p.adminEmail(), nil); err != nil {
			return "", err
		}
	}
	settled, err := p.createAdmin(ctx, token, admin)
	if err != nil {
		return "", err
	}
	if settled == InitialAdminExists {
		if err := p.secrets.Delete(ctx, admin.secret); err != nil {
			return "", err
		}
		note = p.existsNote()
	}
	if err := p.setCredentials(ctx, creds, map[string]string{AnnotationInitialAdmin: settled}); err != nil {
		return "", err
	}
	if settled == InitialAdminCreated {
		p.result.Events.Normal(coderv1alpha1.ReasonInitialAdminCreated, fmt.Sprintf(
			"created user %q with the role owner in Coder; the email address and the password are in Secret %q", admin.username, admin.secret.Name))
	}
	return note, nil
}

func (p *pass) existsNote() string {
	return fmt.Sprintf("; no initial admin was created, because Coder already has a user with the username or email address of spec.initialAdmin (%q, %q)",
		p.adminName(), p.adminEmail())
}

func (p *pass) adminName() string { return cmp.Or(p.cp.Spec.InitialAdmin.Username, "admin") }

func (p *pass) adminEmail() string {
	return cmp.Or(p.cp.Spec.InitialAdmin.Email, "admin@"+EmailDomain)
}

// createAdmin creates the account in Coder. If an account of that name exists and does not have our
// password, it belongs to someone else and is not changed. If it has our password, an earlier,
// interrupted pass created it.
func (p *pass) createAdmin(ctx context.Context, token *storedToken, admin *account) (settled string, err error) {
	api, err := p.connect(token.value)
	if err != nil {
		return "", err
	}
	org, err := api.OrganizationByName(ctx, coderd.DefaultOrganization)
	if err != nil {
		return "", p.adminRefused(err)
	}
	_, err = api.CreateUser(ctx, coderd.NewUser{
		Username: admin.username, Email: admin.email, Name: "Initial admin", Password: admin.password,
		OrganizationIDs: []uuid.UUID{org.ID},
	})
	if coderd.IsConflict(err) {
		s, err := p.open(ctx, admin)
		switch {
		case coderd.IsUnauthorized(err):
			return InitialAdminExists, nil
		case err != nil:
			return "", p.adminRefused(err)
		}
		s.end(ctx)
	} else if err != nil {
		return "", p.adminRefused(err)
	}
	if err := api.SetRoles(ctx, admin.username, []string{"owner"}); err != nil {
		return "", p.adminRefused(err)
	}
	return InitialAdminCreated, nil
}

// adminRefused returns ReasonInvalidSpec if Coder rejects the values of spec.initialAdmin.
func (p *pass) adminRefused(err error) error {
	if coderd.IsInvalid(err) {
		return ensure.Fails(coderv1alpha1.ReasonInvalidSpec, retryFailed,
			"Coder does not accept the account of spec.initialAdmin: %v; change it, or set spec.initialAdmin.disabled", err)
	}
	return answered(coderv1alpha1.ReasonWaiting, err)
}
