package licensing

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/outcome"
)

// DefaultRest is how long responses of Coder are cached if Manager.Rest is 0.
const DefaultRest = time.Hour

// Coder is the subset of coderd.Client that this package uses. The token must belong to an owner.
type Coder interface {
	Licenses(ctx context.Context) ([]coderd.License, error)
	AddLicense(ctx context.Context, text string) (coderd.License, error)
	DeleteLicense(ctx context.Context, id int32) error
	Entitlements(ctx context.Context) (coderd.Entitlements, error)
}

// Manager reconciles licenses. The zero value is ready to use. One Manager serves all control
// planes and is safe for concurrent use with different control planes.
type Manager struct {
	// Clock is used to evaluate expiry. Nil means the real clock.
	Clock clock.PassiveClock
	// Rest is how long responses of Coder are cached. 0 means DefaultRest.
	Rest time.Duration

	mu       sync.Mutex
	memories map[string]memory
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
	// Connect returns a client for Coder. It is called only if no cached response can be used.
	Connect func(ctx context.Context) (Coder, error)
}

// Ensure reconciles the license with the request. It is level-triggered: it can be called at any
// time and any number of times. A returned error comes from Record or Connect and is to be retried
// with backoff; everything else is in the Result.
func (m *Manager) Ensure(ctx context.Context, req Request) (Result, error) {
	p := &pass{Manager: m, req: req, now: m.clock().Now(), own: slices.Clone(req.Own), memory: m.recall(req.Key)}
	err := p.ensure(ctx)
	m.keep(req.Key, p.memory)
	return p.finish(err)
}

// Forget drops the cached responses for a control plane.
func (m *Manager) Forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.memories, key)
}

func (m *Manager) clock() clock.PassiveClock {
	if m.Clock == nil {
		return clock.RealClock{}
	}
	return m.Clock
}

func (m *Manager) rest() time.Duration {
	if m.Rest == 0 {
		return DefaultRest
	}
	return m.Rest
}

// memory holds the cached responses for one control plane.
type memory struct {
	licenses     belief[verdict]
	entitlements belief[Allowance]
}

// belief is a cached response, a hash of everything that it depends on, and its expiry.
type belief[T any] struct {
	subject [sha256.Size]byte
	answer  T
	until   time.Time
}

func (b belief[T]) about(subject [sha256.Size]byte, now time.Time) (T, bool) {
	return b.answer, b.subject == subject && now.Before(b.until)
}

func (m *Manager) recall(key string) memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.memories[key]
}

func (m *Manager) keep(key string, what memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.memories == nil {
		m.memories = map[string]memory{}
	}
	m.memories[key] = what
}

// pass is one call of Ensure.
type pass struct {
	*Manager
	req    Request
	now    time.Time
	memory memory
	result Result

	// text and claims describe the requested license.
	text   string
	claims coderd.LicenseClaims
	// own is the record after the changes of this pass.
	own []string
	// connected is the client for Coder. It is nil until the first call.
	connected Coder
}

func (p *pass) coder(ctx context.Context) (Coder, error) {
	if p.connected == nil {
		connected, err := p.req.Connect(ctx)
		if err != nil {
			return nil, err
		}
		p.connected = connected
	}
	return p.connected, nil
}

func (p *pass) ensure(ctx context.Context) error {
	p.result.RequeueAfter = p.rest()
	err := p.licenses(ctx)
	if err != nil && !isHeard(err) {
		return err
	}
	return errors.Join(err, p.entitlements(ctx))
}

// finish returns the Result of a pass that may have been stopped.
func (p *pass) finish(err error) (Result, error) {
	p.result.Own = p.own
	s, err := outcome.End(err)
	if s != nil {
		p.result.State, p.result.Reason, p.result.Message = s.State, s.Reason, s.Message
		p.requeue(s.After)
	}
	p.result.Message = p.silenced(p.result.Message)
	for i := range p.result.Events {
		p.result.Events[i].Message = p.silenced(p.result.Events[i].Message)
	}
	return p.result, err
}

// silenced removes the text of the license from a message.
func (p *pass) silenced(said string) string {
	if p.text == "" {
		return said
	}
	return strings.ReplaceAll(said, p.text, "<license>")
}

func (p *pass) requeue(after time.Duration) {
	if after > 0 && after < p.result.RequeueAfter {
		p.result.RequeueAfter = after
	}
}

func (p *pass) ready(reason, message string) {
	p.result.State, p.result.Reason, p.result.Message = Ready, reason, message
}

// subject returns a hash of everything that a cached response depends on.
func subject(parts ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}

func (p *pass) licensesSubject() [sha256.Size]byte {
	return subject(append([]string{p.req.Instance, p.text}, p.own...)...)
}

// believeLicenses caches the verdict, at most until the license's term begins.
func (p *pass) believeLicenses(v verdict) {
	until := p.now.Add(p.rest())
	if v.waitsForTerm && p.claims.NotBefore.Before(until) {
		until = *p.claims.NotBefore
	}
	p.memory.licenses = belief[verdict]{subject: p.licensesSubject(), answer: v, until: until}
}

// changing is called before every change in Coder. It drops the cached responses, because the
// change may succeed or fail.
func (p *pass) changing() { p.memory = memory{} }

// answered maps the error of a call to Coder to a Stop. Other errors are returned as they are.
func answered(err error) error {
	var own *coderd.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &own):
		return err
	case coderd.IsUnauthorized(err), coderd.IsForbidden(err):
		return heard(coderv1alpha1.ReasonForbidden, retryFailed,
			fmt.Sprintf("Coder does not let the operator manage licenses; its account needs the role owner: %v", err))
	case coderd.IsRateLimited(err):
		return outcome.Waits(coderv1alpha1.ReasonPending, max(own.RetryAfter, soon), "Coder asks for fewer requests: %v", err)
	case coderd.IsUnreachable(err):
		return outcome.Waits(coderv1alpha1.ReasonError, retryUnreachable, "%v", err)
	}
	return outcome.Fails(coderv1alpha1.ReasonError, retryFailed, "%v", err)
}
