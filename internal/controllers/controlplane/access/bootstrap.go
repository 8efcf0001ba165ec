package access

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/log"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
)

// session is a session of Coder that was opened with a password. It ends with the pass.
type session struct {
	client *coderd.Client
	user   coderd.User
}

func (p *pass) open(ctx context.Context, a *account) (*session, error) {
	anonymous, err := p.connect("")
	if err != nil {
		return nil, err
	}
	token, err := anonymous.Login(ctx, a.email, a.password)
	if err != nil {
		return nil, err
	}
	api, err := p.connect(token)
	return &session{client: api}, err
}

// end logs out. If that fails, the session expires after a day.
func (s *session) end(ctx context.Context) {
	if err := s.client.Logout(ctx); err != nil {
		log.FromContext(ctx).V(1).Info("Could not log out the operator's account; the session expires by itself", "error", err.Error())
	}
}

// signIn logs in with the operator's own account. If there is no such account, signIn creates it:
// as the first user, or with a Job.
func (p *pass) signIn(ctx context.Context) (*session, error) {
	creds, err := p.credentials(ctx)
	if err != nil {
		return nil, err
	}
	anonymous, err := p.connect("")
	if err != nil {
		return nil, err
	}
	inUse, err := anonymous.HasFirstUser(ctx)
	switch {
	case err != nil:
		return nil, answered(coderv1alpha1.ReasonCredentialsRefused, err)
	case !inUse:
		return p.becomeFirstUser(ctx, anonymous, creds)
	case creds.complete() && creds.known():
		return p.loginExisting(ctx, creds)
	case creds.complete() && creds.madeBy() == BootstrapFirstUser:
		// An earlier pass may have been interrupted while it created the first user.
		if s, err := p.login(ctx, creds); !coderd.IsUnauthorized(err) {
			return s, p.loginFailure(creds, err)
		}
	}
	return p.accountByJob(ctx, creds)
}

// becomeFirstUser creates the operator's account in a Coder without users. Existing credentials
// keep their password: if the control plane points to the wrong database by mistake, they still
// work for the old one.
func (p *pass) becomeFirstUser(ctx context.Context, anonymous *coderd.Client, creds *account) (*session, error) {
	var err error
	if creds.complete() {
		err = p.setCredentials(ctx, creds, unknownAccount(BootstrapFirstUser))
	} else {
		creds, err = p.newCredentials(ctx, creds, BootstrapFirstUser)
	}
	if err != nil {
		return nil, err
	}
	err = anonymous.CreateFirstUser(ctx, coderd.NewUser{
		Username: creds.username, Email: creds.email, Name: "Coder Kubernetes operator", Password: creds.password,
	})
	switch {
	case coderd.IsConflict(err):
		return nil, ensure.Waits(coderv1alpha1.ReasonWaiting, soon, "another client created the first user of Coder at the same time; checking again")
	case err != nil:
		return nil, answered(coderv1alpha1.ReasonCredentialsRefused, err)
	}
	return p.loginExisting(ctx, creds)
}

func (p *pass) loginExisting(ctx context.Context, creds *account) (*session, error) {
	s, err := p.login(ctx, creds)
	return s, p.loginFailure(creds, err)
}

// login opens a session and records that Coder accepts the credentials.
func (p *pass) login(ctx context.Context, creds *account) (*session, error) {
	s, err := p.open(ctx, creds)
	if err != nil {
		return nil, err
	}
	if s.user, err = s.client.Me(ctx); err != nil {
		s.end(ctx)
		return nil, answered(coderv1alpha1.ReasonCredentialsRefused, err)
	}
	if !creds.known() && creds.madeBy() == BootstrapAdminJob {
		p.suspendAbandoned(ctx, s)
	}
	if err := p.accept(ctx, creds, s.user); err != nil {
		s.end(ctx)
		return nil, err
	}
	return s, nil
}

// accept checks that the account has the role owner and records that it is the operator's. If a Job
// created the account, accept deletes the Job.
func (p *pass) accept(ctx context.Context, creds *account, user coderd.User) error {
	if !user.IsOwner() {
		return ensure.Fails(coderv1alpha1.ReasonCredentialsRefused, retryFailed,
			"user %q in Coder does not have the role owner, which the operator needs; assign it in Coder", user.Username)
	}
	if !creds.known() && creds.madeBy() == BootstrapAdminJob {
		if err := p.deleteJob(ctx); err != nil {
			return err
		}
	}
	return p.setCredentials(ctx, creds, map[string]string{
		AnnotationAccountID:   user.ID.String(),
		AnnotationFailedJob:   "",
		AnnotationJobFailures: "",
		AnnotationJobRetryAt:  "",
	})
}

// suspendAbandoned suspends the accounts that earlier control planes left behind: those with a name and an
// email address of the operator, and without a valid token, so that no operator uses them. An account
// cannot suspend itself, so its own control plane could not do it. A failure does not matter for access.
func (p *pass) suspendAbandoned(ctx context.Context, s *session) {
	page, err := s.client.UserPage(ctx, 0, coderd.MaxUserPage)
	for _, user := range page.Users {
		operators := strings.HasPrefix(user.Username, coderv1alpha1.OperatorUsername) && user.Email == user.Username+"@"+EmailDomain
		if err == nil && operators && user.ID != s.user.ID && !user.IsSuspended() {
			err = p.suspend(ctx, s, user)
		}
	}
	if err != nil {
		log.FromContext(ctx).Info("Could not suspend an account that an earlier control plane left behind", "error", err.Error())
	}
}

// suspend suspends an account that has no valid token. Coder requires that it is not an owner.
func (p *pass) suspend(ctx context.Context, s *session, user coderd.User) error {
	api := s.client
	tokens, err := api.TokensOf(ctx, user.Username)
	valid := func(t coderd.TokenInfo) bool { return !t.Expired }
	if err != nil || slices.ContainsFunc(tokens, valid) {
		return err
	}
	if err := api.SetRoles(ctx, user.Username, nil); err != nil {
		return err
	}
	if err := api.SetSuspended(ctx, user, true); err != nil {
		return err
	}
	p.result.Events.Normal(coderv1alpha1.ReasonAccountSuspended,
		fmt.Sprintf("suspended user %q in Coder, an operator's account that an earlier control plane left behind", user.Username))
	return nil
}

// loginFailure turns a refused login into an error that says how to fix it.
func (p *pass) loginFailure(creds *account, err error) error {
	name := CredentialsSecretName(p.cp)
	switch {
	case coderd.IsUnauthorized(err):
		return ensure.Fails(coderv1alpha1.ReasonCredentialsRefused, retryFailed,
			"Coder does not accept the password of the operator's user %q: the account was changed, suspended or deleted, or the database was "+
				"restored. Set its password in Coder to the one in Secret %q, or delete that Secret, and the operator creates a new account",
			creds.username, name)
	case coderd.IsForbidden(err):
		return ensure.Fails(coderv1alpha1.ReasonCredentialsRefused, retryFailed,
			"Coder does not let the operator's user %q log in with a password (%v); allow it (CODER_DISABLE_PASSWORD_AUTH=false in spec.extraEnv), "+
				"or give the operator a token in spec.operatorAccess.tokenSecretRef", creds.username, err)
	default:
		return answered(coderv1alpha1.ReasonCredentialsRefused, err)
	}
}
