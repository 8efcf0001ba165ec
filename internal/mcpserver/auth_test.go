package mcpserver

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestWhoGetsIn(t *testing.T) {
	tests := map[string]struct {
		authorization []string
		prepare       func(*people)
		status        int
		says          string
		header        map[string]string
	}{
		"a good token":                   {authorization: []string{"Bearer " + aliceToken}, status: 200},
		"the scheme in small letters":    {authorization: []string{"bearer " + aliceToken}, status: 200},
		"no token":                       {status: 401, says: "kubectl create token", header: map[string]string{"Www-Authenticate": `Bearer realm="coder-k8s-mcp"`}},
		"another scheme":                 {authorization: []string{"Basic " + aliceToken}, status: 401},
		"an empty token":                 {authorization: []string{"Bearer "}, status: 401},
		"two tokens":                     {authorization: []string{"Bearer " + aliceToken, "Bearer " + robotToken}, status: 401},
		"a token that nobody knows":      {authorization: []string{"Bearer made-up"}, status: 401, header: map[string]string{"Www-Authenticate": `Bearer realm="coder-k8s-mcp", error="invalid_token"`}},
		"a token for another audience":   {authorization: []string{"Bearer " + aliceToken}, prepare: func(p *people) { p.audiences[aliceToken] = []string{"https://kubernetes.default.svc"} }, status: 401, says: "audience"},
		"a token without audiences":      {authorization: []string{"Bearer " + aliceToken}, prepare: func(p *people) { p.audiences[aliceToken] = nil }, status: 401},
		"a member of system:masters":     {authorization: []string{"Bearer " + aliceToken}, prepare: as("admin", "system:masters"), status: 403, says: "system:masters"},
		"a node":                         {authorization: []string{"Bearer " + aliceToken}, prepare: as("system:node:a"), status: 403, says: "system:node:a"},
		"a part of the control plane":    {authorization: []string{"Bearer " + aliceToken}, prepare: as("system:kube-scheduler"), status: 403},
		"the anonymous user":             {authorization: []string{"Bearer " + aliceToken}, prepare: as("system:anonymous"), status: 403},
		"a token of nobody":              {authorization: []string{"Bearer " + aliceToken}, prepare: as(""), status: 403},
		"a user without the right":       {authorization: []string{"Bearer " + aliceToken}, prepare: func(p *people) { p.entry["alice"] = false }, status: 403, says: "coder-k8s-mcp-user"},
		"an API server that is away":     {authorization: []string{"Bearer " + aliceToken}, prepare: func(p *people) { p.down = true }, status: 503, says: "try again", header: map[string]string{"Retry-After": "2"}},
		"no token, API server away":      {prepare: func(p *people) { p.down = true }, status: 401},
		"a token in a form that is none": {authorization: []string{"Bearer a b"}, status: 401},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := running(t)
			if tc.prepare != nil {
				h.people.set(tc.prepare)
			}
			response, body := h.post(t, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), func(r *http.Request) {
				r.Header["Authorization"] = tc.authorization
			})
			if response.StatusCode != tc.status || !strings.Contains(body, tc.says) {
				t.Errorf("the answer is %d %q, want %d with %q", response.StatusCode, body, tc.status, tc.says)
			}
			for name, want := range tc.header {
				if got := response.Header.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if tc.status != 200 && (strings.Contains(body, aliceToken) || strings.Contains(body, "dial")) {
				t.Errorf("the answer says too much: %s", body)
			}
			if strings.Contains(h.logs.String(), aliceToken) {
				t.Error("the token is in the log")
			}
		})
	}
}

func as(name string, groups ...string) func(*people) {
	return func(p *people) {
		p.users[aliceToken] = authenticationv1.UserInfo{Username: name, Groups: groups}
		p.entry[name] = true
	}
}

func TestEntryIsAskedWithTheWholeCaller(t *testing.T) {
	h := running(t)
	h.post(t, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), nil)
	spec := h.people.lastSpec
	if spec.User != "alice" || spec.UID != "1" || !slices.Contains(spec.Groups, "platform") || len(spec.Extra["k"]) != 1 ||
		spec.NonResourceAttributes == nil || spec.NonResourceAttributes.Path != "/mcp" || spec.NonResourceAttributes.Verb != "post" {
		t.Errorf("the access review asks %+v", spec)
	}
}

func TestAnswersAboutTokensAreRememberedForAShortTime(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	jwt := func(expiry time.Time) string {
		return "h." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, expiry.Unix())) + ".s"
	}
	tests := map[string]struct {
		token string
		known bool
		// reviews is how many there are after each second from 0 on.
		at      []time.Duration
		reviews []int
	}{
		"a good one for ten seconds": {token: "good", known: true,
			at: []time.Duration{0, 9 * time.Second, 11 * time.Second}, reviews: []int{1, 1, 2}},
		"a bad one for five": {token: "bad",
			at: []time.Duration{0, 4 * time.Second, 6 * time.Second}, reviews: []int{1, 1, 2}},
		"a good one no longer than it lives": {token: jwt(start.Add(3 * time.Second)), known: true,
			at: []time.Duration{0, 2 * time.Second, 4 * time.Second}, reviews: []int{1, 1, 2}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPeople()
			if tc.known {
				p.users[tc.token] = authenticationv1.UserInfo{Username: "alice"}
			}
			clk := clocktesting.NewFakePassiveClock(start)
			reviewer := newTokenReviewer(p.clientset().AuthenticationV1().TokenReviews(), clk, []byte("key"))
			for i, at := range tc.at {
				clk.SetTime(start.Add(at))
				u, ok, err := reviewer.authenticate(t.Context(), tc.token)
				if err != nil || ok != tc.known || (ok && u.GetName() != "alice") {
					t.Fatalf("after %s: %v, %v, %v", at, u, ok, err)
				}
				if p.reviews != tc.reviews[i] {
					t.Errorf("after %s there were %d reviews, want %d", at, p.reviews, tc.reviews[i])
				}
			}
		})
	}
}

func TestAnswersAboutEntryAreRememberedForAShortTime(t *testing.T) {
	for name, tc := range map[string]struct {
		allowed bool
		ttl     time.Duration
	}{"yes for ten seconds": {true, 10 * time.Second}, "no for five": {false, 5 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			p := newPeople()
			p.entry["alice"] = tc.allowed
			start := time.Unix(1000, 0)
			clk := clocktesting.NewFakePassiveClock(start)
			reviewer := newEntryReviewer(p.clientset().AuthorizationV1().SubjectAccessReviews(), clk)
			for i, at := range []time.Duration{0, tc.ttl - time.Second, tc.ttl + time.Second} {
				clk.SetTime(start.Add(at))
				if ok, err := reviewer.mayEnter(t.Context(), &user.DefaultInfo{Name: "alice"}); err != nil || ok != tc.allowed {
					t.Errorf("after %s: %v, %v", at, ok, err)
				}
				if want := []int{1, 1, 2}[i]; p.accesses != want {
					t.Errorf("after %s there were %d reviews, want %d", at, p.accesses, want)
				}
			}
			if ok, _ := reviewer.mayEnter(t.Context(), &user.DefaultInfo{Name: "alice", Groups: []string{"other"}}); ok != tc.allowed || p.accesses != 3 {
				t.Errorf("alice in another group shares the answer: %d reviews", p.accesses)
			}
		})
	}
}

func TestAFailedReviewIsNotRemembered(t *testing.T) {
	p := newPeople()
	p.down = true
	reviewer := newTokenReviewer(p.clientset().AuthenticationV1().TokenReviews(), clocktesting.NewFakePassiveClock(time.Unix(1, 0)), nil)
	if _, _, err := reviewer.authenticate(t.Context(), aliceToken); err == nil {
		t.Fatal("no error from an API server that is away")
	}
	p.set(func(p *people) { p.down = false })
	if _, ok, err := reviewer.authenticate(t.Context(), aliceToken); err != nil || !ok {
		t.Errorf("after it came back: %v, %v", ok, err)
	}
}

func TestOneTokenIsReviewedOnceAtATime(t *testing.T) {
	h := running(t)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() { h.post(t, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), nil) })
	}
	group.Wait()
	if h.people.reviews != 1 {
		t.Errorf("20 requests with one token made %d reviews", h.people.reviews)
	}
}

func TestNothingIsSentWithoutACaller(t *testing.T) {
	kube := newKubeAPI(t)
	transport := &impersonator{next: http.DefaultTransport}
	send := func(r *http.Request) error {
		response, err := transport.RoundTrip(r)
		if err == nil {
			response.Body.Close()
		}
		return err
	}
	r := httptest.NewRequest(http.MethodGet, kube.URL+"/version", nil)
	r.RequestURI = ""
	if err := send(r); err == nil {
		t.Error("a request without a caller was sent")
	}
	masters := r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: "root", Groups: []string{"system:masters"}}))
	if err := send(masters); err == nil {
		t.Error("a request as system:masters was sent")
	}
	if seen := kube.requests("/version"); len(seen) != 0 {
		t.Fatalf("the API server saw %d requests", len(seen))
	}
	alice := r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: "alice"}))
	alice.Header["Impersonate-User"] = []string{"system:admin"}
	alice.Header["impersonate-group"] = []string{"system:masters"}
	alice.Header["Impersonate-Extra-Scopes"] = []string{"all"}
	if err := send(alice); err != nil {
		t.Fatal(err)
	}
	header := kube.requests("/version")[0].Header
	if header.Get("Impersonate-User") != "alice" || header.Get("Impersonate-Group") != "" || header.Get("Impersonate-Extra-Scopes") != "" {
		t.Errorf("headers that were there before went through: %v", header)
	}
	if alice.Header.Get("Impersonate-User") != "system:admin" {
		t.Error("the request was changed, which a transport must not do")
	}
}
