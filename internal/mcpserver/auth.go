package mcpserver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Audience is what a token must have been issued for, so that a token for the
// API server itself is no good here and the other way round.
const Audience = "coder-k8s-mcp"

const serviceAccountPrefix = "system:serviceaccount:"

type authenticator interface {
	// authenticate says whose token it is; false means that it is no good, an
	// error that this could not be found out.
	authenticate(ctx context.Context, token string) (user.Info, bool, error)
}

type authorizer interface {
	// mayEnter says whether the user may post to /mcp.
	mayEnter(ctx context.Context, u user.Info) (bool, error)
}

// authenticated lets only callers with a good token and the right to enter
// through, and puts the caller into the context.
func authenticated(authn authenticator, authz authorizer, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		token, ok := bearerToken(r)
		if !ok {
			challenge(w, "", "a bearer token is needed: make one with `kubectl create token <service-account> --audience="+Audience+"`")
			return
		}
		u, ok, err := authn.authenticate(ctx, token)
		if err != nil {
			unavailable(ctx, w, err, "the token cannot be checked now; try again")
			return
		}
		if !ok {
			challenge(w, "invalid_token", "the token is not valid here: it may have expired, or it was not issued for the audience "+Audience)
			return
		}
		recordOf(ctx).user = u.GetName()
		if why := refusedIdentity(u); why != "" {
			http.Error(w, why, http.StatusForbidden)
			return
		}
		ok, err = authz.mayEnter(ctx, u)
		if err != nil {
			unavailable(ctx, w, err, "the right to use this server cannot be checked now; try again")
			return
		}
		if !ok {
			http.Error(w, fmt.Sprintf("user %q may not use this server: bind them to ClusterRole coder-k8s-mcp-user, "+
				"which allows the verb post on the path %s", u.GetName(), mcpPath), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r.WithContext(request.WithUser(ctx, u)))
	})
}

// bearerToken reads the token. A request with two Authorization headers has
// none, because a proxy in front may have looked at the other one.
func bearerToken(r *http.Request) (string, bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || strings.ContainsAny(token, " \t,") {
		return "", false
	}
	return token, true
}

func challenge(w http.ResponseWriter, code, message string) {
	value := `Bearer realm="` + Audience + `"`
	if code != "" {
		value += `, error="` + code + `"`
	}
	w.Header().Set("WWW-Authenticate", value)
	http.Error(w, message, http.StatusUnauthorized)
}

func unavailable(ctx context.Context, w http.ResponseWriter, err error, message string) {
	log.FromContext(ctx).Error(err, "Asking the API server about a caller")
	w.Header().Set("Retry-After", "2")
	http.Error(w, message, http.StatusServiceUnavailable)
}

// refusedIdentity says why nobody may act as this user through the server, or
// nothing. Kubernetes' own components and the group that RBAC does not bind are
// out of reach, whatever the token says: no person should hand their token to a
// tool, and impersonating them would need more rights than the server should
// have.
func refusedIdentity(u user.Info) string {
	name := u.GetName()
	switch {
	case name == "":
		return "the token names no user"
	case strings.HasPrefix(name, "system:") && !strings.HasPrefix(name, serviceAccountPrefix):
		return fmt.Sprintf("user %q belongs to Kubernetes itself and may not use this server", name)
	}
	for _, group := range []string{user.SystemPrivilegedGroup, user.NodesGroup, user.AllUnauthenticated} {
		if slices.Contains(u.GetGroups(), group) {
			return fmt.Sprintf("members of group %q may not use this server; use an account with only the rights that the tool needs", group)
		}
	}
	return ""
}
