package access

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// fakeCoder is the part of Coder that this package uses: users, sessions and
// tokens.
type fakeCoder struct {
	URL string

	mu            sync.Mutex
	users         []*fakeUser
	keys          []*fakeKey
	made          int
	requests      []string
	passwordsOff  bool
	down          bool
	maxLifetime   time.Duration
	refuseMinting bool
}

type fakeUser struct {
	ID       string              `json:"id"`
	Username string              `json:"username"`
	Email    string              `json:"email"`
	Roles    []map[string]string `json:"roles"`
	password string
}

type fakeKey struct {
	ID        string `json:"id"`
	TokenName string `json:"token_name"`
	ExpiresAt string `json:"expires_at"`
	user      *fakeUser
	value     string
	session   bool
	lifetime  time.Duration
}

func newFakeCoder(t *testing.T) *fakeCoder {
	t.Helper()
	f := &fakeCoder{maxLifetime: 7 * 24 * time.Hour}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v2/users/first", f.getFirst)
	mux.HandleFunc("POST /api/v2/users/first", f.postFirst)
	mux.HandleFunc("POST /api/v2/users/login", f.login)
	mux.HandleFunc("POST /api/v2/users/logout", f.signedIn(f.logout))
	mux.HandleFunc("GET /api/v2/users/me", f.signedIn(f.me))
	mux.HandleFunc("POST /api/v2/users", f.signedIn(f.postUser))
	mux.HandleFunc("PUT /api/v2/users/{user}/roles", f.signedIn(f.putRoles))
	mux.HandleFunc("GET /api/v2/users/me/keys/tokens/tokenconfig", f.signedIn(f.config))
	mux.HandleFunc("GET /api/v2/users/me/keys/tokens", f.signedIn(f.listTokens))
	mux.HandleFunc("POST /api/v2/users/me/keys/tokens", f.signedIn(f.postToken))
	mux.HandleFunc("DELETE /api/v2/users/me/keys/{id}", f.signedIn(f.deleteKey))
	mux.HandleFunc("GET /api/v2/organizations/default", f.signedIn(f.org))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.requests = append(f.requests, r.Method+" "+r.URL.Path)
		if f.down {
			say(w, http.StatusBadGateway, "down")
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	f.URL = server.URL
	return f
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Coder-Build-Version", "v2.30.0")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func say(w http.ResponseWriter, status int, message string) {
	reply(w, status, map[string]string{"message": message})
}

func (f *fakeCoder) signedIn(next func(http.ResponseWriter, *http.Request, *fakeKey)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, k := range f.keys {
			if k.value == r.Header.Get("Coder-Session-Token") {
				next(w, r, k)
				return
			}
		}
		say(w, http.StatusUnauthorized, "API key is invalid.")
	}
}

func (f *fakeCoder) getFirst(w http.ResponseWriter, _ *http.Request) {
	if len(f.users) == 0 {
		say(w, http.StatusNotFound, "The initial user has not been created!")
		return
	}
	say(w, http.StatusOK, "The initial user has already been created!")
}

func (f *fakeCoder) postFirst(w http.ResponseWriter, r *http.Request) {
	if len(f.users) != 0 {
		say(w, http.StatusConflict, "The initial user has already been created.")
		return
	}
	var in struct{ Username, Email, Password string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	u := f.addUser(in.Username, in.Email, in.Password, "owner")
	reply(w, http.StatusCreated, map[string]string{"user_id": u.ID, "organization_id": uuid.NewString()})
}

// addUser makes an account as somebody else would: a Job, or a person.
func (f *fakeCoder) addUser(username, email, password string, roles ...string) *fakeUser {
	u := &fakeUser{ID: uuid.NewString(), Username: username, Email: email, password: password, Roles: []map[string]string{}}
	for _, role := range roles {
		u.Roles = append(u.Roles, map[string]string{"name": role})
	}
	f.users = append(f.users, u)
	return u
}

func (f *fakeCoder) addKey(u *fakeUser, name string, session bool, lifetime time.Duration) *fakeKey {
	f.made++
	id := fmt.Sprintf("key%07d", f.made)
	k := &fakeKey{
		ID: id, TokenName: name, ExpiresAt: "2030-01-01T00:00:00Z", user: u, session: session,
		value: id + "-s3cr3tValueOfAKey" + fmt.Sprint(f.made), lifetime: lifetime,
	}
	f.keys = append(f.keys, k)
	return k
}

func (f *fakeCoder) login(w http.ResponseWriter, r *http.Request) {
	var in struct{ Email, Password string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	for _, u := range f.users {
		if !strings.EqualFold(u.Email, in.Email) || u.password != in.Password {
			continue
		}
		if f.passwordsOff {
			say(w, http.StatusForbidden, "Password authentication is disabled.")
			return
		}
		reply(w, http.StatusCreated, map[string]string{"session_token": f.addKey(u, "", true, 0).value})
		return
	}
	say(w, http.StatusUnauthorized, "Incorrect email or password.")
}

func (f *fakeCoder) removeKey(id string) bool {
	for i, k := range f.keys {
		if k.ID == id {
			f.keys = append(f.keys[:i], f.keys[i+1:]...)
			return true
		}
	}
	return false
}

func (f *fakeCoder) logout(w http.ResponseWriter, _ *http.Request, k *fakeKey) {
	f.removeKey(k.ID)
	say(w, http.StatusOK, "Logged out!")
}

func (f *fakeCoder) me(w http.ResponseWriter, _ *http.Request, k *fakeKey) {
	reply(w, http.StatusOK, k.user)
}

func (f *fakeCoder) config(w http.ResponseWriter, _ *http.Request, _ *fakeKey) {
	reply(w, http.StatusOK, map[string]int64{"max_token_lifetime": int64(f.maxLifetime)})
}

func (f *fakeCoder) listTokens(w http.ResponseWriter, _ *http.Request, k *fakeKey) {
	out := []*fakeKey{}
	for _, other := range f.keys {
		if !other.session && other.user == k.user {
			out = append(out, other)
		}
	}
	reply(w, http.StatusOK, out)
}

func (f *fakeCoder) postToken(w http.ResponseWriter, r *http.Request, k *fakeKey) {
	var in struct {
		TokenName string        `json:"token_name"`
		Lifetime  time.Duration `json:"lifetime"`
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	if f.refuseMinting || in.Lifetime > f.maxLifetime {
		say(w, http.StatusBadRequest, "Failed to validate create API key request.")
		return
	}
	for _, other := range f.keys {
		if other.user == k.user && !other.session && other.TokenName == in.TokenName {
			say(w, http.StatusConflict, fmt.Sprintf("A token with name %q already exists.", in.TokenName))
			return
		}
	}
	reply(w, http.StatusCreated, map[string]string{"key": f.addKey(k.user, in.TokenName, false, in.Lifetime).value})
}

func (f *fakeCoder) deleteKey(w http.ResponseWriter, r *http.Request, _ *fakeKey) {
	if !f.removeKey(r.PathValue("id")) {
		say(w, http.StatusNotFound, "Resource not found or you do not have access to this resource")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (f *fakeCoder) org(w http.ResponseWriter, _ *http.Request, _ *fakeKey) {
	reply(w, http.StatusOK, map[string]any{"id": uuid.NewString(), "name": "coder", "is_default": true})
}

func (f *fakeCoder) postUser(w http.ResponseWriter, r *http.Request, _ *fakeKey) {
	var in struct{ Username, Email, Password string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	if in.Username == "new" {
		reply(w, http.StatusBadRequest, map[string]any{
			"message":     "Validation failed.",
			"validations": []map[string]string{{"field": "username", "detail": "Validation failed for tag \"username\" with value: \"new\""}},
		})
		return
	}
	for _, u := range f.users {
		if strings.EqualFold(u.Username, in.Username) || strings.EqualFold(u.Email, in.Email) {
			say(w, http.StatusConflict, "User already exists.")
			return
		}
	}
	reply(w, http.StatusCreated, f.addUser(in.Username, in.Email, in.Password))
}

func (f *fakeCoder) putRoles(w http.ResponseWriter, r *http.Request, _ *fakeKey) {
	var in struct{ Roles []string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	u := f.user(r.PathValue("user"))
	if u == nil {
		say(w, http.StatusBadRequest, "User not found.")
		return
	}
	u.Roles = nil
	for _, role := range in.Roles {
		u.Roles = append(u.Roles, map[string]string{"name": role})
	}
	reply(w, http.StatusOK, u)
}

func (f *fakeCoder) user(name string) *fakeUser {
	for _, u := range f.users {
		if u.Username == name {
			return u
		}
	}
	return nil
}

// tokens are the API tokens of everybody, without sessions.
func (f *fakeCoder) tokens() []*fakeKey {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*fakeKey
	for _, k := range f.keys {
		if !k.session {
			out = append(out, k)
		}
	}
	return out
}

func (f *fakeCoder) sessions() int {
	all := len(f.tokens())
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.keys) - all
}

// change changes the state under the lock.
func (f *fakeCoder) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// asked gives the requests since the last time.
func (f *fakeCoder) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.requests
	f.requests = nil
	return out
}
