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

// DefaultRest is how long an answer of Coder is believed where Manager.Rest is 0.
const DefaultRest = time.Hour

// Coder is what is needed of a coderd.Client with the token of an owner.
type Coder interface {
	Licenses(ctx context.Context) ([]coderd.License, error)
	AddLicense(ctx context.Context, text string) (coderd.License, error)
	DeleteLicense(ctx context.Context, id int32) error
	Entitlements(ctx context.Context) (coderd.Entitlements, error)
}

// Manager looks after licenses. The zero value works. One Manager serves all
// control planes, and is safe for concurrent use for different ones.
type Manager struct {
	// Clock decides about expiry. Nil means the real one.
	Clock clock.PassiveClock
	// Rest is how long an answer of Coder is believed. 0 means DefaultRest.
	Rest time.Duration

	mu       sync.Mutex
	memories map[string]memory
}

// Request is one control plane whose license is to be looked after.
type Request struct {
	// Key tells the control planes apart.
	Key string
	// Instance changes where another Coder answers than before, for example one of
	// another version. What the one before said is then not believed.
	Instance string
	// License is the text of the license that is asked for. Empty means that none
	// is.
	License string
	// Unread says that a license is asked for but its text is not known. Then
	// nothing is added or removed.
	Unread bool
	// Own is Result.Own as it was last recorded.
	Own []string
	// Record stores Own before a license goes to Coder.
	Record func(ctx context.Context, own []string) error
	// Connect gives the Coder to look after. It is called when something has to be
	// asked, which is seldom.
	Connect func(ctx context.Context) (Coder, error)
}

// Ensure makes the license what is asked for. It is level-triggered: it can be
// called at any time, any number of times. An error is one of Record or Connect,
// to be tried again with backoff; everything else is in the Result.
func (m *Manager) Ensure(ctx context.Context, req Request) (Result, error) {
	p := &pass{Manager: m, req: req, now: m.clock().Now(), own: slices.Clone(req.Own), memory: m.recall(req.Key)}
	err := p.ensure(ctx)
	m.keep(req.Key, p.memory)
	return p.finish(err)
}

// Forget drops what is believed about a control plane.
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

// memory is what Coder said about one control plane.
type memory struct {
	licenses     belief[verdict]
	entitlements belief[Allowance]
}

// belief is an answer, the question that it is about, and until when it counts.
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

	// text and claims are those of the license that is asked for.
	text   string
	claims coderd.LicenseClaims
	// own is the record as it has to be after what was done so far.
	own []string
	// connected is the Coder, once it was needed.
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

// finish makes a Result of a pass that may have been stopped.
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

// silenced takes the text of the license out of what somebody may have repeated.
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

// subject identifies a question by all that its answer depends on.
func subject(parts ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}

func (p *pass) licensesSubject() [sha256.Size]byte {
	return subject(append([]string{p.req.Instance, p.text}, p.own...)...)
}

// believeLicenses keeps what Coder said about the license, until something about
// it is due.
func (p *pass) believeLicenses(v verdict) {
	until := p.now.Add(p.rest())
	if v.waitsForTerm && p.claims.NotBefore.Before(until) {
		until = *p.claims.NotBefore
	}
	p.memory.licenses = belief[verdict]{subject: p.licensesSubject(), answer: v, until: until}
}

// changing is called before something changes in Coder: what was believed before
// does not count any more, whatever comes of it.
func (p *pass) changing() { p.memory = memory{} }

// answered turns a failed call into what the pass comes to.
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
