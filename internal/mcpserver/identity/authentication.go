package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

// maxRequestTime limits the duration of a request, so that the stream of a user whose
// permissions were removed ends even if the expiry of the token is unknown.
const maxRequestTime = time.Hour

// retryAfter is the value of the Retry-After header, in seconds.
const retryAfter = "2"

// Authenticated accepts only requests with a valid token whose user has permission to use
// the server. It adds the caller to the context of the request, for request.UserFrom and
// for the SDK's auth.TokenInfoFromContext. It removes the token from the request, and
// cancels the request's context when the token expires, or after an hour.
func (id *Identity) Authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, outcome := id.admit(w, r)
		name := ""
		if c.user != nil {
			name = c.user.GetName()
		}
		id.observe(r.Context(), outcome, name)
		if outcome == OutcomeOK {
			id.serveAs(c, next, w, r)
		}
	})
}

// admit authenticates and authorizes the request. Unless the outcome is OutcomeOK, it has
// sent the response.
func (id *Identity) admit(w http.ResponseWriter, r *http.Request) (caller, Outcome) {
	if id.authenticator == nil {
		return caller{user: callers.Local{}}, OutcomeOK
	}
	ctx := r.Context()
	token, ok := bearerToken(r)
	if !ok {
		id.challenge(w, "", "a bearer token is needed; "+id.authenticator.advice())
		return caller{}, OutcomeMissing
	}
	c, ok, err := id.authenticator.authenticate(ctx, token)
	if errors.Is(err, errTooManyNewTokens) {
		w.Header().Set("Retry-After", retryAfter)
		http.Error(w, err.Error()+"; try again in "+retryAfter+" s", http.StatusServiceUnavailable)
		return caller{}, OutcomeLimited
	}
	if err != nil {
		unavailable(ctx, w, err, "the token cannot be checked now; try again")
		return caller{}, OutcomeUnavailable
	}
	if !ok || (!c.expires.IsZero() && !c.expires.After(id.clock.Now())) {
		id.challenge(w, "invalid_token", "the token is not valid here: it may have expired, or it was not issued for this server; "+id.authenticator.advice())
		return caller{}, OutcomeInvalid
	}
	if why := id.refused(c.user); why != "" {
		http.Error(w, why, http.StatusForbidden)
		return c, OutcomeRefused
	}
	ok, err = id.entry.MayEnter(ctx, c.user)
	if err != nil {
		unavailable(ctx, w, err, "the right to use this server cannot be checked now; try again")
		return c, OutcomeUnavailable
	}
	if !ok {
		http.Error(w, fmt.Sprintf("user %q may not use this server: an administrator must bind them to ClusterRole coder-k8s-mcp-user, "+
			"which allows the verb post on the path /mcp", c.user.GetName()), http.StatusForbidden)
		return c, OutcomeDenied
	}
	return c, OutcomeOK
}

func (id *Identity) refused(u user.Info) string {
	if why := callers.Refused(u); why != "" {
		return why
	}
	return id.authenticator.refused(u)
}

// serveAs passes the request on with its caller and without its token.
func (id *Identity) serveAs(c caller, next http.Handler, w http.ResponseWriter, r *http.Request) {
	lifetime := maxRequestTime
	if !c.expires.IsZero() {
		lifetime = min(lifetime, c.expires.Sub(id.clock.Now()))
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

// withTokenInfo passes the caller to the SDK. The SDK accepts it only through its own check
// of a bearer token, for which the result is already decided. The expiry is set after that
// check, because the check uses a clock of its own.
func withTokenInfo(c caller, next http.Handler) http.Handler {
	info := &auth.TokenInfo{UserID: c.user.GetName(), Extra: map[string]any{"user": c.user}}
	decided := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) { return info, nil }
	return auth.RequireBearerToken(decided, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			info.Expiration = c.expires
			next.ServeHTTP(w, r)
		}))
}

// challenge responds with 401 and a WWW-Authenticate header according to RFC 6750 and RFC
// 9728.
func (id *Identity) challenge(w http.ResponseWriter, code, message string) {
	value := `Bearer realm="` + Audience + `"`
	if code != "" {
		value += `, error="` + code + `"`
	}
	if metadata := id.metadataURL(); metadata != "" {
		value += `, resource_metadata="` + metadata + `"`
	}
	w.Header().Set("WWW-Authenticate", value)
	http.Error(w, message, http.StatusUnauthorized)
}

func unavailable(ctx context.Context, w http.ResponseWriter, err error, message string) {
	// Errors of a request whose client has disconnected are not logged.
	if ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "Finding out about a caller")
	}
	w.Header().Set("Retry-After", retryAfter)
	http.Error(w, message, http.StatusServiceUnavailable)
}
