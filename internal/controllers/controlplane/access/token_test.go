package access

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure/ensuretest"
)

const day = 24 * time.Hour

func TestRotationAtTwoThirds(t *testing.T) {
	f := newFixture(t, coderdtest.WithMaxTokenLifetimes(3*day, day))
	f.pass()
	first := f.token()

	f.Forward(2*day - time.Second)
	got := f.pass()
	if f.token() != first || len(got.Events) != 0 || got.RequeueAfter != time.Second {
		t.Fatalf("a second before: events %v, requeue after %v", got.Events, got.RequeueAfter)
	}

	f.Forward(time.Second)
	got = f.pass()
	f.WantState(got.Result, ensure.Ready, coderv1alpha1.ReasonTokenAccepted)
	if ensuretest.Reasons(got.Events) != "TokenRotated" || !strings.Contains(got.Events[0].Message, "2026-03-06T12:00:00Z") {
		t.Errorf("events %v", got.Events)
	}
	f.checkWhole()
	if f.token() == first {
		t.Error("the token is the old one")
	}
	if _, err := f.as(first).Me(f.Ctx); !coderd.IsUnauthorized(err) {
		t.Errorf("the old token still works: %v", err)
	}
	if want := f.Clock.Now().Add(3 * day); !got.ExpiresAt.Equal(want) {
		t.Errorf("expires %v, want %v", got.ExpiresAt, want)
	}

	// The two names alternate.
	f.Forward(2 * day)
	f.settle()
	f.checkWhole()
	if name := f.Coder.TokenNames(coderv1alpha1.OperatorUsername)[0]; name != TokenName(f.cp) {
		t.Errorf("token name %q", name)
	}
}

// A replica whose clock was wrong issued the token. Its lifetime would begin in a year.
func TestRotationOfATokenFromTheFuture(t *testing.T) {
	f := newFixture(t)
	f.pass()
	f.Forward(-365 * day)
	if got := f.pass(); ensuretest.Reasons(got.Events) != "TokenRotated" {
		t.Errorf("events %v", got.Events)
	}
	f.checkWhole()
	if got := f.pass(); len(got.Events) > 0 {
		t.Errorf("the new token is rotated, too: %v", got.Events)
	}
}

func TestTokenThatRanOutIsRenewed(t *testing.T) {
	f := newFixture(t)
	f.pass()
	f.Forward(8 * day)
	got := f.pass()
	f.WantState(got.Result, ensure.Ready, coderv1alpha1.ReasonTokenAccepted)
	if ensuretest.Reasons(got.Events) != "TokenMinted" {
		t.Errorf("events %v", got.Events)
	}
	f.checkWhole()
}

// An expired token keeps its name, and some versions of Coder list it only on request.
func TestTokenThatRanOutKeepsItsName(t *testing.T) {
	for _, release := range coderdtest.Releases() {
		t.Run(string(release), func(t *testing.T) {
			f := newFixture(t, coderdtest.WithRelease(release))
			f.pass()
			f.Forward(8 * day)
			f.WantState(f.pass().Result, ensure.Ready, coderv1alpha1.ReasonTokenAccepted)
			f.checkWhole()
		})
	}
}

// The name may still be taken, for example because a response was lost.
func TestTokenOfATakenName(t *testing.T) {
	for name, processed := range map[string]bool{"by a token that is there": true, "by a token that is gone": false} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.Coder.Fail(coderdtest.Fault{
				Method: "POST", PathPrefix: "/api/v2/users/me/keys/tokens", Status: 409, Processed: processed, Times: 1,
			})
			f.WantState(f.pass().Result, ensure.Ready, coderv1alpha1.ReasonTokenAccepted)
			f.checkWhole()
		})
	}
}

// A process is paused and is no longer the leader. The new leader creates and stores a token, and then the
// process continues.
func TestTokenOfANewLeaderIsNotDeleted(t *testing.T) {
	for name, path := range map[string]string{
		"paused before the log-in": "/api/v2/users/login", "paused before the creation": "/api/v2/users/me/keys/tokens",
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.pass()
			f.Remove(f.Secret("dev-operator-token"))
			paused := f.manager
			f.restart()
			newLeader, led := f.manager, false
			paused.NewClient = func(cfg coderd.Config) (*coderd.Client, error) {
				cfg.Transport = transportFunc(func(req *http.Request) (*http.Response, error) {
					if !led && req.Method == http.MethodPost && req.URL.Path == path {
						led = true
						f.WantState(f.run(newLeader.Ensure).Result, ensure.Ready, coderv1alpha1.ReasonTokenAccepted)
					}
					return http.DefaultTransport.RoundTrip(req)
				})
				return coderd.New(cfg)
			}
			f.WantState(f.run(paused.Ensure).Result, ensure.Waiting, coderv1alpha1.ReasonWaiting)
			if !led {
				t.Fatal("the process was not paused")
			}
			f.checkWhole()
		})
	}
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestTokenOfSomebodyElseInOurSecret(t *testing.T) {
	f := newFixture(t)
	f.pass()
	f.addAda()
	secret := f.Secret("dev-operator-token")
	secret.Data["token"] = []byte(f.ada)
	f.Update(secret)
	f.pass()
	f.checkWhole()
	if len(f.Coder.TokenNames("ada")) != 1 {
		t.Error("revoked a token that is not the operator's")
	}
}

func TestRefusedCredentials(t *testing.T) {
	f := newFixture(t)
	f.pass()
	f.Coder.SuspendUser(coderv1alpha1.OperatorUsername)
	f.restart()
	for range 2 {
		f.TakeWrites()
		got := f.pass()
		f.WantState(got.Result, ensure.Failed, coderv1alpha1.ReasonCredentialsRefused)
		if !strings.Contains(got.Message, `"dev-operator-credentials"`) || len(got.Events) != 0 || f.Writes() != 0 || got.TokenRef != nil {
			t.Errorf("message %q, events %v, %d writes, token ref %v", got.Message, got.Events, f.Writes(), got.TokenRef)
		}
	}
	// The remedy from the message.
	f.addAda()
	f.Remove(f.Secret("dev-operator-credentials"))
	f.settle()
	f.checkWhole()
}

func TestPasswordLoginDisabled(t *testing.T) {
	f := newFixture(t, coderdtest.WithPasswordLoginDisabled())
	got := f.pass()
	f.WantState(got.Result, ensure.Failed, coderv1alpha1.ReasonCredentialsRefused)
	if !strings.Contains(got.Message, "CODER_DISABLE_PASSWORD_AUTH") {
		t.Errorf("message %q", got.Message)
	}
}

func TestUnreachable(t *testing.T) {
	for name, prepare := range map[string]func(f *fixture){
		"fresh":      func(*fixture) {},
		"with token": func(f *fixture) { f.pass() },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			prepare(f)
			f.TakeWrites()
			up := f.Coder.Fail(coderdtest.Fault{Status: 502})
			for range 3 {
				got := f.pass()
				f.WantState(got.Result, ensure.Waiting, coderv1alpha1.ReasonUnreachable)
				if len(got.Events) != 0 || f.Writes() != 0 || got.RequeueAfter <= 0 || got.RequeueAfter > 15*time.Second {
					t.Errorf("events %v, %d writes, requeue after %v", got.Events, f.Writes(), got.RequeueAfter)
				}
				if kept := got.TokenRef != nil; kept != (name == "with token") {
					t.Errorf("token ref %v", got.TokenRef)
				}
			}
			up()
			f.settle()
			f.checkWhole()
		})
	}
}

func TestRefusals(t *testing.T) {
	const tokens = "/api/v2/users/me/keys/tokens"
	for name, c := range map[string]struct {
		fault  coderdtest.Fault
		state  ensure.State
		reason string
		after  time.Duration
	}{
		"too many requests": {
			fault: coderdtest.Fault{PathPrefix: "/api/v2/users/login", Status: 429, RetryAfter: 42 * time.Second},
			state: ensure.Waiting, reason: coderv1alpha1.ReasonWaiting, after: 42 * time.Second,
		},
		"no token may be made": {
			fault: coderdtest.Fault{PathPrefix: tokens, Method: "POST", Status: 403},
			state: ensure.Failed, reason: coderv1alpha1.ReasonTokenRefused, after: time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.Coder.Fail(c.fault)
			got := f.pass()
			f.WantState(got.Result, c.state, c.reason)
			if got.RequeueAfter != c.after {
				t.Errorf("requeue after %v, want %v", got.RequeueAfter, c.after)
			}
			f.Coder.ClearFaults()
			f.settle()
			f.checkWhole()
		})
	}
}

func TestSecretOfSomebodyElse(t *testing.T) {
	for _, name := range []string{"dev-operator-token", "dev-operator-credentials", "dev-initial-admin"} {
		for kind, owner := range map[string][]metav1.OwnerReference{
			"nobody": nil,
			"Deployment": {{
				APIVersion: "apps/v1", Kind: "Deployment", Name: "theirs", UID: "1", Controller: new(true),
			}},
		} {
			t.Run(name+" of "+kind, func(t *testing.T) {
				f := newFixture(t)
				theirs := &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: name, OwnerReferences: owner},
					Data:       map[string][]byte{"token": []byte("keep")},
				}
				f.Create(theirs)
				got := f.pass()
				f.WantState(got.Result, ensure.Failed, coderv1alpha1.ReasonNotOwned)
				if !strings.Contains(got.Message, name) {
					t.Errorf("message %q", got.Message)
				}
				f.revoke()
				if after := f.Secret(name); after.ResourceVersion != theirs.ResourceVersion {
					t.Error("the Secret was touched")
				}
			})
		}
	}
}

func TestSecretOfAnEarlierControlPlane(t *testing.T) {
	f := newFixture(t)
	f.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: ensuretest.Namespace, Name: "dev-operator-token",
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: coderv1alpha1.GroupVersion.String(), Kind: "CoderControlPlane", Name: testName, UID: "earlier", Controller: new(true),
		}},
	}})
	f.WantState(f.pass().Result, ensure.Waiting, coderv1alpha1.ReasonWaiting)
}
