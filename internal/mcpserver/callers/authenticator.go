package callers

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	tokencache "k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
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

// tokenSource checks the tokens of one mode. AuthenticateToken returns false for a token that is
// not valid here, and an error if the token cannot be checked now.
type tokenSource interface {
	authenticator.Token
	// check returns an error if tokens cannot be checked now.
	check(ctx context.Context) error
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
	// Kube creates TokenReviews and SubjectAccessReviews, with the server's own identity. It is
	// not used in ModeNone.
	Kube kubernetes.Interface
	// Observe is called once for each request with the outcome, and the name of the caller
	// if it is known. It may be nil.
	Observe func(ctx context.Context, outcome, user string)
	// Logger logs why a token was refused. A result is shared by requests, so it has no request ID.
	Logger logr.Logger
}

// Authenticator authenticates and authorizes callers.
type Authenticator struct {
	cfg AuthenticatorConfig
	// source, tokens and entry are nil in ModeNone. tokens caches the results of source.
	source tokenSource
	tokens authenticator.Token
	entry  authorizer.Authorizer
	// local takes the place of the token in ModeNone. It is a random text of this process.
	local string
}

const (
	// MCPPath is the path of the MCP endpoint, for which a caller needs the verb post.
	MCPPath = "/mcp"
	// goodTTL is how long a revoked token, or a revoked permission to use the server, is still
	// accepted.
	goodTTL = 10 * time.Second
	// badTTL is how long an invalid token, or a missing permission, is rejected without a new
	// check.
	badTTL = 5 * time.Second
	// askTimeout limits how long a caller waits for the check of a token, and for that of the
	// permission.
	askTimeout = 5 * time.Second
)

// NewAuthenticator creates an Authenticator for the configured mode. It sends no requests.
func NewAuthenticator(cfg AuthenticatorConfig) (*Authenticator, error) {
	if err := errors.Join(cfg.Options.Validate(cfg.BindAddress)...); err != nil {
		return nil, err
	}
	if cfg.Observe == nil {
		cfg.Observe = func(context.Context, string, string) {}
	}
	a := &Authenticator{cfg: cfg, local: rand.Text()}
	switch cfg.Options.Mode {
	case ModeNone:
		if cfg.InCluster {
			return nil, errors.New("--mcp-auth=none is refused in a pod, also on a loopback address: `kubectl port-forward` reaches it, " +
				"and so do all web pages and processes on that machine; use --mcp-auth=tokenreview")
		}
		return a, nil
	case ModeOIDC:
		issuer, err := newIssuer(cfg.Options, cfg.Logger)
		if err != nil {
			return nil, err
		}
		// The cache has no maximum size, and anyone may send any number of invalid tokens. So they
		// are not cached: their check is cheap, because the server itself verifies the signature.
		a.source, a.tokens = issuer, tokencache.New(issuer, false, goodTTL, 0)
	default:
		reviewer := newTokenReviewer(cfg.Kube.AuthenticationV1().TokenReviews(), cfg.Logger)
		// The reviewer limits how many invalid tokens there are in the cache.
		a.source, a.tokens = reviewer, tokencache.New(reviewer, false, goodTTL, badTTL)
	}
	var err error
	a.entry, err = authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: cfg.Kube.AuthorizationV1(),
		AllowCacheTTL:             goodTTL,
		DenyCacheTTL:              badTTL,
		// The client repeats a request that failed.
		WebhookRetryBackoff: &wait.Backoff{Steps: 1},
	}.New()
	if err != nil {
		return nil, fmt.Errorf("preparing to authorize callers: %w", err)
	}
	return a, nil
}

// Start starts the background work of ModeOIDC, which ends with ctx.
func (a *Authenticator) Start(ctx context.Context) error {
	if issuer, ok := a.source.(*issuer); ok {
		return issuer.start(ctx)
	}
	return nil
}

// Check returns an error if tokens cannot be checked now. It may send a request, which ctx limits.
func (a *Authenticator) Check(ctx context.Context) error {
	if a.source == nil {
		return nil
	}
	return a.source.check(ctx)
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
		caller, expires, outcome := a.admit(w, r)
		name := ""
		if caller != nil {
			name = caller.GetName()
		}
		a.cfg.Observe(r.Context(), outcome, name)
		if outcome == outcomeOK {
			token, _ := bearerToken(r)
			if a.source == nil {
				token = a.local
			}
			serveAs(caller, expires, confirmationKeyOf(token), next, w, r)
		}
	})
}

// admit authenticates and authorizes the request. expires is the expiry of the token; zero if
// it is unknown. Unless the outcome is outcomeOK, admit has sent the response.
func (a *Authenticator) admit(w http.ResponseWriter, r *http.Request) (caller user.Info, expires time.Time, outcome string) {
	if a.source == nil {
		return Local{}, time.Time{}, outcomeOK
	}
	ctx := r.Context()
	token, ok := bearerToken(r)
	if !ok {
		a.challenge(w, "", "a bearer token is required; "+a.source.advice())
		return nil, time.Time{}, outcomeMissing
	}
	// The library shares a check between requests, and ends it only after half a minute.
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	response, ok, err := a.tokens.AuthenticateToken(limited, token)
	if errors.Is(err, errTooManyNewTokens) {
		w.Header().Set("Retry-After", retryAfter)
		http.Error(w, err.Error()+"; try again in "+retryAfter+" s", http.StatusServiceUnavailable)
		return nil, time.Time{}, outcomeLimited
	}
	if err != nil {
		unavailable(ctx, w, fmt.Errorf("checking a token: %w", err), "the token cannot be checked now; try again")
		return nil, time.Time{}, outcomeUnavailable
	}
	expires = expiry(token)
	if !ok || (!expires.IsZero() && !expires.After(time.Now())) {
		a.challenge(w, "invalid_token", "the token is not valid for this server: it may have expired, or it was issued for another audience; "+a.source.advice())
		return nil, time.Time{}, outcomeInvalid
	}
	return response.User, expires, a.authorize(ctx, w, response.User)
}

// authorize returns outcomeOK if the user may use the server. Otherwise it sends the response.
func (a *Authenticator) authorize(ctx context.Context, w http.ResponseWriter, u user.Info) (outcome string) {
	why := Refused(u)
	if why == "" && a.cfg.Options.Mode == ModeOIDC {
		why = reserved(u)
	}
	if why != "" {
		http.Error(w, why, http.StatusForbidden)
		return outcomeRefused
	}
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	decision, _, err := a.entry.Authorize(limited, authorizer.AttributesRecord{User: authenticated(u), Verb: "post", Path: MCPPath})
	if err != nil {
		unavailable(ctx, w, fmt.Errorf("checking the permission of user %q to use the server: %w", u.GetName(), err),
			"the permission to use this server cannot be checked now; try again")
		return outcomeUnavailable
	}
	if decision != authorizer.DecisionAllow {
		http.Error(w, fmt.Sprintf("user %q has no permission to use this server: an administrator must bind the user to ClusterRole coder-k8s-mcp-user, "+
			"which allows the verb post on the path /mcp", u.GetName()), http.StatusForbidden)
		return outcomeDenied
	}
	return outcomeOK
}

// authenticated adds the group system:authenticated, which is not in the tokens of an OpenID
// Connect issuer.
func authenticated(u user.Info) user.Info {
	if slices.Contains(u.GetGroups(), user.AllAuthenticated) {
		return u
	}
	return &user.DefaultInfo{
		Name: u.GetName(), UID: u.GetUID(), Groups: slices.Concat(u.GetGroups(), []string{user.AllAuthenticated}), Extra: u.GetExtra(),
	}
}

// serveAs passes the request on with its caller and without its token.
func serveAs(caller user.Info, expires time.Time, key []byte, next http.Handler, w http.ResponseWriter, r *http.Request) {
	lifetime := maxRequestTime
	if !expires.IsZero() {
		lifetime = min(lifetime, time.Until(expires))
	}
	ctx, cancel := context.WithTimeout(request.WithUser(r.Context(), caller), lifetime)
	defer cancel()
	r = r.WithContext(ctx)
	r.Header = r.Header.Clone()
	r.Header.Set("Authorization", "Bearer decided")
	// The SDK accepts a caller only through its own check of a bearer token, for which the
	// result is already decided.
	info := &auth.TokenInfo{UserID: caller.GetName(), Expiration: expires, Extra: map[string]any{tokenInfoUser: caller, tokenInfoKey: key}}
	decided := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) { return info, nil }
	auth.RequireBearerToken(decided, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Authorization")
			next.ServeHTTP(w, r)
		})).ServeHTTP(w, r)
}

// tokenInfoUser and tokenInfoKey are the keys under which the token info of the SDK contains the
// caller, and the key of the questions to them.
const tokenInfoUser, tokenInfoKey = "user", "confirmationKey"

// WithCaller returns a context with the caller, and with the key of ConfirmationKey, that
// Authenticated stored in the SDK's data of a request. Without that data the context has no caller.
func WithCaller(ctx context.Context, info *auth.TokenInfo) context.Context {
	if info == nil {
		return request.WithUser(ctx, nil)
	}
	caller, _ := info.Extra[tokenInfoUser].(user.Info)
	return context.WithValue(request.WithUser(ctx, caller), confirmationKey{}, info.Extra[tokenInfoKey])
}

type confirmationKey struct{}

// ConfirmationKey returns the key with which questions to the caller of this context are signed. All
// replicas derive it from the caller's token, of which it reveals nothing.
func ConfirmationKey(ctx context.Context) ([]byte, error) {
	key, ok := ctx.Value(confirmationKey{}).([]byte)
	if !ok {
		return nil, errNoCaller
	}
	return key, nil
}

func confirmationKeyOf(token string) []byte {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("coder-k8s: confirmations"))
	return mac.Sum(nil)
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
