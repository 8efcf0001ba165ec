package callers

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const publicURL = "https://mcp.example.com/mcp"

// login is a fake OpenID Connect issuer.
type login struct {
	*httptest.Server
	key    *rsa.PrivateKey
	caFile string

	mu sync.Mutex
	// discoveryDown, keysDown and groupsDown make the discovery document, the keys or the groups
	// unavailable.
	discoveryDown, keysDown, groupsDown bool
	// groups is the token with the distributed claim of the groups.
	groups string
	// held delays the end of the response for the keys until it is closed.
	held    chan struct{}
	fetched int
}

func newLogin(t *testing.T, key *rsa.PrivateKey) *login {
	t.Helper()
	l := &login{key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		l.answer(w, l.discoveryDown, map[string]any{"issuer": l.URL, "jwks_uri": l.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		var held chan struct{}
		l.set(func(l *login) {
			held = l.held
			if held != nil {
				l.fetched++
			}
		})
		if held != nil {
			w.WriteHeader(http.StatusBadGateway)
			_ = http.NewResponseController(w).Flush()
			<-held
			return
		}
		number := func(i *big.Int) string { return base64.RawURLEncoding.EncodeToString(i.Bytes()) }
		l.answer(w, l.keysDown, map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "k1",
			"n": number(key.N), "e": number(big.NewInt(int64(key.E))),
		}}})
	})
	mux.HandleFunc("/groups", func(w http.ResponseWriter, _ *http.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fetched++
		if l.groupsDown {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		fmt.Fprint(w, l.groups)
	})
	l.Server = httptest.NewTLSServer(mux)
	t.Cleanup(l.Close)
	l.caFile = filepath.Join(t.TempDir(), "ca.pem")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.Certificate().Raw})
	if err := os.WriteFile(l.caFile, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *login) answer(w http.ResponseWriter, down bool, body any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fetched++
	if down {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

func (l *login) set(change func(*login)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

// requests returns the number of requests so far.
func (l *login) requests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fetched
}

// token returns a token with these claims, in addition to those of a valid token for alice.
func (l *login) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	all := map[string]any{"iss": l.URL, "aud": publicURL, "sub": "alice", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix()}
	for name, value := range claims {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	return sign(t, l.key, map[string]any{"alg": "RS256", "kid": "k1", "typ": "JWT"}, all)
}

func sign(t *testing.T, key *rsa.PrivateKey, header, claims map[string]any) string {
	t.Helper()
	part := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	signed := part(header) + "." + part(claims)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func newKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// newIssuerDoor returns a door for the tokens of an issuer. All users have permission.
func newIssuerDoor(t *testing.T, l *login, change ...func(*OIDCOptions)) *door {
	t.Helper()
	d := newDoor(t, func(cfg *AuthenticatorConfig) {
		cfg.Options.Mode, cfg.Options.PublicURL = ModeOIDC, publicURL
		cfg.Options.OIDC.IssuerURL, cfg.Options.OIDC.CAFile = l.URL, l.caFile
		for _, c := range change {
			c(&cfg.Options.OIDC)
		}
	})
	for _, name := range []string{l.URL + "#alice", "alice", "alice@example.com", "oidc:alice"} {
		d.people.entry[name] = true
	}
	return d
}

// open runs the background work of the mode until the test ends.
func (d *door) open(t *testing.T) *door {
	t.Helper()
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *door) ready(t *testing.T) *door {
	t.Helper()
	polltest.Eventually(t, "tokens can be checked", func() error { return d.Check(t.Context()) })
	return d
}

func TestTokensOfAnIssuer(t *testing.T) {
	key, otherKey := newKey(t), newKey(t)
	l := newLogin(t, key)
	hour := time.Now().Add(time.Hour).Unix()
	groups := func(o *OIDCOptions) { o.GroupsClaim, o.GroupsPrefix = "groups", "oidc:" }
	noPrefixes := func(o *OIDCOptions) { o.UsernamePrefix, o.GroupsClaim = "-", "groups" }
	tests := map[string]struct {
		options func(*OIDCOptions)
		token   string
		status  int
		says    string
		user    string
		groups  []string
	}{
		"a good one":                     {token: l.token(t, nil), status: 200, user: l.URL + "#alice"},
		"one of several audiences":       {token: l.token(t, map[string]any{"aud": []string{"other", publicURL}}), status: 200, user: l.URL + "#alice"},
		"for an audience of another URL": {token: l.token(t, map[string]any{"aud": "https://other.example.com"}), status: 401, says: publicURL},
		"without an audience":            {token: l.token(t, map[string]any{"aud": nil}), status: 401},
		"of another issuer":              {token: l.token(t, map[string]any{"iss": "https://evil.example.com"}), status: 401},
		"that has ended":                 {token: l.token(t, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), status: 401},
		"without an end":                 {token: l.token(t, map[string]any{"exp": nil}), status: 401},
		"that begins later":              {token: l.token(t, map[string]any{"nbf": hour}), status: 401},
		"signed by somebody else":        {token: sign(t, otherKey, map[string]any{"alg": "RS256", "kid": "k1"}, map[string]any{"iss": l.URL, "aud": publicURL, "sub": "alice", "exp": hour}), status: 401},
		"that was changed":               {token: strings.Replace(l.token(t, nil), ".", ".e30", 1), status: 401},
		"without a signature": {token: base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." +
			strings.Split(l.token(t, nil), ".")[1] + ".", status: 401},
		"with an algorithm like an error": {token: sign(t, key, map[string]any{"alg": "fetching keys"}, map[string]any{"iss": l.URL}), status: 401},
		"that is no JWT":                  {token: "opaque", status: 401},
		"without the claim of the name":   {token: l.token(t, map[string]any{"sub": nil}), status: 401},
		"with groups and their prefix":    {options: groups, token: l.token(t, map[string]any{"groups": []string{"platform", "system:masters"}}), status: 200, user: l.URL + "#alice", groups: []string{"oidc:platform", "oidc:system:masters"}},
		"with one group as a string":      {options: groups, token: l.token(t, map[string]any{"groups": "platform"}), status: 200, user: l.URL + "#alice", groups: []string{"oidc:platform"}},
		"with groups that nobody asked":   {token: l.token(t, map[string]any{"groups": []string{"platform"}}), status: 200, user: l.URL + "#alice"},
		"with names that have no prefix":  {options: noPrefixes, token: l.token(t, map[string]any{"groups": []string{"platform"}}), status: 200, user: "alice", groups: []string{"platform"}},
		"that claims system:masters":      {options: noPrefixes, token: l.token(t, map[string]any{"groups": []string{"a", "system:masters"}}), status: 403, says: "system:masters"},
		"that claims another such group":  {options: noPrefixes, token: l.token(t, map[string]any{"groups": []string{"system:serviceaccounts:kube-system"}}), status: 403, says: "prefix"},
		"that claims a service account":   {options: noPrefixes, token: l.token(t, map[string]any{"sub": "system:serviceaccount:kube-system:admin"}), status: 403, says: "prefix"},
		"with a prefix of one's own":      {options: func(o *OIDCOptions) { o.UsernamePrefix = "oidc:" }, token: l.token(t, nil), status: 200, user: "oidc:alice"},
		"with an email as the name":       {options: func(o *OIDCOptions) { o.UsernameClaim = "email" }, token: l.token(t, map[string]any{"email": "alice@example.com", "email_verified": true}), status: 200, user: "alice@example.com"},
		"with an email nobody verified":   {options: func(o *OIDCOptions) { o.UsernameClaim = "email" }, token: l.token(t, map[string]any{"email": "alice@example.com", "email_verified": false}), status: 401},
		"for audiences of one's own":      {options: func(o *OIDCOptions) { o.Audiences = []string{"cli", "web"} }, token: l.token(t, map[string]any{"aud": "web"}), status: 200, user: l.URL + "#alice"},
		"for the URL where others are":    {options: func(o *OIDCOptions) { o.Audiences = []string{"cli", "web"} }, token: l.token(t, nil), status: 401, says: "cli or web"},
		"of somebody who may not come in": {token: l.token(t, map[string]any{"sub": "mallory"}), status: 403, says: "coder-k8s-mcp-user"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			change := []func(*OIDCOptions){}
			if tc.options != nil {
				change = append(change, tc.options)
			}
			d := newIssuerDoor(t, l, change...).open(t).ready(t)
			w := d.knock(t, "Bearer "+tc.token)
			if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.says) {
				t.Fatalf("the answer is %d %s, want %d with %q in it\n%s", w.Code, w.Body, tc.status, tc.says, d.logs)
			}
			if strings.Contains(d.logs.String(), tc.token) || strings.Contains(w.Body.String(), tc.token) {
				t.Errorf("the token is in the log or in the answer:\n%s\n%s", d.logs, w.Body)
			}
			if tc.status == http.StatusUnauthorized {
				want := `Bearer realm="coder-k8s-mcp", error="invalid_token", resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`
				if got := w.Header().Get("WWW-Authenticate"); got != want {
					t.Errorf("the challenge is %s, want %s", got, want)
				}
			}
			if tc.status != http.StatusOK {
				return
			}
			u, _ := request.UserFrom(d.passed[0].Context())
			if u.GetName() != tc.user || !slices.Equal(u.GetGroups(), tc.groups) {
				t.Errorf("the caller is %q in %q, want %q in %q", u.GetName(), u.GetGroups(), tc.user, tc.groups)
			}
		})
	}
}

func TestAnIssuerThatIsAway(t *testing.T) {
	l := newLogin(t, newKey(t))
	good := "Bearer " + l.token(t, nil)
	t.Run("before the server starts", func(t *testing.T) {
		d := newIssuerDoor(t, l)
		if w := d.knock(t, good); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("the answer is %d %s", w.Code, w.Body)
		}
		if err := d.Check(t.Context()); !errors.Is(err, errNotStarted) {
			t.Errorf("the check says %v", err)
		}
		if w := d.knock(t); w.Code != http.StatusUnauthorized {
			t.Errorf("without a token the answer is %d %s", w.Code, w.Body)
		}
	})
	t.Run("when the server starts", func(t *testing.T) {
		l.set(func(l *login) { l.discoveryDown = true })
		defer l.set(func(l *login) { l.discoveryDown = false })
		d := newIssuerDoor(t, l).open(t)
		polltest.Eventually(t, "the issuer was asked in vain", func() error {
			if err := d.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "502") {
				return errors.New("the check does not say so")
			}
			return nil
		})
		if w := d.knock(t, good); w.Code != http.StatusServiceUnavailable {
			t.Errorf("the answer is %d %s", w.Code, w.Body)
		}
	})
	t.Run("when its keys are needed first", func(t *testing.T) {
		l.set(func(l *login) { l.keysDown = true })
		defer l.set(func(l *login) { l.keysDown = false })
		d := newIssuerDoor(t, l).open(t).ready(t)
		if w := d.knock(t, good); w.Code != http.StatusServiceUnavailable {
			t.Errorf("the answer is %d %s", w.Code, w.Body)
		}
		l.set(func(l *login) { l.keysDown = false })
		// The failed request may still be ending, and the next caller shares it.
		polltest.Eventually(t, "a caller gets in after the issuer came back", func() error {
			if w := d.knock(t, good); w.Code != http.StatusOK {
				return fmt.Errorf("the answer is %d %s", w.Code, w.Body)
			}
			return nil
		})
	})
	t.Run("when callers share a request for its keys that fails", func(t *testing.T) {
		held := make(chan struct{})
		l.set(func(l *login) { l.held = held })
		defer l.set(func(l *login) { l.held = nil })
		d := newIssuerDoor(t, l).open(t).ready(t)
		var callers sync.WaitGroup
		calls := func(jti string) {
			token := l.token(t, map[string]any{"jti": jti})
			callers.Go(func() {
				if w := d.knock(t, "Bearer "+token); w.Code != http.StatusServiceUnavailable {
					t.Errorf("the answer to caller %s is %d %s", jti, w.Code, w.Body)
				}
			})
		}
		before := l.requests()
		calls("first")
		polltest.Eventually(t, "the keys are requested", func() bool { return l.requests() > before })
		for i := range 20 {
			calls(fmt.Sprint(i))
		}
		close(held)
		callers.Wait()
	})
	t.Run("after its keys are known", func(t *testing.T) {
		d := newIssuerDoor(t, l).open(t).ready(t)
		if w := d.knock(t, good); w.Code != http.StatusOK {
			t.Fatalf("the answer is %d %s", w.Code, w.Body)
		}
		l.set(func(l *login) { l.keysDown, l.discoveryDown = true, true })
		defer l.set(func(l *login) { l.keysDown, l.discoveryDown = false, false })
		if w := d.knock(t, "Bearer "+l.token(t, map[string]any{"jti": "another"})); w.Code != http.StatusOK {
			t.Errorf("another token gets %d %s", w.Code, w.Body)
		}
		if err := d.Check(t.Context()); err != nil {
			t.Errorf("the check says %v", err)
		}
	})
}

// TestInvalidTokensOfAnIssuerAreNotRemembered checks it because the cache has no maximum size.
func TestInvalidTokensOfAnIssuerAreNotRemembered(t *testing.T) {
	key := newKey(t)
	l := newLogin(t, key)
	d := newIssuerDoor(t, l).open(t).ready(t)
	// The keys are served without a cache lifetime, so each verification requests them again.
	forged := sign(t, key, map[string]any{"alg": "RS256", "kid": "other"}, map[string]any{"iss": l.URL, "aud": publicURL, "sub": "alice", "exp": time.Now().Add(time.Hour).Unix()})
	before := l.requests()
	polltest.Eventually(t, "the keys are requested again", func() bool {
		if w := d.knock(t, "Bearer "+forged); w.Code != http.StatusUnauthorized {
			t.Fatalf("the answer is %d %s", w.Code, w.Body)
		}
		return l.requests() > before+1
	})
}

// TestGroupsThatATokenRefersTo checks distributed claims: the token has the address of the groups.
func TestGroupsThatATokenRefersTo(t *testing.T) {
	l := newLogin(t, newKey(t))
	l.groups = l.token(t, map[string]any{"groups": []string{"platform"}})
	d := newIssuerDoor(t, l, func(o *OIDCOptions) { o.GroupsClaim = "groups" }).open(t).ready(t)
	good := "Bearer " + l.token(t, map[string]any{
		"_claim_names": map[string]string{"groups": "here"}, "_claim_sources": map[string]any{"here": map[string]string{"endpoint": l.URL + "/groups"}},
	})
	l.set(func(l *login) { l.groupsDown = true })
	if w := d.knock(t, good); w.Code != http.StatusServiceUnavailable || !strings.Contains(d.logs.String(), "502") {
		t.Errorf("without the groups the answer is %d %s\n%s", w.Code, w.Body, d.logs)
	}
	l.set(func(l *login) { l.groupsDown = false })
	// The library loads the keys for the groups in the background.
	polltest.Eventually(t, "the token is accepted", func() bool {
		w := d.knock(t, good)
		if w.Code != http.StatusOK && w.Code != http.StatusServiceUnavailable {
			t.Fatalf("the answer is %d %s\n%s", w.Code, w.Body, d.logs)
		}
		return w.Code == http.StatusOK
	})
	if u, _ := request.UserFrom(d.passed[0].Context()); !slices.Equal(u.GetGroups(), []string{"platform"}) {
		t.Errorf("the caller is in %q", u.GetGroups())
	}
	before := l.requests()
	if w := d.knock(t, good); w.Code != http.StatusOK || l.requests() != before {
		t.Errorf("the second time the answer is %d %s after %d requests", w.Code, w.Body, l.requests()-before)
	}
}

// slowKeys accepts every signature after a time. It needs no connection.
type slowKeys time.Duration

func (k slowKeys) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Duration(k)):
		return base64.RawURLEncoding.DecodeString(strings.Split(jwt, ".")[1])
	}
}

// TestTokensOfAnIssuerInTime checks that a token is never accepted after its expiry, whatever is
// cached, and that nobody waits long for the issuer.
func TestTokensOfAnIssuerInTime(t *testing.T) {
	const url = "https://login.example.com"
	part := base64.RawURLEncoding.EncodeToString
	token := part([]byte(`{"alg":"RS256"}`)) + "." +
		part(fmt.Appendf(nil, `{"iss":%q,"aud":%q,"sub":"alice","exp":%d}`, url, publicURL, bubbleStart.Add(8*time.Second).Unix())) + "." + part([]byte("signature"))
	type step struct {
		at     time.Duration
		status int
	}
	for name, tc := range map[string]struct {
		keys  slowKeys
		steps []step
	}{
		"one that ends":        {0, []step{{0, 200}, {7 * time.Second, 200}, {8 * time.Second, 401}, {9 * time.Second, 401}}},
		"an issuer that hangs": {slowKeys(20 * time.Second), []step{{askTimeout, 503}}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDoor(t, func(cfg *AuthenticatorConfig) {
					cfg.Options.Mode, cfg.Options.PublicURL, cfg.Options.OIDC.IssuerURL = ModeOIDC, publicURL, url
				})
				d.people.entry[url+"#alice"] = true
				d.source.(*issuer).options.KeySet = tc.keys
				d.open(t)
				for i, step := range tc.steps {
					if i > 0 {
						pass(time.Until(bubbleStart.Add(step.at)))
					}
					w := d.knock(t, "Bearer "+token)
					if at := time.Since(bubbleStart); w.Code != step.status || at != step.at {
						t.Errorf("after %s the answer is %d %s, want %d after %s\n%s", at, w.Code, w.Body, step.status, step.at, d.logs)
					}
				}
				// The library ends a check that hangs.
				pass(time.Minute)
			})
		})
	}
}

func TestAnIssuerWhoseCertificatesCannotBeRead(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{empty, filepath.Join(t.TempDir(), "missing.pem")} {
		o := *NewAuthenticationOptions()
		o.Mode, o.PublicURL, o.OIDC.IssuerURL, o.OIDC.CAFile = ModeOIDC, publicURL, "https://login.example.com", file
		if _, err := NewAuthenticator(AuthenticatorConfig{Options: o, BindAddress: ":8090"}); err == nil || !strings.Contains(err.Error(), "--mcp-oidc-ca-file") || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestAnIssuerWithAnotherCertificateIsNotTrusted(t *testing.T) {
	l := newLogin(t, newKey(t))
	d := newIssuerDoor(t, l, func(o *OIDCOptions) { o.CAFile = "" }).open(t)
	polltest.Eventually(t, "the issuer was asked in vain", func() error {
		if err := d.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
			return errors.New("the check does not say so")
		}
		return nil
	})
}
