package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/access"
)

// Audience is what a token must have been issued for in ModeTokenReview, so that
// a token for the API server itself is no good here and the other way round.
const Audience = "coder-k8s-mcp"

// Outcome is how the question who sent a request ended.
type Outcome string

const (
	// OutcomeOK means that the request was let in.
	OutcomeOK Outcome = "ok"
	// OutcomeMissing means that it had no bearer token.
	OutcomeMissing Outcome = "missing"
	// OutcomeInvalid means that its token is no good here.
	OutcomeInvalid Outcome = "invalid"
	// OutcomeLimited means that its token was not checked, because too many unknown ones
	// were.
	OutcomeLimited Outcome = "limited"
	// OutcomeRefused means that its caller is one of those that may never enter.
	OutcomeRefused Outcome = "refused"
	// OutcomeDenied means that its caller lacks the right to enter.
	OutcomeDenied Outcome = "denied"
	// OutcomeUnavailable means that the answer could not be had.
	OutcomeUnavailable Outcome = "unavailable"
)

// caller is who sent a request.
type caller struct {
	user user.Info
	// expires is when the token ends; zero where that is not known.
	expires time.Time
}

// authenticator checks tokens in one of the modes.
type authenticator interface {
	// authenticate says whose token it is. False means that the token is no good
	// here, an error that this cannot be found out now.
	authenticate(ctx context.Context, token string) (caller, bool, error)
	// check says why tokens cannot be checked now, or nothing.
	check(ctx context.Context) error
	// start does what the checks need in the background, until ctx is done.
	start(ctx context.Context) error
	// refused says why a caller with a good token may not use the server, or
	// nothing.
	refused(u user.Info) string
	// advice says how a person gets a token.
	advice() string
}

// Config is what Identity is made of.
type Config struct {
	Options Options
	// BindAddress is where the server listens, host:port.
	BindAddress string
	// InCluster says that the process runs in a pod.
	InCluster bool
	// Reviews asks the API server about tokens, with the server's own identity.
	Reviews authenticationclient.TokenReviewInterface
	// Entry decides who may enter.
	Entry access.Reviewer
	// Observe is told once for each request how it ended, and the name of the
	// caller where it is known. It may be nil.
	Observe func(ctx context.Context, outcome Outcome, user string)
	// Clock is the real one unless set.
	Clock clock.PassiveClock
}

// Identity finds out who calls.
type Identity struct {
	options Options
	// authenticator is nil in ModeNone.
	authenticator authenticator
	entry         access.Reviewer
	observe       func(ctx context.Context, outcome Outcome, user string)
	clock         clock.PassiveClock
}

// New prepares the mode that the options name. Nobody is asked before Start.
func New(cfg Config) (*Identity, error) {
	if err := errors.Join(cfg.Options.Validate(cfg.BindAddress)...); err != nil {
		return nil, err
	}
	id := &Identity{options: cfg.Options, entry: cfg.Entry, observe: cfg.Observe, clock: cfg.Clock}
	if id.clock == nil {
		id.clock = clock.RealClock{}
	}
	if id.observe == nil {
		id.observe = func(context.Context, Outcome, string) {}
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("making the key of the token cache: %w", err)
	}
	switch cfg.Options.Mode {
	case ModeNone:
		if cfg.InCluster {
			return nil, errors.New("--mcp-auth=none is refused in a pod, also on a loopback address: `kubectl port-forward` reaches it, " +
				"and with it every web page and process of that person's machine; use --mcp-auth=tokenreview")
		}
	case ModeOIDC:
		issuer, err := newIssuer(cfg.Options, key, id.clock)
		if err != nil {
			return nil, err
		}
		id.authenticator = issuer
	default:
		id.authenticator = newTokenReviewer(cfg.Reviews, key, id.clock)
	}
	return id, nil
}

// Start does what the mode needs in the background, until ctx is done.
func (id *Identity) Start(ctx context.Context) error {
	if id.authenticator == nil {
		<-ctx.Done()
		return nil
	}
	return id.authenticator.start(ctx)
}

// Check says why tokens cannot be checked now, or nothing. It may ask, at most
// once in ten seconds.
func (id *Identity) Check(ctx context.Context) error {
	if id.authenticator == nil {
		return nil
	}
	return id.authenticator.check(ctx)
}
