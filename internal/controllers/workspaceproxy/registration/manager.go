package registration

import (
	"cmp"
	"context"
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/outcome"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/ownsecret"
)

const (
	// recheck is the interval between checks of a working registration.
	recheck = time.Hour
	// recheckUnhealthy is how long a check is cached while pods are not ready, because the token
	// may be the reason.
	recheckUnhealthy = time.Minute
	// formerLimit is the time after which the removal of a former registration is given up.
	formerLimit = time.Hour
	// requestTimeout is the timeout of one request to Coder.
	requestTimeout = 10 * time.Second
)

// Manager registers workspace proxies. Client and Reader are required. The zero value of every
// other field is valid. One Manager serves all proxies. It is safe for concurrent use with
// different proxies.
type Manager struct {
	// Client reads Secrets without a cache, and the proxy before it is created in Coder. It also
	// writes Secrets.
	Client client.Client
	// Reader reads control planes and workspace proxies. It may be a cache.
	Reader client.Reader
	// Clock provides the time. Nil means the real time.
	Clock clock.PassiveClock
	// NewClient creates a client for a Coder. Nil means coderd.New.
	NewClient func(coderd.Config) (*coderd.Client, error)
	// Observe is called for each request to Coder. It may be nil.
	Observe func(coderd.Call)
	// Refused is called when Coder rejects the operator's token of a control plane, so that the
	// control plane is reconciled immediately. It must return quickly. It may be nil.
	Refused func(controlPlane types.NamespacedName)
	// UserAgent is the user agent of the requests to Coder.
	UserAgent string

	mu       sync.Mutex
	verified map[types.UID]verification
}

// verification is the cached result of a check: the registration was as the spec asks for, or could
// not be verified.
type verification struct {
	subject    [sha256.Size]byte
	at         time.Time
	unverified *outcome.Stop
}

// Request describes the workspace proxy to register.
type Request struct {
	Proxy *coderv1alpha1.CoderWorkspaceProxy
	// AccessURL is the access URL of the Coder that the spec names, or empty if it is unknown. It
	// is stored with the token.
	AccessURL string
	// Healthy reports whether all pods are ready, which shows that Coder accepts their token.
	Healthy bool
}

// Ensure makes the registration match the spec. It is level-triggered: it can be called at any
// time, any number of times. A returned error comes from Kubernetes and is retried with backoff.
// All other failures are in the Result.
func (m *Manager) Ensure(ctx context.Context, req Request) (Result, error) {
	p := m.newPass(req)
	return p.finish(p.ensure(ctx))
}

// Remove removes every registration that the operator created for this proxy. While Coder does not
// answer, the State of the Result is Waiting or Failed, and LeftBehind names what remains. The
// caller decides for how long to retry. The State is Ready when everything that can be removed is
// removed. LeftBehind then names what cannot be removed.
func (m *Manager) Remove(ctx context.Context, req Request) (Result, error) {
	m.Forget(req.Proxy.UID)
	p := m.newPass(req)
	return p.finish(p.remove(ctx))
}

// Forget drops the cached check of a proxy, so that the next Ensure asks Coder.
func (m *Manager) Forget(proxy types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.verified, proxy)
}

// pass is the state of one call of Ensure or Remove.
type pass struct {
	*Manager
	proxy  *coderv1alpha1.CoderWorkspaceProxy
	req    Request
	result Result
	// secrets reads and writes the Secrets of the proxy.
	secrets ownsecret.Secrets
	// foreign is a Secret of another owner that has the name of the Secret with the token, or nil.
	foreign *corev1.Secret
}

func (m *Manager) newPass(req Request) *pass {
	return &pass{Manager: m, proxy: req.Proxy, req: req, secrets: ownsecret.Secrets{
		Client: m.Client, Owner: req.Proxy, Kind: "CoderWorkspaceProxy", Noun: "workspace proxy", Labels: resources.WorkspaceProxyLabels(req.Proxy),
	}}
}

// finish returns the Result of a pass that may have been stopped.
func (p *pass) finish(err error) (Result, error) {
	s, err := outcome.End(err)
	if s != nil {
		p.result.State, p.result.Reason, p.result.Message, p.result.RequeueAfter = s.State, s.Reason, s.Message, s.After
	}
	return p.result, err
}

func (p *pass) ensure(ctx context.Context) error {
	records, err := p.load(ctx)
	if err != nil {
		return err
	}
	if ref := p.proxy.Spec.ProxySessionTokenSecretRef; ref != nil {
		return p.given(ctx, *ref, records)
	}
	p.result.ProxyID, p.result.ProxyName = p.proxy.Status.ProxyID, p.proxy.Status.ProxyName
	kept, err := p.settle(ctx, records)
	if err != nil {
		return err
	}
	return p.register(ctx, kept)
}

// use copies a record to the result.
func (p *pass) use(r *record) {
	p.result.ProxyID, p.result.ProxyName = r.ID, ""
	if r.ID != "" {
		p.result.ProxyName = r.Name
	}
	p.result.TokenRef, p.result.AccessURL = nil, ""
	if r.token == "" || r.secret == nil {
		return
	}
	p.result.TokenRef = &coderv1alpha1.TokenSecretReference{Name: r.secret.Name, Key: coderv1alpha1.SecretKeyToken}
	p.result.AccessURL = r.accessURL
	if p.isWanted(r) {
		p.result.AccessURL = cmp.Or(p.req.AccessURL, r.accessURL)
	}
}

// isWanted reports whether the token of a record is for the Coder that the spec names.
func (p *pass) isWanted(r *record) bool {
	wanted := p.completed(registration{})
	id, ok := coderd.ProxyOfToken(r.token)
	return ok && id.String() == r.ID && r.Through == wanted.Through &&
		(wanted.URL == "" || strings.TrimSuffix(wanted.URL, "/") == r.URL)
}

func (p *pass) registered(is bool) { p.result.Registered = ptr.To(is) }

// subject returns a hash of everything on which a verification depends.
func subject(parts ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}

// believed returns the cached check, and reports whether it is still valid.
func (p *pass) believed(what [sha256.Size]byte) (verification, bool) {
	age := recheckUnhealthy
	if p.req.Healthy {
		age = recheck
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.verified[p.proxy.UID]
	return v, ok && v.subject == what && p.now().Before(v.at.Add(age))
}

// believe caches the result of a check.
func (p *pass) believe(what [sha256.Size]byte, unverified *outcome.Stop) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.verified == nil {
		p.verified = map[types.UID]verification{}
	}
	p.verified[p.proxy.UID] = verification{subject: what, at: p.now(), unverified: unverified}
}

// untilRecheck returns the time until the next check of a working registration.
func (p *pass) untilRecheck() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v, ok := p.verified[p.proxy.UID]; ok {
		return max(v.at.Add(recheck).Sub(p.now()), time.Second)
	}
	return recheck
}

func (m *Manager) now() time.Time {
	if m.Clock == nil {
		return clock.RealClock{}.Now()
	}
	return m.Clock.Now()
}

func (m *Manager) timestamp() string { return m.now().UTC().Format(time.RFC3339) }
