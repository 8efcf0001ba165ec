package callers

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
)

const (
	aliceToken = "token-of-alice"
	robotToken = "token-of-robot"
)

// people is a fake of the TokenReview and SubjectAccessReview APIs.
type people struct {
	mu sync.Mutex
	// users by token.
	users map[string]authenticationv1.UserInfo
	// audiences by token. By default, the requested audiences are returned.
	audiences map[string][]string
	entry     map[string]bool
	entryErr  error
	// entries are the specs of all SubjectAccessReviews.
	entries []authorizationv1.SubjectAccessReviewSpec
	down    bool
	// hangs is the resource whose requests get no answer.
	hangs   string
	reviews int
	// last is the spec of the last review.
	last authenticationv1.TokenReviewSpec
}

func newPeople() *people {
	return &people{
		users: map[string]authenticationv1.UserInfo{
			aliceToken: {Username: "alice", UID: "1", Groups: []string{"platform", "system:authenticated"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}},
			robotToken: {Username: "system:serviceaccount:ns:robot", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"}},
		},
		audiences: map[string][]string{},
		entry:     map[string]bool{"alice": true, "system:serviceaccount:ns:robot": true},
	}
}

func (p *people) set(change func(*people)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

func (p *people) reviewed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reviews
}

// kube returns a client whose requests are answered by people, without a connection, so that it
// can be used in a synctest bubble.
func (p *people) kube() kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://kube.test", Transport: p, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
}

// RoundTrip implements http.RoundTripper for the two kinds of reviews.
func (p *people) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	resource := path.Base(r.URL.Path)
	if resource == p.hangs {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	var answer any
	if resource == "tokenreviews" {
		review := &authenticationv1.TokenReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			return nil, err
		}
		p.reviews++
		if p.down {
			return nil, &net.OpError{Op: "dial", Err: io.ErrUnexpectedEOF}
		}
		p.last = review.Spec
		info, ok := p.users[review.Spec.Token]
		audiences, set := p.audiences[review.Spec.Token]
		if !set {
			audiences = review.Spec.Audiences
		}
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok, User: info, Audiences: audiences}
		answer = review
	} else {
		review := &authorizationv1.SubjectAccessReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			return nil, err
		}
		p.entries = append(p.entries, review.Spec)
		if p.entryErr != nil {
			return nil, p.entryErr
		}
		review.Status.Allowed = p.entry[review.Spec.User]
		answer = review
	}
	body, err := json.Marshal(answer)
	return &http.Response{StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(bytes.NewReader(body))}, err
}

// door is an Authenticator with its fakes. It records the accepted requests.
type door struct {
	*Authenticator
	people  *people
	logs    *mcptest.LogBuffer
	handler http.Handler

	mu       sync.Mutex
	passed   []*http.Request
	observed []string
}

func newDoor(t *testing.T, change ...func(*AuthenticatorConfig)) *door {
	t.Helper()
	d := &door{people: newPeople(), logs: &mcptest.LogBuffer{}}
	cfg := AuthenticatorConfig{
		Options:     *NewAuthenticationOptions(),
		BindAddress: "127.0.0.1:8090",
		Kube:        d.people.kube(),
		Logger:      d.logs.Logger(),
		Observe: func(_ context.Context, outcome, user string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.observed = append(d.observed, fmt.Sprintf("%s %s", outcome, user))
		},
	}
	for _, c := range change {
		c(&cfg)
	}
	var err error
	if d.Authenticator, err = NewAuthenticator(cfg); err != nil {
		t.Fatal(err)
	}
	d.handler = d.Authenticated(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.passed = append(d.passed, r)
	}))
	return d
}

// knock sends a request with these Authorization headers.
func (d *door) knock(t *testing.T, authorization ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(log.IntoContext(t.Context(), d.logs.Logger()), http.MethodPost, "/mcp", nil)
	if len(authorization) > 0 {
		r.Header["Authorization"] = authorization
	}
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	return w
}

// bubble runs a test in which time passes only while all its goroutines wait, which takes no
// time. It begins at bubbleStart.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// pass lets time pass in a bubble.
func pass(by time.Duration) { <-time.After(by) }

// bubbleStart is the time at which a bubble of synctest begins.
var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// jwtUntil returns a token in the format of a JWT that ends some time after bubbleStart.
func jwtUntil(after time.Duration) string {
	return "h." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, bubbleStart.Add(after).Unix())) + ".s"
}
