package callers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Audience is the required audience of a token in ModeTokenReview. Because of it, a token
// for the API server is not valid here, and the reverse.
const Audience = "coder-k8s-mcp"

// AuthenticationOutcome is the result of the authentication and authorization of a request.
type AuthenticationOutcome string

const (
	// OutcomeOK means that the request was accepted.
	OutcomeOK AuthenticationOutcome = "ok"
	// OutcomeMissing means that the request had no bearer token.
	OutcomeMissing AuthenticationOutcome = "missing"
	// OutcomeInvalid means that the token is not valid here.
	OutcomeInvalid AuthenticationOutcome = "invalid"
	// OutcomeLimited means that the token was not checked, because there were too many
	// unknown tokens.
	OutcomeLimited AuthenticationOutcome = "limited"
	// OutcomeRefused means that the caller is one that is never accepted.
	OutcomeRefused AuthenticationOutcome = "refused"
	// OutcomeDenied means that the caller lacks the permission to use the server.
	OutcomeDenied AuthenticationOutcome = "denied"
	// OutcomeUnavailable means that a check failed with an error.
	OutcomeUnavailable AuthenticationOutcome = "unavailable"
)

// tokenOwner is the authenticated sender of a request.
type tokenOwner struct {
	user user.Info
	// expires is the expiry of the token; zero if it is unknown.
	expires time.Time
}

// tokenAuthenticator checks tokens in one of the modes.
type tokenAuthenticator interface {
	// authenticate returns the caller that the token belongs to. It returns false if the
	// token is not valid here, and an error if it cannot be checked now.
	authenticate(ctx context.Context, token string) (tokenOwner, bool, error)
	// check returns an error if tokens cannot be checked now.
	check(ctx context.Context) error
	// start runs the background work of the authenticator until ctx is done.
	start(ctx context.Context) error
	// refused returns why a caller with a valid token may not use the server, or "".
	refused(u user.Info) string
	// advice describes how a user gets a token.
	advice() string
}

// AuthenticatorConfig configures an Authenticator.
type AuthenticatorConfig struct {
	Options AuthenticationOptions
	// BindAddress is the address on which the server listens, host:port.
	BindAddress string
	// InCluster reports that the process runs in a pod.
	InCluster bool
	// Reviews creates TokenReviews, with the server's own identity.
	Reviews authenticationclient.TokenReviewInterface
	// Entry decides which callers may use the server.
	Entry Reviewer
	// Observe is called once for each request with the outcome, and the name of the caller
	// if it is known. It may be nil.
	Observe func(ctx context.Context, outcome AuthenticationOutcome, user string)
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

// Authenticator authenticates and authorizes callers.
type Authenticator struct {
	options AuthenticationOptions
	// authenticator is nil in ModeNone.
	authenticator tokenAuthenticator
	entry         Reviewer
	observe       func(ctx context.Context, outcome AuthenticationOutcome, user string)
	clock         clock.PassiveClock
}

// NewAuthenticator creates an Authenticator for the configured mode. It sends no requests.
func NewAuthenticator(cfg AuthenticatorConfig) (*Authenticator, error) {
	if err := errors.Join(cfg.Options.Validate(cfg.BindAddress)...); err != nil {
		return nil, err
	}
	a := &Authenticator{options: cfg.Options, entry: cfg.Entry, observe: cfg.Observe, clock: cfg.Clock}
	if a.clock == nil {
		a.clock = clock.RealClock{}
	}
	if a.observe == nil {
		a.observe = func(context.Context, AuthenticationOutcome, string) {}
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("generating the key of the token cache: %w", err)
	}
	switch cfg.Options.Mode {
	case ModeNone:
		if cfg.InCluster {
			return nil, errors.New("--mcp-auth=none is refused in a pod, also on a loopback address: `kubectl port-forward` reaches it, " +
				"and so do all web pages and processes on that machine; use --mcp-auth=tokenreview")
		}
	case ModeOIDC:
		issuer, err := newIssuer(cfg.Options, key, a.clock)
		if err != nil {
			return nil, err
		}
		a.authenticator = issuer
	default:
		a.authenticator = newTokenReviewer(cfg.Reviews, key, a.clock)
	}
	return a, nil
}

// Start runs the background work of the mode until ctx is done.
func (a *Authenticator) Start(ctx context.Context) error {
	if a.authenticator == nil {
		<-ctx.Done()
		return nil
	}
	return a.authenticator.start(ctx)
}

// Check returns an error if tokens cannot be checked now. It may send a request, at most
// once in ten seconds.
func (a *Authenticator) Check(ctx context.Context) error {
	if a.authenticator == nil {
		return nil
	}
	return a.authenticator.check(ctx)
}

// maxRequestTime limits the duration of a request, so that the stream of a user whose
// permissions were removed ends even if the expiry of the token is unknown.
const maxRequestTime = time.Hour

// retryAfter is the value of the Retry-After header, in seconds.
const retryAfter = "2"

// Authenticated accepts only requests with a valid token whose user has permission to use
// the server. It adds the caller to the context of the request, for request.UserFrom and
// for the SDK's auth.TokenInfoFromContext. It removes the token from the request, and
// cancels the request's context when the token expires, or after an hour.
func (a *Authenticator) Authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, outcome := a.admit(w, r)
		name := ""
		if c.user != nil {
			name = c.user.GetName()
		}
		a.observe(r.Context(), outcome, name)
		if outcome == OutcomeOK {
			a.serveAs(c, next, w, r)
		}
	})
}

// admit authenticates and authorizes the request. Unless the outcome is OutcomeOK, it has
// sent the response.
func (a *Authenticator) admit(w http.ResponseWriter, r *http.Request) (tokenOwner, AuthenticationOutcome) {
	if a.authenticator == nil {
		return tokenOwner{user: Local{}}, OutcomeOK
	}
	ctx := r.Context()
	token, ok := bearerToken(r)
	if !ok {
		a.challenge(w, "", "a bearer token is required; "+a.authenticator.advice())
		return tokenOwner{}, OutcomeMissing
	}
	c, ok, err := a.authenticator.authenticate(ctx, token)
	if errors.Is(err, errTooManyNewTokens) {
		w.Header().Set("Retry-After", retryAfter)
		http.Error(w, err.Error()+"; try again in "+retryAfter+" s", http.StatusServiceUnavailable)
		return tokenOwner{}, OutcomeLimited
	}
	if err != nil {
		unavailable(ctx, w, err, "the token cannot be checked now; try again")
		return tokenOwner{}, OutcomeUnavailable
	}
	if !ok || (!c.expires.IsZero() && !c.expires.After(a.clock.Now())) {
		a.challenge(w, "invalid_token", "the token is not valid for this server: it may have expired, or it was issued for another audience; "+a.authenticator.advice())
		return tokenOwner{}, OutcomeInvalid
	}
	if why := a.refused(c.user); why != "" {
		http.Error(w, why, http.StatusForbidden)
		return c, OutcomeRefused
	}
	ok, err = a.entry.MayEnter(ctx, c.user)
	if err != nil {
		unavailable(ctx, w, err, "the permission to use this server cannot be checked now; try again")
		return c, OutcomeUnavailable
	}
	if !ok {
		http.Error(w, fmt.Sprintf("user %q has no permission to use this server: an administrator must bind the user to ClusterRole coder-k8s-mcp-user, "+
			"which allows the verb post on the path /mcp", c.user.GetName()), http.StatusForbidden)
		return c, OutcomeDenied
	}
	return c, OutcomeOK
}

func (a *Authenticator) refused(u user.Info) string {
	if why := Refused(u); why != "" {
		return why
	}
	return a.authenticator.refused(u)
}

// serveAs passes the request on with its caller and without its token.
func (a *Authenticator) serveAs(c tokenOwner, next http.Handler, w http.ResponseWriter, r *http.Request) {
	lifetime := maxRequestTime
	if !c.expires.IsZero() {
		lifetime = min(lifetime, c.expires.Sub(a.clock.Now()))
	}
	ctx, cancel := context.WithTimeout(request.WithUser(r.Context(), c.user), lifetime)
	defer cancel()
	r = r.WithContext(ctx)
	r.Header = r.Header.Clone()
	r.Header.Set("Authorization", "Bearer decided")
	withTokenInfo(c, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Authorization")
		next.ServeHTTP(w, r)
	})).ServeHTTP(w, r)
}

// tokenInfoUser is the key under which the token info of the SDK contains the caller.
const tokenInfoUser = "user"

// FromTokenInfo returns the caller that Authenticated stored in the SDK's data of a request,
// or nil if there is none.
func FromTokenInfo(info *auth.TokenInfo) user.Info {
	if info == nil {
		return nil
	}
	caller, _ := info.Extra[tokenInfoUser].(user.Info)
	return caller
}

// withTokenInfo passes the caller to the SDK. The SDK accepts it only through its own check
// of a bearer token, for which the result is already decided. The expiry is set after that
// check, because the check uses a clock of its own.
func withTokenInfo(c tokenOwner, next http.Handler) http.Handler {
	info := &auth.TokenInfo{UserID: c.user.GetName(), Extra: map[string]any{tokenInfoUser: c.user}}
	decided := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) { return info, nil }
	return auth.RequireBearerToken(decided, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			info.Expiration = c.expires
			next.ServeHTTP(w, r)
		}))
}

// challenge responds with 401 and a WWW-Authenticate header according to RFC 6750 and RFC
// 9728.
func (a *Authenticator) challenge(w http.ResponseWriter, code, message string) {
	value := `Bearer realm="` + Audience + `"`
	if code != "" {
		value += `, error="` + code + `"`
	}
	if metadata := a.metadataURL(); metadata != "" {
		value += `, resource_metadata="` + metadata + `"`
	}
	w.Header().Set("WWW-Authenticate", value)
	http.Error(w, message, http.StatusUnauthorized)
}

func unavailable(ctx context.Context, w http.ResponseWriter, err error, message string) {
	// Errors of a request whose client has disconnected are not logged.
	if ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "Could not authenticate or authorize a caller")
	}
	w.Header().Set("Retry-After", retryAfter)
	http.Error(w, message, http.StatusServiceUnavailable)
}
