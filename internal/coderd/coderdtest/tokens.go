package coderdtest

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/coder/v2/codersdk"
)

// key is a session or an API token.
type key struct {
	codersdk.APIKey
	secret   string
	owner    *user
	lifetime time.Duration
}

func (k *key) value() string { return k.ID + "-" + k.secret }

func (s *Server) insertKey(u *user, name string, loginType codersdk.LoginType, lifetime time.Duration) *key {
	now := s.now()
	k := &key{secret: rand.Text()[:22], owner: u, lifetime: lifetime}
	k.ID, k.UserID, k.TokenName, k.LoginType = rand.Text()[:10], u.ID, name, loginType
	k.CreatedAt, k.UpdatedAt, k.ExpiresAt, k.LifetimeSeconds = now, now, now.Add(lifetime), int64(lifetime.Seconds())
	s.keys = append(s.keys, k)
	return k
}

// AddToken adds an API token of a user with the given lifetime.
func (s *Server) AddToken(username string, lifetime time.Duration) (token string) {
	return s.AddNamedToken(username, "token_"+strings.ToLower(rand.Text()[:6]), lifetime)
}

// AddNamedToken is AddToken with a name.
func (s *Server) AddNamedToken(username, name string, lifetime time.Duration) (token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.userNamed(username)
	if u == nil {
		return ""
	}
	return s.insertKey(u, name, codersdk.LoginTypeToken, lifetime).value()
}

// RevokeToken makes the server refuse a token from now on. It reports whether the token existed.
func (s *Server) RevokeToken(value string) bool {
	if s.real != nil {
		return s.real.revokeToken(value)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.keys)
	s.keys = slices.DeleteFunc(s.keys, func(k *key) bool { return k.value() == value })
	return len(s.keys) < before
}

// TokenNames returns the names of a user's API tokens.
func (s *Server) TokenNames(username string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, k := range s.keys {
		if k.LoginType == codersdk.LoginTypeToken && strings.EqualFold(k.owner.Username, username) {
			out = append(out, k.TokenName)
		}
	}
	return out
}

// Sessions returns the number of a user's open sessions.
func (s *Server) Sessions(username string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, k := range s.keys {
		if k.LoginType == codersdk.LoginTypePassword && strings.EqualFold(k.owner.Username, username) {
			n++
		}
	}
	return n
}

// identify authenticates a request.
func (s *Server) identify(r *request) {
	refuseToken := func(detail string) { refuseDetailed(http.StatusUnauthorized, signedOut, detail) }
	value := r.Header.Get(codersdk.SessionTokenHeader)
	if cookie, err := r.Cookie(codersdk.SessionTokenCookie); err == nil && value == "" && !s.hostPrefixCookie {
		// WebSocket clients send the cookie.
		value = cookie.Value
	}
	if value == "" {
		refuseToken(fmt.Sprintf("Cookie %q or query parameter must be provided.", codersdk.SessionTokenCookie))
	}
	id, secret, ok := strings.Cut(value, "-")
	if !ok || len(id) != 10 || len(secret) != 22 {
		refuseToken("Invalid API key format: incorrect amount of API key parts, expected 2 got " + fmt.Sprint(strings.Count(value, "-")+1))
	}
	k := first(s.keys, func(k *key) bool { return k.ID == id })
	switch {
	case k == nil:
		refuseToken("API key is invalid.")
	case k.secret != secret:
		refuseToken("API key secret is invalid.")
	case k.ExpiresAt.Before(s.clock.Now()):
		refuseToken(fmt.Sprintf("API key expired at %q.", k.ExpiresAt))
	case k.owner.Status == codersdk.UserStatusSuspended:
		refuse(http.StatusUnauthorized, `User is not active (status = "suspended"). Contact an admin to reactivate your account.`)
	}
	r.key, r.user = k, k.owner
	if !k.allows(r) {
		notFound()
	}
	if now := s.clock.Now(); !s.has(fixedTokenLife) && k.ExpiresAt.Sub(now) <= k.lifetime-time.Hour {
		k.ExpiresAt = now.Add(k.lifetime)
	}
}

func (s *Server) postLogin(r *request) {
	body := read[codersdk.LoginWithPasswordRequest](r)
	u := s.userWithEmail(body.Email)
	switch {
	case u == nil || u.password != body.Password:
		refuse(http.StatusUnauthorized, "Incorrect email or password.")
	case s.noPasswords:
		refuse(http.StatusForbidden, "Password authentication is disabled.")
	case u.Status == codersdk.UserStatusSuspended:
		refuse(http.StatusUnauthorized, "Your account is suspended. Contact an admin to reactivate your account.")
	}
	k := s.insertKey(u, "", codersdk.LoginTypePassword, 24*time.Hour)
	r.write(http.StatusCreated, codersdk.LoginWithPasswordResponse{SessionToken: k.value()})
}

func (s *Server) postLogout(r *request) {
	s.keys = slices.DeleteFunc(s.keys, func(k *key) bool { return k == r.key })
	r.write(http.StatusOK, codersdk.Response{Message: "Logged out!"})
}

func (s *Server) maxLifetime(u *user) time.Duration {
	if u.has("owner") {
		return s.ownerTokenLifetime
	}
	return s.tokenLifetime
}

func (s *Server) getTokenConfig(r *request) {
	r.write(http.StatusOK, codersdk.TokenConfig{MaxTokenLifetime: s.maxLifetime(s.pathUser(r))})
}

func (s *Server) postToken(r *request) {
	u := s.pathUser(r)
	body := read[codersdk.CreateTokenRequest](r)
	lifetime := s.maxLifetime(u)
	if body.Lifetime != 0 {
		problem := ""
		if body.Lifetime < 0 {
			problem = "lifetime must be positive number greater than 0"
		} else if body.Lifetime > lifetime {
			problem = fmt.Sprintf("lifetime must be less than %v", lifetime)
		}
		if problem != "" {
			refuseDetailed(http.StatusBadRequest, "Failed to validate create API key request.", problem)
		}
		lifetime = body.Lifetime
	}
	name := body.TokenName
	if name == "" {
		name = "token_" + strings.ToLower(rand.Text()[:6])
	}
	if s.tokenNamed(u, name) != nil {
		taken(fmt.Sprintf("A token with name %q already exists.", name))
	}
	if !slices.Contains(s.users, u) {
		refuseDetailed(http.StatusInternalServerError, "Failed to create API key.", "insert API key: pq: Cannot create API key for deleted user")
	}
	k := s.insertKey(u, name, codersdk.LoginTypeToken, lifetime)
	if !s.has(ignoresScopes) {
		k.Scopes, k.AllowList = body.Scopes, body.AllowList
	}
	r.write(http.StatusCreated, codersdk.GenerateAPIKeyResponse{Key: k.value()})
}

func (s *Server) getTokens(r *request) {
	u := s.pathUser(r)
	out := []codersdk.APIKeyWithOwner{}
	hideExpired := s.has(hidesExpiredTokens) && r.URL.Query().Get("include_expired") != "true"
	for _, k := range s.keys {
		if hideExpired && k.ExpiresAt.Before(s.clock.Now()) {
			continue
		}
		all := r.URL.Query().Get("include_all") == "true" && r.user.has("owner")
		if (all || k.owner == u) && k.LoginType == codersdk.LoginTypeToken {
			out = append(out, codersdk.APIKeyWithOwner{APIKey: k.sdk(), Username: k.owner.Username})
		}
	}
	r.write(http.StatusOK, out)
}

func (k *key) sdk() codersdk.APIKey {
	out := k.APIKey
	if len(out.Scopes) == 0 {
		out.Scopes, out.AllowList = []codersdk.APIKeyScope{codersdk.APIKeyScopeCoderAll}, []codersdk.APIAllowListTarget{codersdk.AllowAllTarget()}
	}
	return out
}

func (s *Server) getTokenByName(r *request) {
	r.write(http.StatusOK, found(s.tokenNamed(s.pathUser(r), r.PathValue("name"))).sdk())
}

func (s *Server) tokenNamed(u *user, name string) *key {
	return first(s.keys, func(k *key) bool {
		return k.owner == u && k.LoginType == codersdk.LoginTypeToken && k.TokenName == name
	})
}

func (s *Server) getKey(r *request) {
	u := s.pathUser(r)
	r.write(http.StatusOK, found(first(s.keys, func(k *key) bool { return k.owner == u && k.ID == r.PathValue("key") })).sdk())
}

func (s *Server) deleteKey(r *request) {
	s.pathUser(r)
	id := r.PathValue("key")
	before := len(s.keys)
	s.keys = slices.DeleteFunc(s.keys, func(k *key) bool {
		return k.ID == id && (k.owner == r.user || r.user.has("owner"))
	})
	if len(s.keys) == before {
		notFound()
	}
	r.w.WriteHeader(http.StatusNoContent)
}

// allows reports whether a token may be used for a request. Coder decides by the object;
// here a token with an allow list may read and use the workspaces and templates in it.
func (k *key) allows(r *request) bool {
	if len(k.AllowList) == 0 {
		return true
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) < 4 {
		return false
	}
	kind, id := map[string]codersdk.RBACResource{"workspaces": codersdk.ResourceWorkspace, "templates": codersdk.ResourceTemplate}[parts[2]], parts[3]
	return slices.ContainsFunc(k.AllowList, func(t codersdk.APIAllowListTarget) bool { return t.Type == kind && (t.ID == "*" || t.ID == id) }) &&
		(kind == codersdk.ResourceWorkspace || r.Method == http.MethodGet)
}

// mayBuild refuses builds of a workspace of the template with a token that has an allow list.
func (k *key) mayBuild(t *template, transition codersdk.WorkspaceTransition) {
	switch {
	case len(k.AllowList) == 0:
	case transition == codersdk.WorkspaceTransitionDelete:
		refuse(http.StatusForbidden, "You do not have permission to delete this workspace.")
	case !t.UseClassicParameterFlow:
		// No scope of tokens lets Coder read the owner. Only the classic flow works without the owner.
		refuseDetailed(http.StatusBadRequest, "Unable to validate parameters",
			"Failed to fetch workspace owner; Please check your permissions or the user may not exist.")
	}
}
