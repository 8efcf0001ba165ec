package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/outcome"
	"github.com/coder-k8s/coder-k8s/internal/kube/ownsecret"
)

const (
	// defaultTrust is how long a verified token is believed.
	defaultTrust = time.Minute
	// defaultRecheck is when a token that works is looked at again.
	defaultRecheck = time.Hour
)

// Manager gives the operator access to Coder. Client is required; the zero value
// of every other field works. One Manager serves all control planes, and is safe
// for concurrent use for different ones.
type Manager struct {
	// Client reads Secrets and Jobs by name, uncached, lists the pods of a Job
	// that failed, and writes.
	Client client.Client
	// Clock decides about expiry. Nil means the real one.
	Clock clock.PassiveClock
	// Random gives a text that nobody can guess, for passwords: 16 to 64
	// characters. Nil means crypto/rand.
	Random func() (string, error)
	// NewClient connects to Coder. Nil means coderd.New.
	NewClient func(coderd.Config) (*coderd.Client, error)
	// Trust is how long a verified token is believed without asking Coder again.
	// 0 means a minute.
	Trust time.Duration
	// Recheck bounds the time until a token that works is looked at again. 0
	// means an hour.
	Recheck time.Duration

	mu       sync.Mutex
	verified map[types.UID]verification
}

// verification says that Coder accepted a token.
type verification struct {
	subject [sha256.Size]byte
	user    coderd.User
	// life is that of a token of spec.operatorAccess.tokenSecretRef. It is zero if
	// Coder does not tell it.
	life  coderd.TokenInfo
	until time.Time
}

// Request is one control plane to get access to.
type Request struct {
	ControlPlane *coderv1alpha1.CoderControlPlane
	// URL is where the operator itself reaches coderd.
	URL string
	// AdminJob builds the Job that runs `coder server create-admin-user` with the
	// credentials of the named Secret. Owner and generation are added here. It
	// may be nil where no Job can be made.
	AdminJob func(credentialsSecret string) *batchv1.Job
}

// Ensure makes the access what the spec asks for. It is level-triggered: it can
// be called at any time, any number of times. An error is one of Kubernetes, to
// be tried again with backoff; everything else is in the Result.
func (m *Manager) Ensure(ctx context.Context, req Request) (Result, error) {
	p := m.newPass(req)
	err := p.ensure(ctx)
	return p.finish(err)
}

// Forget drops what is believed about the token of a control plane, so that the
// next Ensure asks Coder. Whoever sees a 401 calls it.
func (m *Manager) Forget(controlPlane types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.verified, controlPlane)
}

// pass is one call of Ensure or Revoke.
type pass struct {
	*Manager
	cp     *coderv1alpha1.CoderControlPlane
	req    Request
	result Result
	// secrets are those of the control plane.
	secrets ownsecret.Secrets
	// swept counts the tokens that were deleted in Coder.
	swept int
}

func (m *Manager) newPass(req Request) *pass {
	return &pass{Manager: m, cp: req.ControlPlane, req: req, secrets: m.secretsOf(req.ControlPlane)}
}

// finish makes a Result of a pass that may have been stopped.
func (p *pass) finish(err error) (Result, error) {
	s, err := outcome.End(err)
	if s != nil {
		p.result.State, p.result.Reason, p.result.Message, p.result.RequeueAfter = s.State, s.Reason, s.Message, s.After
	}
	return p.result, err
}

func (p *pass) ensure(ctx context.Context) error {
	access := p.cp.Spec.OperatorAccess
	switch {
	case access.Disabled:
		return p.disabled(ctx)
	case access.TokenSecretRef != nil:
		return p.given(ctx, *access.TokenSecretRef)
	default:
		return p.own(ctx)
	}
}

func (p *pass) ready(reason, message string) {
	p.result.State, p.result.Reason, p.result.Message = Ready, reason, message
}

// connect makes a client of this control plane's Coder. The token may be empty.
func (p *pass) connect(token string) (*coderd.Client, error) {
	connect := p.NewClient
	if connect == nil {
		connect = coderd.New
	}
	c, err := connect(coderd.Config{URL: p.req.URL, Token: token})
	return c, answered(coderv1alpha1.ReasonUnreachable, err)
}

// believed returns what Coder said a moment ago about a token that it accepts.
func (m *Manager) believed(controlPlane types.UID, subject [sha256.Size]byte) (verification, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.verified[controlPlane]
	return v, ok && v.subject == subject && m.now().Before(v.until)
}

func (m *Manager) believe(controlPlane types.UID, v verification) {
	trust := m.Trust
	if trust == 0 {
		trust = defaultTrust
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.verified == nil {
		m.verified = map[types.UID]verification{}
	}
	v.until = m.now().Add(trust)
	m.verified[controlPlane] = v
}

func (m *Manager) now() time.Time {
	if m.Clock == nil {
		return clock.RealClock{}.Now()
	}
	return m.Clock.Now()
}

func (m *Manager) random() (string, error) {
	if m.Random == nil {
		return rand.Text(), nil
	}
	return m.Random()
}
