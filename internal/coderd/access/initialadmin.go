package access

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure"
)

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
	admin, err := p.adminAccount(ctx)
	if err != nil {
		return "", err
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
			"made user %q with the role owner in Coder; email and password are in Secret %q", admin.username, admin.secret.Name))
	}
	return note, nil
}

func (p *pass) existsNote() string {
	return fmt.Sprintf("; no initial admin was made, because Coder has a user of the name or email address of spec.initialAdmin (%q, %q)",
		p.adminName(), p.adminEmail())
}

// adminAccount writes the Secret before the account exists. Until the account exists, it updates
// the Secret when the spec changes.
func (p *pass) adminAccount(ctx context.Context) (*account, error) {
	name := InitialAdminSecretName(p.cp)
	admin, err := p.loadAccount(ctx, name)
	if err != nil {
		return nil, err
	}
	if admin.complete() && admin.username == p.adminName() && admin.email == p.adminEmail() {
		return admin, nil
	}
	return p.saveAccount(ctx, admin, name, p.adminName(), p.adminEmail(), nil)
}

func (p *pass) adminName() string {
	if name := p.cp.Spec.InitialAdmin.Username; name != "" {
		return name
	}
	return "admin"
}

func (p *pass) adminEmail() string {
	if email := p.cp.Spec.InitialAdmin.Email; email != "" {
		return email
	}
	return "admin@" + EmailDomain
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
		ours, err := p.opens(ctx, admin)
		if err != nil || !ours {
			return InitialAdminExists, err
		}
	} else if err != nil {
		return "", p.adminRefused(err)
	}
	if err := api.SetRoles(ctx, admin.username, []string{roleOwner}); err != nil {
		return "", p.adminRefused(err)
	}
	return InitialAdminCreated, nil
}

// opens reports whether Coder accepts the credentials of an account.
func (p *pass) opens(ctx context.Context, a *account) (bool, error) {
	anonymous, err := p.connect("")
	if err != nil {
		return false, err
	}
	token, err := anonymous.Login(ctx, a.email, a.password)
	switch {
	case coderd.IsUnauthorized(err):
		return false, nil
	case err != nil:
		return false, p.adminRefused(err)
	}
	s := &session{}
	if s.client, err = p.connect(token); err != nil {
		return false, err
	}
	s.end(ctx)
	return true, nil
}

// adminRefused returns ReasonInvalidSpec if Coder rejects the values of spec.initialAdmin.
func (p *pass) adminRefused(err error) error {
	if coderd.IsInvalid(err) {
		return ensure.Fails(coderv1alpha1.ReasonInvalidSpec, retryFailed,
			"Coder does not accept the account of spec.initialAdmin: %v; change it, or set spec.initialAdmin.disabled", err)
	}
	return answered(coderv1alpha1.ReasonWaiting, err)
}
