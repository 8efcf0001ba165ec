package callers

import (
	"cmp"
	"context"
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

// The outcomes of an authentication, which are labels of a metric and described in its help.
const (
	outcomeOK          = "ok"
	outcomeMissing     = "missing"
	outcomeInvalid     = "invalid"
	outcomeLimited     = "limited"
	outcomeRefused     = "refused"
	outcomeDenied      = "denied"
	outcomeUnavailable = "unavailable"
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
	// MayEnter reports whether the user may use the server.
	MayEnter func(context.Context, user.Info) (bool, error)
	// Observe is called once for each request with the outcome, and the name of the caller
	// if it is known. It may be nil.
	Observe func(ctx context.Context, outcome, user string)
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

// Authenticator authenticates and authorizes callers.
type Authenticator struct {
	cfg AuthenticatorConfig
	// authenticator is nil in ModeNone.
	authenticator tokenAuthenticator
	known         *knownTokens
}

// NewAuthenticator creates an Authenticator for the configured mode. It sends no requests.
func NewAuthenticator(cfg AuthenticatorConfig) (*Authenticator, error) {
	if err := errors.Join(cfg.Options.Validate(cfg.BindAddress)...); err != nil {
		return nil, err
	}
	cfg.Clock = cmp.Or[clock.PassiveClock](cfg.Clock, clock.RealClock{})
	if cfg.Observe == nil {
		cfg.Observe = func(context.Context, string, string) {}
	}
	a := &Authenticator{cfg: cfg, known: newKnownTokens(cfg.Clock)}
	switch cfg.Options.Mode {
	case ModeNone:
		if cfg.InCluster {
			return nil, errors.New("--mcp-auth=none is refused in a pod, also on a loopback address: `kubectl port-forward` reaches it, " +
				"and so do all web pages and processes on that machine; use --mcp-auth=tokenreview")
		}
	case ModeOIDC:
		issuer, err := newIssuer(cfg.Options)
		if err != nil {
			return nil, err
		}
		a.authenticator = issuer
	default:
		a.authenticator = newTokenReviewer(cfg.Reviews, a.known, cfg.Clock)
	}
	return a, nil
}

// Start starts the background work of ModeOIDC, which ends with ctx.
func (a *Authenticator) Start(ctx context.Context) error {
	if issuer, ok := a.authenticator.(*issuer); ok {
		return issuer.start(ctx)
	}
	return nil
}

// Check returns an error if tokens cannot be checked now. It may send a request, at most
// once in ten seconds, which ctx limits. The result is cached for all callers.
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
		a.cfg.Observe(r.Context(), outcome, name)
		if outcome == outcomeOK {
			a.serveAs(c, next, w, r)
		}
	})
}

// admit authenticates and authorizes the request. Unless the outcome is outcomeOK, it has
// sent the response.
func (a *Authenticator) admit(w http.ResponseWriter, r *http.Request) (c tokenOwner, outcome string) {
	if a.authenticator == nil {
		return tokenOwner{user: Local{}}, outcomeOK
	}
	ctx := r.Context()
	token, ok := bearerToken(r)
	if !ok {
		a.challenge(w, "", "a bearer token is required; "+a.authenticator.advice())
		return tokenOwner{}, outcomeMissing
	}
	c, ok, err := a.known.get(ctx, token, a.authenticator.authenticate)
	if errors.Is(err, errTooManyNewTokens) {
		w.Header().Set("Retry-After", retryAfter)
		http.Error(w, err.Error()+"; try again in "+retryAfter+" s", http.StatusServiceUnavailable)
		return tokenOwner{}, outcomeLimited
	}
	if err != nil {
		unavailable(ctx, w, err, "the token cannot be checked now; try again")
		return tokenOwner{}, outcomeUnavailable
	}
	if !ok || (!c.expires.IsZero() && !c.expires.After(a.cfg.Clock.Now())) {
		a.challenge(w, "invalid_token", "the token is not valid for this server: it may have expired, or it was issued for another audience; "+a.authenticator.advice())
		return tokenOwner{}, outcomeInvalid
	}
	why := Refused(c.user)
	if why == "" {
		why = a.authenticator.refused(c.user)
	}
	if why != "" {
		http.Error(w, why, http.StatusForbidden)
		return c, outcomeRefused
	}
	ok, err = a.cfg.MayEnter(ctx, c.user)
	if err != nil {
		unavailable(ctx, w, err, "the permission to use this server cannot be checked now; try again")
		return c, outcomeUnavailable
	}
	if !ok {
		http.Error(w, fmt.Sprintf("user %q has no permission to use this server: an administrator must bind the user to ClusterRole coder-k8s-mcp-user, "+
			"which allows the verb post on the path /mcp", c.user.GetName()), http.StatusForbidden)
		return c, outcomeDenied
	}
	return c, outcomeOK
}

// serveAs passes the request on with its caller and without its token.
func (a *Authenticator) serveAs(c tokenOwner, next http.Handler, w http.ResponseWriter, r *http.Request) {
	lifetime := maxRequestTime
	if !c.expires.IsZero() {
		lifetime = min(lifetime, c.expires.Sub(a.cfg.Clock.Now()))
	}
	ctx, cancel := context.WithTimeout(request.WithUser(r.Context(), c.user), lifetime)
	defer cancel()
	r = r.WithContext(ctx)
	r.Header = r.Header.Clone()
	r.Header.Set("Authorization", "Bearer decided")
	// The SDK accepts a caller only through its own check of a bearer token, for which the
	// result is already decided. The expiry is set after that check, because the check uses
	// a clock of its own.
	info := &auth.TokenInfo{UserID: c.user.GetName(), Extra: map[string]any{tokenInfoUser: c.user}}
	decided := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) { return info, nil }
	auth.RequireBearerToken(decided, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			info.Expiration = c.expires
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
