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
	"github.com/coder-k8s/coder-k8s/internal/controllers/workspaceproxy/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/ownsecret"
)

const (
	// recheck is when to look again at a registration that works.
	recheck = time.Hour
	// recheckUnhealthy is how long the last look counts where the pods are not
	// ready: it may be because of the token.
	recheckUnhealthy = time.Minute
	// formerLimit is for how long it is tried to remove a former registration.
	formerLimit = time.Hour
	// requestTimeout bounds one request to Coder.
	requestTimeout = 10 * time.Second
)

// Manager registers workspace proxies. Client and Reader are required; the zero
// value of every other field works. One Manager serves all proxies, and is safe
// for concurrent use for different ones.
type Manager struct {
	// Client reads Secrets, and the proxy before it is created in Coder, uncached; it
	// writes Secrets.
	Client client.Client
	// Reader reads control planes and workspace proxies, from a cache if it has one.
	Reader client.Reader
	// Clock decides about waiting. Nil means the real one.
	Clock clock.PassiveClock
	// NewClient connects to Coder. Nil means coderd.New.
	NewClient func(coderd.Config) (*coderd.Client, error)
	// Observe is told of each request to Coder. It may be nil.
	Observe func(coderd.Call)
	// Refused is told that Coder refused the operator's token of a control plane, so
	// that its owner looks at it at once. It must be quick. It may be nil.
	Refused func(controlPlane types.NamespacedName)
	// UserAgent of the requests to Coder.
	UserAgent string

	mu       sync.Mutex
	verified map[types.UID]verification
}

// verification says that a registration was as the spec wants it, or that this
// could not be found out.
type verification struct {
	subject    [sha256.Size]byte
	at         time.Time
	unverified *outcome.Stop
}

// Request is one workspace proxy to register.
type Request struct {
	Proxy *coderv1alpha1.CoderWorkspaceProxy
	// AccessURL is the access URL of the Coder that the spec names, or empty where
	// that is not known. It is stored beside the token.
	AccessURL string
	// Healthy says that all pods are ready, so that the token cannot be refused.
	Healthy bool
}

// Ensure makes the registration what the spec asks for. It is level-triggered: it
// can be called at any time, any number of times. An error is one of Kubernetes,
// to be tried again with backoff; everything else is in the Result.
func (m *Manager) Ensure(ctx context.Context, req Request) (Result, error) {
	p := m.newPass(req)
	return p.finish(p.ensure(ctx))
}

// Remove removes every registration that the operator made for this proxy. While
// Coder gives no answer the Result is Waiting or Failed, and LeftBehind says what
// is there; the caller decides for how long to try. It is Ready once nothing is
// left that can be removed; then LeftBehind is what cannot.
func (m *Manager) Remove(ctx context.Context, req Request) (Result, error) {
	m.Forget(req.Proxy.UID)
	p := m.newPass(req)
	return p.finish(p.remove(ctx))
}

// Forget drops what is believed about a proxy, so that the next Ensure asks Coder.
func (m *Manager) Forget(proxy types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.verified, proxy)
}

// pass is one call of Ensure or Remove.
type pass struct {
	*Manager
	proxy  *coderv1alpha1.CoderWorkspaceProxy
	req    Request
	result Result
	// secrets are those of the proxy.
	secrets ownsecret.Secrets
	// foreign stands where the Secret with the token belongs.
	foreign *corev1.Secret
}

func (m *Manager) newPass(req Request) *pass {
	return &pass{Manager: m, proxy: req.Proxy, req: req, secrets: ownsecret.Secrets{
		Client: m.Client, Owner: req.Proxy, Kind: "CoderWorkspaceProxy", Noun: "workspace proxy", Labels: resources.Labels(req.Proxy),
	}}
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

// use reports what a record holds.
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

// isWanted says that the token of a record is for the Coder that the spec names.
func (p *pass) isWanted(r *record) bool {
	wanted := p.completed(registration{})
	id, ok := coderd.ProxyOfToken(r.token)
	return ok && id.String() == r.ID && r.Through == wanted.Through &&
		(wanted.URL == "" || strings.TrimSuffix(wanted.URL, "/") == r.URL)
}

func (p *pass) registered(is bool) { p.result.Registered = ptr.To(is) }

// subject identifies everything on which a verification depends.
func subject(parts ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}

// believed is what came of asking Coder, where that is not long ago.
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

// believe remembers what came of asking Coder.
func (p *pass) believe(what [sha256.Size]byte, unverified *outcome.Stop) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.verified == nil {
		p.verified = map[types.UID]verification{}
	}
	p.verified[p.proxy.UID] = verification{subject: what, at: p.now(), unverified: unverified}
}

// untilRecheck is the time until a registration that works is looked at again.
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
