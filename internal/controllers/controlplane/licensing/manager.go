package licensing

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
)

const (
	// DefaultRest is how long responses of Coder are cached.
	DefaultRest = time.Hour
	// spread is how long what the licenses allow is cached after a change: another replica of Coder, which may
	// have answered, knows of the change some seconds later.
	spread = time.Minute

	soon             = 5 * time.Second
	retryUnreachable = 15 * time.Second
	retryFailed      = time.Minute
)

// None is the state of a pass if no license is requested and none of the operator's licenses is left.
const None ensure.State = ""

const mustOwn = "Coder does not let the operator manage licenses; its account needs the role owner: %s"

// answers maps the errors of requests about licenses.
var answers = ensure.Answers{
	Unreachable:  ensure.Answer{Reason: coderv1alpha1.ReasonError, After: retryUnreachable},
	RateLimited:  ensure.Fewer(coderv1alpha1.ReasonPending, soon, soon),
	Unauthorized: ensure.Answer{Reason: coderv1alpha1.ReasonForbidden, After: retryFailed, Format: mustOwn},
	Forbidden:    ensure.Answer{Reason: coderv1alpha1.ReasonForbidden, After: retryFailed, Format: mustOwn},
	Other:        ensure.Answer{Reason: coderv1alpha1.ReasonError, After: retryFailed},
}

// Manager reconciles licenses. Clock is required. One Manager serves all control planes and is safe
// for concurrent use with different control planes.
type Manager struct {
	// Clock is used to evaluate expiry.
	Clock clock.PassiveClock

	// held is about the requested license in Coder.
	held         ensure.Cache[string, verdict]
	entitlements ensure.Cache[string, Allowance]
}

// Request is one control plane whose license is reconciled.
type Request struct {
	// Key identifies the control plane.
	Key string
	// Instance changes when a different Coder responds, for example one of another version.
	// Responses of the previous one are then no longer used.
	Instance string
	// License is the text of the requested license. Empty means that no license is requested.
	License string
	// Unread reports that a license is requested but its text could not be read. Then nothing is
	// added or removed.
	Unread bool
	// Own is the Result.Own that was recorded last.
	Own []string
	// Record stores Own before a license is uploaded to Coder.
	Record func(ctx context.Context, own []string) error
	// Connect returns a client for Coder with the token of an owner. It is called only if no cached response can be used.
	Connect func(ctx context.Context) (*coderd.Client, error)
}

// Allowance is what the licenses of a Coder allow, in the values of the API.
type Allowance struct {
	// Tier is none, trial, enterprise, premium or unknown.
	Tier string
	// ExternalProvisioners, WorkspaceProxy and HighAvailability are entitled,
	// grace_period, not_entitled or unknown.
	ExternalProvisioners string
	WorkspaceProxy       string
	HighAvailability     string
}

// Result is the result of a pass. The Reason is empty with None.
type Result struct {
	ensure.Result
	// Own are the identities, to be recorded, of the licenses that the operator added or is about
	// to add.
	Own []string
	// Applied reports that this pass uploaded the license to Coder.
	Applied bool
	// AppliedAt is when the requested license was uploaded to Coder, and Hash the SHA-256 of its
	// text. They are empty if Coder does not have the license.
	AppliedAt *time.Time
	Hash      string
	// ExpiresAt is when the requested license expires, whether Coder has it or not.
	ExpiresAt *time.Time
	// Allowance is what the licenses allow. It is nil if Coder did not return it; AllowanceErr is
	// then the reason.
	Allowance    *Allowance
	AllowanceErr error
}

// Ensure reconciles the license with the request. It is level-triggered: it can be called at any
// time and any number of times. A returned error comes from Record or Connect and is to be retried
// with backoff; everything else is in the Result.
func (m *Manager) Ensure(ctx context.Context, req Request) (Result, error) {
	p := &pass{Manager: m, req: req, now: m.Clock.Now(), own: slices.Clone(req.Own)}
	p.result.RequeueAfter = DefaultRest
	stop, err := p.ensureHeld(ctx)
	if err == nil {
		err = p.readEntitlements(ctx)
		if stop != nil {
			err = stop
		}
	}
	p.result.Own = p.own
	rest := p.result.RequeueAfter
	err = p.result.Finish(err)
	p.result.RequeueAfter = ensure.Sooner(rest, p.result.RequeueAfter)
	p.result.Message = p.silenced(p.result.Message)
	for i := range p.result.Events {
		p.result.Events[i].Message = p.silenced(p.result.Events[i].Message)
	}
	return p.result, err
}

// Forget drops the cached responses for a control plane.
func (m *Manager) Forget(key string) {
	m.held.Forget(key)
	m.entitlements.Forget(key)
}

// pass is one call of Ensure.
type pass struct {
	*Manager
	req    Request
	now    time.Time
	result Result

	// text and claims describe the requested license.
	text   string
	claims coderd.LicenseClaims
	// own is the record after the changes of this pass.
	own []string
	// changed reports that this pass asked Coder to add or remove a license.
	changed bool
	// connected is the client for Coder. It is nil until the first call.
	connected *coderd.Client
}

func (p *pass) coder(ctx context.Context) (*coderd.Client, error) {
	if p.connected == nil {
		connected, err := p.req.Connect(ctx)
		if err != nil {
			return nil, err
		}
		p.connected = connected
	}
	return p.connected, nil
}

// silenced removes the text of the license from a message.
func (p *pass) silenced(said string) string {
	if p.text == "" {
		return said
	}
	return strings.ReplaceAll(said, p.text, "<license>")
}

func (p *pass) requeue(after time.Duration) {
	p.result.RequeueAfter = ensure.Sooner(p.result.RequeueAfter, after)
}

// readEntitlements reads what the licenses allow. If Coder does not return that, the state of the
// license does not change, and the next attempt follows soon.
func (p *pass) readEntitlements(ctx context.Context) error {
	about := ensure.DigestOf(p.req.Instance)
	if known, ok := p.entitlements.Get(p.req.Key, about, p.now); ok {
		p.result.Allowance = &known.Value
		p.wake(known.Until)
		return nil
	}
	coder, err := p.coder(ctx)
	if err != nil {
		return err
	}
	var allowance Allowance
	answer, err := coder.Entitlements(ctx)
	switch {
	case coderd.IsNotSupported(err):
		none := string(coderd.NotEntitled)
		allowance = Allowance{Tier: string(coderd.TierNone), ExternalProvisioners: none, WorkspaceProxy: none, HighAvailability: none}
	case err != nil:
		p.result.AllowanceErr = err
		after := retryUnreachable
		if asked := coderd.RetryAfter(err); asked > 0 {
			after = max(asked, soon)
		}
		p.requeue(after)
		return nil
	default:
		allowance = Allowance{
			Tier:                 string(answer.Tier()),
			ExternalProvisioners: entitlement(answer.Of(coderd.FeatureExternalProvisioners)),
			WorkspaceProxy:       entitlement(answer.Of(coderd.FeatureWorkspaceProxy)),
			HighAvailability:     entitlement(answer.Of(coderd.FeatureHighAvailability)),
		}
	}
	p.result.Allowance = &allowance
	if p.changed {
		p.requeue(spread)
	}
	p.entitlements.Put(p.req.Key, ensure.Entry[Allowance]{Value: allowance, Digest: about, Until: p.now.Add(p.result.RequeueAfter)})
	return nil
}

// entitlement maps values that the API does not define, for example of a newer Coder, to unknown.
func entitlement(e coderd.Entitlement) string {
	known := []coderd.Entitlement{coderd.Entitled, coderd.GracePeriod, coderd.NotEntitled}
	if !slices.Contains(known, e) {
		e = coderd.EntitlementUnknown
	}
	return string(e)
}
