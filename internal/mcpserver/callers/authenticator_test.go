package callers

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/auth"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
)

func nameOf(name string, groups ...string) func(*people) {
	return func(p *people) {
		p.users[aliceToken] = authenticationv1.UserInfo{Username: name, Groups: groups}
		p.entry[name] = true
	}
}

func TestWhoGetsIn(t *testing.T) {
	const realm = `Bearer realm="coder-k8s-mcp"`
	alice := []string{"Bearer " + aliceToken}
	tests := map[string]struct {
		authorization []string
		prepare       func(*people)
		status        int
		says          string
		header        map[string]string
		observed      string
	}{
		"a good token":                  {authorization: alice, status: 200, observed: "ok alice"},
		"that of a service account":     {authorization: []string{"Bearer " + robotToken}, status: 200, observed: "ok system:serviceaccount:ns:robot"},
		"the scheme in small letters":   {authorization: []string{"bearer " + aliceToken}, status: 200, observed: "ok alice"},
		"no token":                      {status: 401, says: "kubectl create token", header: map[string]string{"Www-Authenticate": realm}, observed: "missing "},
		"another scheme":                {authorization: []string{"Basic " + aliceToken}, status: 401, header: map[string]string{"Www-Authenticate": realm}, observed: "missing "},
		"two tokens":                    {authorization: []string{"Bearer " + aliceToken, "Bearer " + robotToken}, status: 401, observed: "missing "},
		"a token that nobody knows":     {authorization: []string{"Bearer made-up"}, status: 401, header: map[string]string{"Www-Authenticate": realm + `, error="invalid_token"`}, observed: "invalid "},
		"a token for another audience":  {authorization: alice, prepare: func(p *people) { p.audiences[aliceToken] = []string{"https://kubernetes.default.svc"} }, status: 401, says: "--audience=coder-k8s-mcp", observed: "invalid "},
		"a token without audiences":     {authorization: alice, prepare: func(p *people) { p.audiences[aliceToken] = nil }, status: 401, observed: "invalid "},
		"a member of system:masters":    {authorization: alice, prepare: nameOf("admin", "system:masters"), status: 403, says: "system:masters", observed: "refused admin"},
		"a node":                        {authorization: alice, prepare: nameOf("system:node:a"), status: 403, says: "system:node:a", observed: "refused system:node:a"},
		"a part of the control plane":   {authorization: alice, prepare: nameOf("system:kube-scheduler"), status: 403, observed: "refused system:kube-scheduler"},
		"the anonymous user":            {authorization: alice, prepare: nameOf("system:anonymous"), status: 403, observed: "refused system:anonymous"},
		"a token of nobody":             {authorization: alice, prepare: nameOf(""), status: 403, observed: "refused "},
		"a name with a line in it":      {authorization: alice, prepare: nameOf("a\r\nb"), status: 403, says: "ASCII", observed: "refused a\r\nb"},
		"a user without the right":      {authorization: alice, prepare: func(p *people) { p.entry["alice"] = false }, status: 403, says: "coder-k8s-mcp-user", observed: "denied alice"},
		"entry that nobody can decide":  {authorization: alice, prepare: func(p *people) { p.entryErr = errors.New("dial tcp 10.0.0.1:443") }, status: 503, says: "try again", header: map[string]string{"Retry-After": "2"}, observed: "unavailable alice"},
		"an API server that is away":    {authorization: alice, prepare: func(p *people) { p.down = true }, status: 503, says: "try again", header: map[string]string{"Retry-After": "2", "Www-Authenticate": ""}, observed: "unavailable "},
		"no token, API server away":     {prepare: func(p *people) { p.down = true }, status: 401, observed: "missing "},
		"a token that has ended by now": {authorization: []string{"Bearer " + jwtUntil(0)}, prepare: func(p *people) { p.users[jwtUntil(0)] = authenticationv1.UserInfo{Username: "alice"} }, status: 401, observed: "invalid "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDoor(t)
			if tc.prepare != nil {
				d.people.set(tc.prepare)
			}
			w := d.knock(t, tc.authorization...)
			body := w.Body.String()
			if w.Code != tc.status || !strings.Contains(body, tc.says) {
				t.Errorf("the answer is %d %q, want %d with %q", w.Code, body, tc.status, tc.says)
			}
			for name, want := range tc.header {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if (len(d.passed) == 1) != (tc.status == 200) {
				t.Errorf("%d requests went through", len(d.passed))
			}
			if diff := cmp.Diff([]string{tc.observed}, d.observed); diff != "" {
				t.Errorf("observed (-want +got):\n%s", diff)
			}
			for _, secret := range []string{aliceToken, robotToken, jwtUntil(0), "dial", "10.0.0.1"} {
				if strings.Contains(body, secret) {
					t.Errorf("the answer has %q in it: %s", secret, body)
				}
			}
			for _, secret := range []string{aliceToken, robotToken, jwtUntil(0)} {
				if strings.Contains(d.logs.String(), secret) {
					t.Errorf("the log has a token in it: %s", d.logs)
				}
			}
		})
	}
}

func TestTheTokenIsReviewedForTheAudienceOfThisServer(t *testing.T) {
	d := newDoor(t)
	d.knock(t, "Bearer "+aliceToken)
	want := authenticationv1.TokenReviewSpec{Token: aliceToken, Audiences: []string{"coder-k8s-mcp"}}
	if diff := cmp.Diff(want, d.people.last); diff != "" {
		t.Errorf("the review (-want +got):\n%s", diff)
	}
}

func TestARequestKnowsItsCallerAndNotItsToken(t *testing.T) { bubble(t, requestKnowsItsCaller) }

func requestKnowsItsCaller(t *testing.T) {
	token := jwtUntil(5 * time.Minute)
	d := newDoor(t)
	d.people.set(func(p *people) { p.users[token] = p.users[aliceToken] })
	d.knock(t, "Bearer "+token)
	if len(d.passed) != 1 {
		t.Fatalf("%d requests went through", len(d.passed))
	}
	r := d.passed[0]
	u, ok := request.UserFrom(r.Context())
	if !ok || u.GetName() != "alice" || u.GetUID() != "1" || !cmp.Equal(u.GetGroups(), []string{"platform", "system:authenticated"}) ||
		!cmp.Equal(u.GetExtra(), map[string][]string{"k": {"v"}}) {
		t.Errorf("the caller is %+v", u)
	}
	info := auth.TokenInfoFromContext(r.Context())
	if info == nil || info.UserID != "alice" || info.Extra["user"] != u || !info.Expiration.Equal(bubbleStart.Add(5*time.Minute)) {
		t.Errorf("the SDK is told %+v", info)
	}
	if got := r.Header.Values("Authorization"); len(got) != 0 {
		t.Errorf("the request still has %q", got)
	}
}

func TestTheRequestOfTheClientIsLeftAsItWas(t *testing.T) {
	d := newDoor(t)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", nil)
	r.Header.Set("Authorization", "Bearer "+aliceToken)
	d.handler.ServeHTTP(httptest.NewRecorder(), r)
	if got := r.Header.Get("Authorization"); got != "Bearer "+aliceToken {
		t.Errorf("its Authorization header is %q", got)
	}
}

func TestHowLongARequestMayLast(t *testing.T) {
	endless := "h." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":1e30}`)) + ".s"
	tests := map[string]struct {
		token string
		want  time.Duration
		// known reports whether the expiry of the token is known.
		known bool
	}{
		"as long as the token":                {jwtUntil(10 * time.Minute), 10 * time.Minute, true},
		"an hour if the token lasts longer":   {jwtUntil(2 * time.Hour), time.Hour, true},
		"an hour if the token lasts for ever": {endless, time.Hour, true},
		"an hour if nobody knows":             {aliceToken, time.Hour, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDoor(t)
				d.people.set(func(p *people) { p.users[tc.token] = p.users[aliceToken] })
				d.knock(t, "Bearer "+tc.token)
				if len(d.passed) != 1 {
					t.Fatalf("%d requests went through", len(d.passed))
				}
				ctx := d.passed[0].Context()
				end, ok := ctx.Deadline()
				if !ok || !end.Equal(bubbleStart.Add(tc.want)) {
					t.Errorf("the request may last until %s, which is %s, want %s", end, end.Sub(bubbleStart), tc.want)
				}
				if info := auth.TokenInfoFromContext(ctx); info.Expiration.IsZero() == tc.known {
					t.Errorf("the SDK is told that the token ends at %s", info.Expiration)
				}
			})
		})
	}
}

func TestAStreamEndsWithItsToken(t *testing.T) { bubble(t, streamEndsWithItsToken) }

func streamEndsWithItsToken(t *testing.T) {
	d := newDoor(t)
	token := jwtUntil(time.Second)
	d.people.set(func(p *people) { p.users[token] = p.users[aliceToken] })
	var cause error
	d.handler = d.Authenticated(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		cause = r.Context().Err()
	}))
	d.knock(t, "Bearer "+token)
	if !errors.Is(cause, context.DeadlineExceeded) {
		t.Errorf("the stream ended with %v", cause)
	}
}

func TestTokensAtTheSameTimeStayApart(t *testing.T) {
	d := newDoor(t)
	tokens := map[string]string{"alice": aliceToken, "system:serviceaccount:ns:robot": robotToken}
	d.handler = d.Authenticated(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, _ := request.UserFrom(r.Context())
		info := auth.TokenInfoFromContext(r.Context())
		if want := r.Header.Get("Want"); u.GetName() != want || info.UserID != want || info.Extra["user"] != u {
			t.Errorf("%s came in as %s, and for the SDK as %s", want, u.GetName(), info.UserID)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	var group sync.WaitGroup
	for i := range 200 {
		name := []string{"alice", "system:serviceaccount:ns:robot"}[i%2]
		group.Go(func() {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", nil)
			r.Header.Set("Authorization", "Bearer "+tokens[name])
			r.Header.Set("Want", name)
			w := httptest.NewRecorder()
			d.handler.ServeHTTP(w, r)
			if w.Code != http.StatusNoContent {
				t.Errorf("%s got %d", name, w.Code)
			}
		})
	}
	group.Wait()
	if n := d.people.reviewed(); n != 2 {
		t.Errorf("two tokens were reviewed %d times", n)
	}
}

func TestModeNone(t *testing.T) {
	none := func(cfg *AuthenticatorConfig) { cfg.Options.Mode = ModeNone }
	t.Run("lets everybody act as the process", func(t *testing.T) {
		d := newDoor(t, none)
		for _, authorization := range [][]string{nil, {"Bearer " + aliceToken}} {
			if w := d.knock(t, authorization...); w.Code != http.StatusOK {
				t.Fatalf("the answer is %d %s", w.Code, w.Body)
			}
		}
		for _, r := range d.passed {
			if u, _ := request.UserFrom(r.Context()); u != (Local{}) {
				t.Errorf("the caller is %+v", u)
			}
			if info := auth.TokenInfoFromContext(r.Context()); info == nil || info.Extra["user"] != (Local{}) {
				t.Errorf("the SDK is told %+v", info)
			}
			if r.Header.Get("Authorization") != "" {
				t.Error("a token went through")
			}
		}
		if err := d.Check(t.Context()); err != nil {
			t.Errorf("not ready: %v", err)
		}
	})
	for name, tc := range map[string]struct {
		address   string
		inCluster bool
		says      string
	}{
		"on every address":              {address: ":8090", says: "127.0.0.1:8090"},
		"on every address of IPv6":      {address: "[::]:8090", says: "loopback"},
		"on an address of the network":  {address: "10.0.0.7:8090", says: "loopback"},
		"on a name that looks local":    {address: "localhost.example.com:8090", says: "loopback"},
		"on nothing":                    {address: "", says: "loopback"},
		"in a pod, also on loopback":    {address: "127.0.0.1:8090", inCluster: true, says: "port-forward"},
		"on another loopback address":   {address: "127.8.8.8:1"},
		"on that of IPv6":               {address: "[::1]:8090"},
		"on that of IPv4 inside IPv6":   {address: "[::ffff:127.0.0.1]:8090"},
		"on the usual name of loopback": {address: "localhost:8090"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewAuthenticator(AuthenticatorConfig{Options: AuthenticationOptions{Mode: ModeNone}, BindAddress: tc.address, InCluster: tc.inCluster})
			if (err == nil) != (tc.says == "") || (err != nil && !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("the error is %v, want %q in it", err, tc.says)
			}
		})
	}
}

// TestConfirmationKey checks who gets the same key: a token on all replicas, and without authentication one process.
func TestConfirmationKey(t *testing.T) {
	none := func(cfg *AuthenticatorConfig) { cfg.Options.Mode = ModeNone }
	one, two, local, other := newDoor(t), newDoor(t), newDoor(t, none), newDoor(t, none)
	key := func(d *door, authorization ...string) string {
		t.Helper()
		if w := d.knock(t, authorization...); w.Code != http.StatusOK {
			t.Fatalf("the answer is %d %s", w.Code, w.Body)
		}
		info := auth.TokenInfoFromContext(d.passed[len(d.passed)-1].Context())
		key, err := ConfirmationKey(WithCaller(t.Context(), info))
		if err != nil || len(key) < 32 || strings.Contains(string(key), aliceToken) {
			t.Fatalf("the key is %q, error %v", key, err)
		}
		return string(key)
	}
	alice, robot := "Bearer "+aliceToken, "Bearer "+robotToken
	if first := key(one, alice); key(one, alice) != first || key(two, alice) != first {
		t.Error("a token has two keys")
	}
	if key(local) != key(local, alice) {
		t.Error("a process without authentication has two keys")
	}
	all := map[string]bool{key(one, alice): true, key(one, robot): true, key(local): true, key(other): true}
	if len(all) != 4 {
		t.Errorf("two tokens and two processes have %d keys", len(all))
	}
	for _, ctx := range []context.Context{t.Context(), WithCaller(t.Context(), nil), WithCaller(t.Context(), &auth.TokenInfo{})} {
		if key, err := ConfirmationKey(ctx); !errors.Is(err, errNoCaller) {
			t.Errorf("nobody has the key %x, error %v", key, err)
		}
	}
}

// BenchmarkAuthenticated measures a request whose token and permission are cached.
func BenchmarkAuthenticated(b *testing.B) {
	id, err := NewAuthenticator(AuthenticatorConfig{Options: *NewAuthenticationOptions(), BindAddress: ":8090", Kube: newPeople().kube()})
	if err != nil {
		b.Fatal(err)
	}
	passed := 0
	handler := id.Authenticated(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ }))
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/mcp", nil)
	r.Header.Set("Authorization", "Bearer "+aliceToken)
	w := httptest.NewRecorder()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		handler.ServeHTTP(w, r)
		n++
	}
	if passed != n {
		b.Fatalf("%d of %d requests were let in", passed, n)
	}
}
