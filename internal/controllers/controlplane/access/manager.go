package access

import (
	"context"
	"crypto/rand"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
)

const (
	// trust is how long the verification of a token is cached.
	trust = time.Minute
	// recheck is the longest interval at which a working token is checked again.
	recheck = time.Hour

	soon           = 5 * time.Second
	retryFailed    = time.Minute
	retrySecret    = 30 * time.Second
	lifetimeWanted = 7 * 24 * time.Hour
	// warnBefore is the longest time before its expiry at which a given token is reported as
	// expiring.
	warnBefore = 14 * 24 * time.Hour
)

// Manager manages the operator's access to Coder. All fields except Random are required. One Manager
// serves all control planes and is safe for concurrent use with different control planes.
type Manager struct {
	// Client reads Secrets and Jobs by name, uncached, lists the pods of a failed Job and the
	// Secrets of a control plane, and writes.
	Client client.Client
	// Clock is used to evaluate expiry.
	Clock clock.PassiveClock
	// Random returns an unguessable string for passwords, 16 to 64 characters long. Nil means
	// crypto/rand.
	Random func() (string, error)
	// NewClient creates a client for Coder.
	NewClient func(coderd.Config) (*coderd.Client, error)

	verified ensure.Cache[types.UID, verification]
}

// verification is Coder's response about a token.
type verification struct {
	user coderd.User
	// life describes a token from spec.operatorAccess.tokenSecretRef. It is zero if Coder does not
	// return it.
	life coderd.TokenInfo
}

// Request is one control plane for which Manager obtains access.
type Request struct {
	ControlPlane *coderv1alpha1.CoderControlPlane
	// URL is the address at which the operator reaches coderd.
	URL string
	// DatabaseURL describes where a user finds the connection URL of Coder's database.
	DatabaseURL string
	// Quarantined reports that the objects of Coder cannot be read. When it changes, the token is verified again.
	Quarantined bool
	// AdminJob builds the Job that runs `coder server create-admin-user` with the credentials of
	// the named Secret. Manager adds the owner and the generation.
	AdminJob func(credentialsSecret string) *batchv1.Job
}

// Ensure reconciles the access with the spec. It is level-triggered: it can be called at any time
// and any number of times. A returned error comes from the Kubernetes API and is to be retried with
// backoff; everything else is in the Result.
func (m *Manager) Ensure(ctx context.Context, req Request) (Result, error) {
	p := m.newPass(req)
	var err error
	switch access := p.cp.Spec.OperatorAccess; {
	case access.Disabled:
		if err = p.withdraw(ctx); err == nil {
			p.result.Ready(coderv1alpha1.ReasonDisabled, "spec.operatorAccess.disabled is set; the operator holds no token and no credentials")
		}
	case access.TokenSecretRef != nil:
		err = p.given(ctx, *access.TokenSecretRef)
	default:
		err = p.own(ctx)
	}
	err = p.result.Finish(err)
	return p.result, err
}

// Forget drops the cached verification of a control plane's token, so that the next Ensure asks
// Coder. Callers that receive a 401 call it.
func (m *Manager) Forget(controlPlane types.UID) { m.verified.Forget(controlPlane) }

// pass is one call of Ensure or Revoke.
type pass struct {
	*Manager
	cp     *coderv1alpha1.CoderControlPlane
	req    Request
	result Result
	// secrets reads and writes the Secrets of the control plane.
	secrets ensure.Secrets
	// swept counts the tokens that this pass deleted in Coder.
	swept int
}

func (m *Manager) newPass(req Request) *pass {
	return &pass{Manager: m, cp: req.ControlPlane, req: req, secrets: ensure.Secrets{
		Client: m.Client, Owner: req.ControlPlane, Kind: "CoderControlPlane", Noun: "control plane",
		Labels: coderv1alpha1.ControlPlaneLabels(req.ControlPlane.Name),
	}}
}

// connect returns a client for this control plane's Coder. The token may be empty.
func (p *pass) connect(token string) (*coderd.Client, error) {
	c, err := p.NewClient(coderd.Config{URL: p.req.URL, Token: token})
	return c, answered(coderv1alpha1.ReasonUnreachable, err)
}

func (m *Manager) random() (string, error) {
	if m.Random == nil {
		return rand.Text(), nil
	}
	return m.Random()
}

// Result is the result of a pass.
type Result struct {
	ensure.Result
	// TokenRef is the token to use. It is kept while Coder does not respond and while only the
	// initial admin is missing. It is nil if there is no token or Coder refuses it.
	TokenRef *coderv1alpha1.TokenSecretReference
	// ExpiresAt is the time when that token expires, if known.
	ExpiresAt *time.Time
}

// answered maps the error of a request: an outage or a rate limit becomes Waiting, a refusal becomes
// Failed with the given reason.
func answered(reason string, err error) error {
	return ensure.Answers{
		Unreachable: ensure.Answer{Reason: coderv1alpha1.ReasonUnreachable, After: soon},
		RateLimited: ensure.Fewer(coderv1alpha1.ReasonWaiting, soon, soon),
		Other:       ensure.Answer{Reason: reason, After: retryFailed},
	}.Stop(err)
}
