package registration

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

const (
	// recheck is the interval between checks of a working registration.
	recheck = time.Hour
	// recheckUnhealthy is how long a check is cached while pods are not ready, because the token
	// may be the reason.
	recheckUnhealthy = time.Minute
	// requestTimeout is the timeout of one request to Coder.
	requestTimeout = 10 * time.Second

	retrySoon    = 5 * time.Second
	retryAnswer  = 15 * time.Second
	retryFailed  = time.Minute
	retryLicense = 5 * time.Minute
)

// Unverified is the state of a pass with a token that could not be checked, because the access URL
// does not answer the operator. The pods may still reach it.
const Unverified ensure.State = "Unverified"

// Manager registers workspace proxies. All fields are required. One Manager serves all proxies. It is
// safe for concurrent use with different proxies.
type Manager struct {
	// Client reads Secrets without a cache, and the proxy before it is created in Coder. It also
	// writes Secrets.
	Client client.Client
	// Reader reads control planes and workspace proxies. It may be a cache.
	Reader client.Reader
	Clock  clock.PassiveClock
	// NewClient creates a client for a Coder.
	NewClient func(coderd.Config) (*coderd.Client, error)
	// Refused is called when Coder rejects the operator's token of a control plane, so that the
	// control plane is reconciled immediately. It must return quickly.
	Refused func(controlPlane types.NamespacedName)

	// verified holds the checks. A Stop means that the registration could not be verified, and nil
	// that it was as the spec asks for.
	verified ensure.Cache[types.UID, *ensure.Stop]
}

// Request describes the workspace proxy to register.
type Request struct {
	Proxy *coderv1alpha1.CoderWorkspaceProxy
	// AccessURL is the access URL of the Coder that the spec names, or empty if it is unknown.
	AccessURL string
	// Healthy reports whether all pods are ready, which shows that Coder accepts their token.
	Healthy bool
}

// Ensure makes the registration match the spec. It is level-triggered: it can be called at any
// time, any number of times. A returned error comes from Kubernetes and is retried with backoff.
// All other failures are in the Result.
func (m *Manager) Ensure(ctx context.Context, req Request) (Result, error) {
	p := m.newPass(req)
	err := p.result.Finish(p.ensure(ctx))
	return p.result, err
}

// Remove removes the registration that the operator created for this proxy. While Coder does not
// answer, the State of the Result is Waiting or Failed, and LeftBehind describes what remains. The
// caller decides for how long to retry. The State is Ready when the registration is removed or cannot
// be removed. LeftBehind is then set if it cannot.
func (m *Manager) Remove(ctx context.Context, req Request) (Result, error) {
	m.Forget(req.Proxy.UID)
	p := m.newPass(req)
	err := p.result.Finish(p.remove(ctx))
	return p.result, err
}

// Forget drops the cached check of a proxy, so that the next Ensure asks Coder.
func (m *Manager) Forget(proxy types.UID) { m.verified.Forget(proxy) }

// pass is the state of one call of Ensure or Remove.
type pass struct {
	*Manager
	proxy  *coderv1alpha1.CoderWorkspaceProxy
	req    Request
	result Result
	// secrets reads and writes the Secrets of the proxy.
	secrets ensure.Secrets
	// checked is the check on which the result is based.
	checked ensure.Entry[*ensure.Stop]
}

func (m *Manager) newPass(req Request) *pass {
	return &pass{Manager: m, proxy: req.Proxy, req: req, secrets: ensure.Secrets{
		Client: m.Client, Owner: req.Proxy, Kind: "CoderWorkspaceProxy", Noun: "workspace proxy", Labels: resources.WorkspaceProxyLabels(req.Proxy),
	}}
}

func (p *pass) ensure(ctx context.Context) error {
	if ref := p.proxy.Spec.ProxySessionTokenSecretRef; ref != nil {
		return p.given(ctx, *ref)
	}
	p.result.ProxyID, p.result.ProxyName = p.proxy.Status.ProxyID, p.proxy.Status.ProxyName
	secret, err := p.secrets.Get(ctx, resources.ProxyTokenSecretName(p.proxy))
	if err != nil {
		return err
	}
	if secret != nil && !p.secrets.Mine(secret) {
		p.result.SecretForeign = true
		return p.secrets.Taken("Secret", secret, retryFailed, "give another name in spec.bootstrap.generatedTokenSecretName (not possible once the proxy was registered)")
	}
	kept := readRecord(secret)
	p.use(kept)
	t, err := p.target(ctx, false)
	if err != nil {
		return err
	}
	if !p.recall(p.digest(t, kept)) {
		if err := p.verify(ctx, t, kept); err != nil {
			ref, stop := p.proxy.Spec.ControlPlaneRef, ensure.Stopped(err)
			if ref == nil || stop == nil || stop.Reason != coderv1alpha1.ReasonTokenRefused {
				return err
			}
			// The operator's token for a control plane is replaced automatically.
			return ensure.Waits(stop.Reason, stop.After, "waiting until the operator has a new token for CoderControlPlane %q: %s", ref.Name, stop.Message)
		}
	}
	p.registered(true)
	p.result.Ready(coderv1alpha1.ReasonRegistered, fmt.Sprintf("Coder at %s has the proxy %q registered and accepts its token", t.url, kept.name))
	p.result.RequeueAfter = p.untilRecheck()
	return nil
}

// use sets the parts of the Result that a record contains. A record that has only a name is about a
// new registration.
func (p *pass) use(r *record) {
	switch {
	case r.id != "":
		p.result.ProxyID, p.result.ProxyName = r.id, r.name
	case r.name != "":
		p.result.ProxyID = ""
	}
	p.result.TokenRef, p.result.TokenVersion = nil, ""
	if r.token == "" || r.secret == nil {
		return
	}
	p.result.TokenRef = &coderv1alpha1.TokenSecretReference{Name: r.secret.Name, Key: coderv1alpha1.SecretKeyToken}
	p.result.TokenVersion = r.secret.ResourceVersion
}

func (p *pass) registered(is bool) { p.result.Registered = ptr.To(is) }

func (p *pass) recall(about ensure.Digest) bool {
	known, ok := p.verified.Get(p.proxy.UID, about, p.Clock.Now())
	if !ok || !p.req.Healthy && !p.Clock.Now().Before(known.At.Add(recheckUnhealthy)) {
		return false
	}
	p.checked = known
	return true
}

func (p *pass) remember(about ensure.Digest, unverified *ensure.Stop) {
	now := p.Clock.Now()
	p.checked = ensure.Entry[*ensure.Stop]{Value: unverified, Digest: about, At: now, Until: now.Add(recheck)}
	p.verified.Put(p.proxy.UID, p.checked)
}

func (p *pass) untilRecheck() time.Duration {
	return max(p.checked.Until.Sub(p.Clock.Now()), time.Second)
}

// Result is the result of a pass.
type Result struct {
	ensure.Result
	// TokenRef is the location of the session token for the pods. It is kept while Coder does not
	// answer, and is nil if there is no token.
	TokenRef *coderv1alpha1.TokenSecretReference
	// TokenVersion is the resource version of that Secret, if the operator created it.
	TokenVersion string
	// ProxyID and ProxyName identify the registration, as far as it is known. ProxyName is set before
	// the proxy is created.
	ProxyID, ProxyName string
	// Registered reports whether the proxy is registered in Coder and Coder accepts the token. Nil
	// means that this pass did not find out.
	Registered *bool
	// SecretForeign reports that the Secret for the token belongs to another owner.
	SecretForeign bool
	// LeftBehind describes the registration if Remove could not remove it.
	LeftBehind string
}

// answers maps the errors of requests to Coder.
var answers = ensure.Answers{
	NotSupported: ensure.Answer{
		Reason: coderv1alpha1.ReasonNotSupported, After: retryLicense,
		Format: "this Coder does not support workspace proxies: it is the AGPL build, or too old; use Coder's official image (%s)",
	},
	Unreachable: ensure.Answer{Reason: coderv1alpha1.ReasonUnreachable, After: retryAnswer},
	RateLimited: ensure.Fewer(coderv1alpha1.ReasonRateLimited, retrySoon, retrySoon),
	NotEntitled: ensure.Answer{
		Reason: coderv1alpha1.ReasonNotEntitled, After: retryLicense,
		Format: "no license of Coder allows workspace proxies; add a license that includes them (%s)",
	},
	Unauthorized: ensure.Answer{
		Reason: coderv1alpha1.ReasonTokenRefused, After: retryFailed,
		Format: "Coder does not accept the token that the operator uses to register the proxy (%s)",
	},
	Forbidden: ensure.Answer{
		Reason: coderv1alpha1.ReasonForbidden, After: retryFailed,
		Format: "the token that the operator uses to register the proxy does not belong to a user with the role owner (%s)",
	},
	Other: ensure.Answer{Reason: coderv1alpha1.ReasonCoderRefused, After: retryFailed},
}

func answered(err error) error {
	if coderd.IsRestricted(err) {
		return ensure.Fails(coderv1alpha1.ReasonInvalidSpec, retryFailed, "%v", err)
	}
	err = answers.Stop(err)
	if stop := ensure.Stopped(err); stop != nil {
		stop.Message = Stable(stop.Message)
	}
	return err
}

// ownAddress matches the local address of a connection, which differs each time.
var ownAddress = regexp.MustCompile(`\S+:\d+->`)

// Stable returns the text of a connection error without parts that differ each time.
func Stable(text string) string { return ownAddress.ReplaceAllString(text, "") }
