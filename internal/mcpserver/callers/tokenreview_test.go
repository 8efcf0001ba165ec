package callers

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestTokensAreRememberedForAShortTime(t *testing.T) {
	type step struct {
		at     time.Duration
		status int
		// reviews is the number of reviews at that time.
		reviews int
	}
	known := func(token string) func(*people) {
		return func(p *people) { p.users[token] = authenticationv1.UserInfo{Username: "alice"} }
	}
	forgotten := func(p *people) { p.users = nil }
	tests := map[string]struct {
		token string
		// before is called before the first step, after is called after it.
		before, after func(*people)
		steps         []step
	}{
		"a good one for ten seconds": {token: aliceToken,
			steps: []step{{0, 200, 1}, {9 * time.Second, 200, 1}, {11 * time.Second, 200, 2}}},
		"a revoked one works for ten seconds": {token: aliceToken, after: forgotten,
			steps: []step{{0, 200, 1}, {9 * time.Second, 200, 1}, {11 * time.Second, 401, 2}, {15 * time.Second, 401, 2}, {17 * time.Second, 401, 3}}},
		"one that is no good for five": {token: "new", after: known("new"),
			steps: []step{{0, 401, 1}, {4 * time.Second, 401, 1}, {6 * time.Second, 200, 2}}},
		"one that ends does not work longer": {token: jwtUntil(3 * time.Second), before: known(jwtUntil(3 * time.Second)),
			steps: []step{{0, 200, 1}, {2 * time.Second, 200, 1}, {3 * time.Second, 401, 1}, {4 * time.Second, 401, 1}}},
		"one that has ended does not work, whatever the API server says": {token: jwtUntil(-time.Minute), before: known(jwtUntil(-time.Minute)),
			steps: []step{{0, 401, 1}, {time.Second, 401, 1}, {11 * time.Second, 401, 2}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDoor(t)
				if tc.before != nil {
					d.people.set(tc.before)
				}
				for i, step := range tc.steps {
					pass(time.Until(bubbleStart.Add(step.at)))
					if w := d.knock(t, "Bearer "+tc.token); w.Code != step.status {
						t.Errorf("after %s the answer is %d %s, want %d", step.at, w.Code, w.Body, step.status)
					}
					if n := d.people.reviewed(); n != step.reviews {
						t.Errorf("after %s there were %d reviews, want %d", step.at, n, step.reviews)
					}
					if i == 0 && tc.after != nil {
						d.people.set(tc.after)
					}
				}
			})
		})
	}
}

// TestFloodOfUnknownTokens checks that invalid tokens of any number of callers cause few
// reviews, and that callers that were accepted recently can continue.
func TestFloodOfUnknownTokens(t *testing.T) { bubble(t, floodOfUnknownTokens) }

func floodOfUnknownTokens(t *testing.T) {
	d := newDoor(t)
	if w := d.knock(t, "Bearer "+aliceToken); w.Code != http.StatusOK {
		t.Fatalf("before the flood: %d %s", w.Code, w.Body)
	}
	before := d.people.reviewed()
	limited := 0
	for i := range 5000 {
		switch w := d.knock(t, fmt.Sprintf("Bearer made-up-%d", i)); w.Code {
		case http.StatusUnauthorized:
		case http.StatusServiceUnavailable:
			limited++
			if w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "too many unknown tokens") {
				t.Fatalf("%v %s", w.Header(), w.Body)
			}
		default:
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if n := d.people.reviewed() - before; n > newTokensBurst || limited != 5000-n {
		t.Errorf("%d reviews, and %d of 5000 were refused; want at most %d reviews", n, limited, newTokensBurst)
	}
	// The cached result for alice expires while the flood continues.
	pass(goodTTL + time.Second)
	for i := range 1000 {
		d.knock(t, fmt.Sprintf("Bearer more-%d", i))
	}
	if w := d.knock(t, "Bearer "+aliceToken); w.Code != http.StatusOK {
		t.Errorf("alice gets %d %s", w.Code, w.Body)
	}
	if w := d.knock(t, "Bearer "+robotToken); w.Code != http.StatusServiceUnavailable {
		t.Errorf("a new caller gets %d, want 503", w.Code)
	}
	pass(time.Second)
	if w := d.knock(t, "Bearer "+robotToken); w.Code != http.StatusOK {
		t.Errorf("a second later a new caller gets %d %s", w.Code, w.Body)
	}
	// A revoked token loses the exemption.
	d.people.set(func(p *people) { delete(p.users, aliceToken) })
	pass(goodTTL + time.Second)
	if w := d.knock(t, "Bearer "+aliceToken); w.Code != http.StatusUnauthorized {
		t.Errorf("with a revoked token alice gets %d", w.Code)
	}
	pass(badTTL + time.Second)
	for i := range 1000 {
		d.knock(t, fmt.Sprintf("Bearer yet-more-%d", i))
	}
	if w := d.knock(t, "Bearer "+aliceToken); w.Code != http.StatusServiceUnavailable {
		t.Errorf("the revoked token is still exempt: %d", w.Code)
	}
}

func TestAReviewThatFailsIsNotRemembered(t *testing.T) {
	d := newDoor(t)
	d.people.set(func(p *people) { p.down = true })
	if w := d.knock(t, "Bearer "+aliceToken); w.Code != http.StatusServiceUnavailable {
		t.Fatalf("the answer is %d %s", w.Code, w.Body)
	}
	d.people.set(func(p *people) { p.down = false })
	if w := d.knock(t, "Bearer "+aliceToken); w.Code != http.StatusOK {
		t.Errorf("after it came back the answer is %d %s", w.Code, w.Body)
	}
}

func TestOneTokenIsReviewedOnceAtATime(t *testing.T) {
	d := newDoor(t)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() { d.knock(t, "Bearer "+aliceToken) })
	}
	group.Wait()
	if n := d.people.reviewed(); n != 1 {
		t.Errorf("20 requests with one token made %d reviews", n)
	}
}

func TestTokensAreKeptOnlyAsAHash(t *testing.T) {
	hash := func() string {
		d := newDoor(t)
		d.knock(t, "Bearer "+aliceToken)
		keys := d.source.(*tokenReviewer).lately.Keys()
		if len(keys) != 1 {
			t.Fatalf("%d tokens are kept", len(keys))
		}
		return keys[0].(string)
	}
	one, other := hash(), hash()
	if strings.Contains(one, aliceToken) || len(one) != 32 {
		t.Errorf("the token is kept as %q", one)
	}
	if one == other {
		t.Error("two servers keep a token under the same hash: it has no key")
	}
}

// TestTheTokenIsNeverLogged sends reviews over HTTP at a verbosity at which client-go logs
// bodies of requests.
func TestTheTokenIsNeverLogged(t *testing.T) {
	const secret = "a-very-secret-token"
	for name, handler := range map[string]http.HandlerFunc{
		"good": func(w http.ResponseWriter, r *http.Request) {
			if path.Base(r.URL.Path) == "subjectaccessreviews" {
				http.Error(w, "not now", http.StatusServiceUnavailable)
				return
			}
			var review authenticationv1.TokenReview
			body, _ := io.ReadAll(r.Body)
			if err := json.Unmarshal(body, &review); err != nil || review.Spec.Token != secret {
				t.Errorf("the review is %s: %v", body, err)
			}
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: review.Spec.Audiences,
				User: authenticationv1.UserInfo{Username: "alice"}}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(review)
		},
		"an error that repeats the request": func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			http.Error(w, string(body), http.StatusInternalServerError)
		},
		"an answer that cannot be read": func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(append([]byte("not JSON "), body...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := httptest.NewServer(handler)
			defer api.Close()
			kube, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
			if err != nil {
				t.Fatal(err)
			}
			d := newDoor(t, func(cfg *AuthenticatorConfig) { cfg.Kube = kube })
			w := d.knock(t, "Bearer "+secret)
			if strings.Contains(d.logs.String(), secret) || strings.Contains(w.Body.String(), secret) {
				t.Errorf("the token is in the log or in the answer:\n%s\n%s", d.logs, w.Body)
			}
		})
	}
}

// TestACheckThatHangs checks that the caller soon gets an answer, and that the log has the reason.
func TestACheckThatHangs(t *testing.T) {
	for _, resource := range []string{"tokenreviews", "subjectaccessreviews"} {
		t.Run(resource, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDoor(t)
				d.people.hangs = resource
				w := d.knock(t, "Bearer "+aliceToken)
				if took := time.Since(bubbleStart); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || took != askTimeout {
					t.Errorf("after %s the answer is %d %s", took, w.Code, w.Body)
				}
				if !strings.Contains(d.logs.String(), "deadline exceeded") {
					t.Errorf("the log does not say why: %s", d.logs)
				}
			})
		})
	}
}

func TestCheckOfTokenReviews(t *testing.T) {
	d := newDoor(t)
	check := func(want string) {
		t.Helper()
		err := d.Check(t.Context())
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("the check says %v, want %q in it", err, want)
		}
	}
	check("")
	if d.people.last.Token == "" || isKnown(d.people, d.people.last.Token) || !bearerHeader.MatchString("Bearer "+d.people.last.Token) {
		t.Errorf("the check asked about %q", d.people.last.Token)
	}
	first := d.people.last.Token
	check("")
	if d.people.last.Token == first {
		t.Error("two checks asked about the same token")
	}
	d.people.set(func(p *people) { p.down = true })
	check("tokens cannot be checked")
	d.people.set(func(p *people) { p.down = false })
	check("")
}

func TestCheckFindsAnAPIServerThatTakesEveryToken(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{
			Authenticated: true, User: authenticationv1.UserInfo{Username: "alice"}}})
	}))
	defer api.Close()
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	d := newDoor(t, func(cfg *AuthenticatorConfig) { cfg.Kube = kube })
	for range 2 {
		if err := d.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "random token") {
			t.Errorf("the check says %v", err)
		}
	}
}

func isKnown(p *people, token string) bool {
	_, ok := p.users[token]
	return ok
}
