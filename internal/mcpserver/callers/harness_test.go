package callers

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
)

const (
	aliceToken = "token-of-alice"
	robotToken = "token-of-robot"
)

// people is a fake of the TokenReview API and of the authorization.
type people struct {
	mu sync.Mutex
	// users by token.
	users map[string]authenticationv1.UserInfo
	// audiences by token. By default, the requested audiences are returned.
	audiences map[string][]string
	entry     map[string]bool
	entryErr  error
	down      bool
	reviews   int
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

func (p *people) clientset() *fake.Clientset {
	kube := fake.NewClientset()
	kube.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reviews++
		if p.down {
			return true, nil, &net.OpError{Op: "dial", Err: io.ErrUnexpectedEOF}
		}
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		p.last = review.Spec
		info, ok := p.users[review.Spec.Token]
		audiences, set := p.audiences[review.Spec.Token]
		if !set {
			audiences = review.Spec.Audiences
		}
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok, User: info, Audiences: audiences}
		return true, review, nil
	})
	return kube
}

// mayEnter replaces Reviewer.MayEnter.
func (p *people) mayEnter(_ context.Context, u user.Info) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.entry[u.GetName()], p.entryErr
}

// door is an Authenticator with its fakes. It records the accepted requests.
type door struct {
	*Authenticator
	people  *people
	clock   *clocktesting.FakePassiveClock
	logs    *mcptest.LogBuffer
	handler http.Handler

	mu       sync.Mutex
	passed   []*http.Request
	observed []string
}

func newDoor(t *testing.T, change ...func(*AuthenticatorConfig)) *door {
	t.Helper()
	d := &door{people: newPeople(), clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), logs: &mcptest.LogBuffer{}}
	cfg := AuthenticatorConfig{
		Options:     *NewAuthenticationOptions(),
		BindAddress: "127.0.0.1:8090",
		Reviews:     d.people.clientset().AuthenticationV1().TokenReviews(),
		MayEnter:    d.people.mayEnter,
		Clock:       d.clock,
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

func (d *door) wait(by time.Duration) { d.clock.SetTime(d.clock.Now().Add(by)) }

// jwtUntil returns a token in the format of a JWT with this exp claim.
func jwtUntil(expiry any) string {
	return "h." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%v}`, expiry)) + ".s"
}
