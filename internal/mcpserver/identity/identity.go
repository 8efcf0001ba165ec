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

// Audience is the required audience of a token in ModeTokenReview. Because of it, a token
// for the API server is not valid here, and the reverse.
const Audience = "coder-k8s-mcp"

// Outcome is the result of the authentication and authorization of a request.
type Outcome string

const (
	// OutcomeOK means that the request was accepted.
	OutcomeOK Outcome = "ok"
	// OutcomeMissing means that the request had no bearer token.
	OutcomeMissing Outcome = "missing"
	// OutcomeInvalid means that the token is not valid here.
	OutcomeInvalid Outcome = "invalid"
	// OutcomeLimited means that the token was not checked, because there were too many
	// unknown tokens.
	OutcomeLimited Outcome = "limited"
	// OutcomeRefused means that the caller is one that is never accepted.
	OutcomeRefused Outcome = "refused"
	// OutcomeDenied means that the caller lacks the permission to use the server.
	OutcomeDenied Outcome = "denied"
	// OutcomeUnavailable means that a check failed with an error.
	OutcomeUnavailable Outcome = "unavailable"
)

// caller is the authenticated sender of a request.
type caller struct {
	user user.Info
	// expires is the expiry of the token; zero if it is unknown.
	expires time.Time
}

// authenticator checks tokens in one of the modes.
type authenticator interface {
	// authenticate returns the caller that the token belongs to. It returns false if the
	// token is not valid here, and an error if it cannot be checked now.
	authenticate(ctx context.Context, token string) (caller, bool, error)
	// check returns an error if tokens cannot be checked now.
	check(ctx context.Context) error
	// start runs the background work of the authenticator until ctx is done.
	start(ctx context.Context) error
	// refused returns why a caller with a valid token may not use the server, or "".
	refused(u user.Info) string
	// advice describes how a user gets a token.
	advice() string
}

// Config configures an Identity.
type Config struct {
	Options Options
	// BindAddress is the address on which the server listens, host:port.
	BindAddress string
	// InCluster reports that the process runs in a pod.
	InCluster bool
	// Reviews creates TokenReviews, with the server's own identity.
	Reviews authenticationclient.TokenReviewInterface
	// Entry decides which callers may use the server.
	Entry access.Reviewer
	// Observe is called once for each request with the outcome, and the name of the caller
	// if it is known. It may be nil.
	Observe func(ctx context.Context, outcome Outcome, user string)
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

// Identity authenticates and authorizes callers.
type Identity struct {
	options Options
	// authenticator is nil in ModeNone.
	authenticator authenticator
	entry         access.Reviewer
	observe       func(ctx context.Context, outcome Outcome, user string)
	clock         clock.PassiveClock
}

// New creates an Identity for the configured mode. It sends no requests.
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

// Start runs the background work of the mode until ctx is done.
func (id *Identity) Start(ctx context.Context) error {
	if id.authenticator == nil {
		<-ctx.Done()
		return nil
	}
	return id.authenticator.start(ctx)
}

// Check returns an error if tokens cannot be checked now. It may send a request, at most
// once in ten seconds.
func (id *Identity) Check(ctx context.Context) error {
	if id.authenticator == nil {
		return nil
	}
	return id.authenticator.check(ctx)
}
