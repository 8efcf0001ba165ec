package keys

import (
	"context"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

const (
	// trust is how long an answer about a valid key is cached.
	trust = time.Hour
	// retryFailed is the interval after a rejected request, and retrySoon the one after an outage.
	retryFailed = 5 * time.Minute
	retrySoon   = 15 * time.Second
)

// Manager manages the keys of all provisioners. All fields are required. It is safe for concurrent use
// with different provisioners.
type Manager struct {
	// Client reads Secrets and provisioners by name, without a cache, and writes Secrets.
	Client client.Client
	// Connect returns a client for the Coder of a control plane with the operator's token. It
	// returns ensure.Unavailable if Coder cannot be called.
	Connect func(ctx context.Context, cp *coderv1alpha1.CoderControlPlane) (*coderd.Client, error)
	Clock   clock.PassiveClock

	// heard holds the results, and quiet the times before which Coder wants no further request.
	heard ensure.Cache[types.UID, Result]
	quiet ensure.Cache[types.UID, struct{}]
}

// Request describes the provisioner whose key is managed.
type Request struct {
	Provisioner *coderv1alpha1.CoderProvisioner
	// ControlPlane is the control plane of its spec, or nil if it does not exist.
	ControlPlane *coderv1alpha1.CoderControlPlane
	// Usage returns the keys that pods use. It is called only if the result is needed.
	Usage func(ctx context.Context) (Usage, error)
	// Refused is the reason why no key may be created and Coder may not be called, or nil.
	Refused *ensure.Stop
	// MaxAge limits the age of a cached answer about a valid key if it is not 0.
	MaxAge time.Duration
}

// Usage describes which keys pods use.
type Usage struct {
	// KeyIDs are the ids of the keys of all pods that have not ended. It contains "" for a pod
	// without a key.
	KeyIDs []string
	// Settled reports that no pod of an earlier revision can still be created.
	Settled bool
}

// The types of the conditions in a Result.
const (
	typeEntitled = coderv1alpha1.ConditionExternalProvisionersEntitled
	typeKey      = coderv1alpha1.ConditionProvisionerKeyReady
	typeSecret   = coderv1alpha1.ConditionProvisionerKeySecretReady
)

// Result is the result of a pass. Its messages do not change from pass to pass, and contain no
// secret.
type Result struct {
	// ControlPlane is set if Coder cannot be called.
	ControlPlane *metav1.Condition
	// Entitled, Key and Secret have no status if they were not checked.
	Entitled, Key, Secret metav1.Condition
	// Record describes the key in the Secret, or is nil if there is none.
	Record *Record
	// SecretRef is the location of that key, or nil.
	SecretRef *coderv1alpha1.ProvisionerKeySecretReference
	// SecretVersion is the resource version of that Secret.
	SecretVersion string
	// OrganizationID and OrganizationName identify the organization of the spec, if Coder returned
	// it.
	OrganizationID, OrganizationName string
	// Claimed reports that a key is about to be created. It waits until the status says so.
	Claimed bool
	// Forgotten reports that the key in the status no longer exists.
	Forgotten bool
	// Stalled reports that a user must act.
	Stalled bool
	// RequeueAfter is when to run the next pass. 0 means that none is needed.
	RequeueAfter time.Duration
	// Left are the keys that could not be deleted.
	Left []Record
	// Events must be recorded whatever the result of the pass is, also if it returned an error.
	Events ensure.Events
}

// pass is the state of one call of the Manager.
type pass struct {
	*Manager
	req    Request
	cr     *coderv1alpha1.CoderProvisioner
	result Result
	// secrets reads and writes the Secrets of the provisioner.
	secrets ensure.Secrets
	// stored is the content of the Secret, or nil if there is none.
	stored *stored
}

func (m *Manager) newPass(req Request) *pass {
	cr := req.Provisioner
	return &pass{Manager: m, req: req, cr: cr, secrets: ensure.Secrets{
		Client: m.Client, Owner: cr, Kind: "CoderProvisioner", Noun: "CoderProvisioner", Labels: resources.ProvisionerLabels(cr.Name),
	}}
}

// Forget drops the cached answer of Coder about a provisioner, so that the next pass asks again.
func (m *Manager) Forget(provisioner types.UID) {
	m.heard.Forget(provisioner)
	m.quiet.Forget(provisioner)
}

// answers maps the errors of Coder.
var answers = ensure.Answers{
	NotSupported: ensure.Answer{Reason: coderv1alpha1.ReasonNotSupported, After: trust},
	Unreachable:  ensure.Answer{Reason: coderv1alpha1.ReasonUnreachable, After: retrySoon},
	RateLimited:  ensure.Fewer(coderv1alpha1.ReasonRateLimited, retrySoon, time.Second),
	Unauthorized: ensure.Answer{Reason: coderv1alpha1.ReasonTokenRefused, After: 2 * retrySoon, Format: "Coder does not accept the operator's token: %s"},
	NotEntitled:  ensure.Answer{Reason: coderv1alpha1.ReasonNotEntitled, After: retryFailed},
	Forbidden:    ensure.Answer{Reason: coderv1alpha1.ReasonForbidden, After: retryFailed},
	Other:        ensure.Answer{Reason: coderv1alpha1.ReasonProvisionerKeyFailed, After: retryFailed},
}

// answered reports a failed request to Coder as the state of the key, and ends the pass. An error
// that does not come from Coder is returned unchanged.
func (p *pass) answered(err error) error {
	err = p.judge(err)
	why := ensure.Stopped(err)
	if why == nil {
		return err
	}
	key := framework.ConditionFalse(typeKey, why.Reason, why.Message)
	if why.Reason == coderv1alpha1.ReasonUnreachable && p.result.SecretRef != nil {
		key = framework.ConditionUnknown(typeKey, why.Reason, "the key in the Secret stays in use, but Coder could not confirm it: "+why.Message)
	}
	p.result.Stalled = slices.Contains([]string{
		coderv1alpha1.ReasonNotSupported, coderv1alpha1.ReasonNotEntitled, coderv1alpha1.ReasonForbidden,
	}, why.Reason)
	return p.stop(key, why.After)
}

// judge maps an error of Coder. If Coder asks for fewer requests, no further one is sent for that
// time.
func (p *pass) judge(err error) error {
	err = answers.Stop(err)
	if why := ensure.Stopped(err); why != nil && why.Reason == coderv1alpha1.ReasonRateLimited {
		p.quiet.Put(p.cr.UID, ensure.Entry[struct{}]{Until: p.Clock.Now().Add(why.After)})
	}
	return err
}

// silent returns an error if Coder asked for no further requests at this time.
func (p *pass) silent() error {
	now := p.Clock.Now()
	quiet, ok := p.quiet.Get(p.cr.UID, ensure.Digest{}, now)
	if !ok {
		return nil
	}
	return &coderd.Error{
		Op: "asking Coder", StatusCode: http.StatusTooManyRequests, RetryAfter: quiet.Until.Sub(now),
		Message: "the rate limit of Coder is exceeded",
	}
}

// refuse ends a pass with a problem that a user must fix.
func (p *pass) refuse(reason, message string) error {
	p.result.Stalled = true
	return p.stop(framework.ConditionFalse(typeKey, reason, message), retryFailed)
}

// unavailable ends a pass in which Coder cannot be called. The existing key stays in use.
func (p *pass) unavailable(why *ensure.Stop) error {
	p.Forget(p.cr.UID)
	p.result.ControlPlane = new(framework.ConditionFalse(coderv1alpha1.ConditionControlPlaneReady, why.Reason, why.Message))
	p.result.Entitled = framework.ConditionUnknown(typeEntitled, why.Reason, "Coder cannot be called: "+why.Message)
	key := framework.ConditionUnknown(typeKey, why.Reason, "no key can be created: "+why.Message)
	if p.result.SecretRef != nil {
		key.Message = "the key in the Secret stays in use, but it cannot be checked in Coder: " + why.Message
	}
	return p.stop(key, retryFailed)
}

// stop ends a pass with the state of the key.
func (p *pass) stop(key metav1.Condition, after time.Duration) error {
	p.result.Key, p.result.RequeueAfter = key, after
	return ensure.Fails(key.Reason, after, "%s", key.Message)
}
