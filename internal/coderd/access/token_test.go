package access

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure/ensuretest"
)

const day = 24 * time.Hour

func TestRotationAtTwoThirds(t *testing.T) {
	w := newWorld(t, coderdtest.WithMaxTokenLifetimes(3*day, day))
	w.pass()
	first := w.token()

	w.Forward(2*day - time.Second)
	got := w.pass()
	if w.token() != first || len(got.Events) != 0 || got.RequeueAfter != time.Second {
		t.Fatalf("a second before: events %v, requeue after %v", got.Events, got.RequeueAfter)
	}

	w.Forward(time.Second)
	got = w.pass()
	w.WantState(got.Result, Ready, coderv1alpha1.ReasonTokenAccepted)
	if ensuretest.Reasons(got.Events) != "TokenRotated" || !strings.Contains(got.Events[0].Message, "2026-03-06T12:00:00Z") {
		t.Errorf("events %v", got.Events)
	}
	w.checkWhole()
	if w.token() == first {
		t.Error("the token is the old one")
	}
	if _, err := w.as(first).Me(w.Ctx); !coderd.IsUnauthorized(err) {
		t.Errorf("the old token still works: %v", err)
	}
	if want := w.Clock.Now().Add(3 * day); !got.ExpiresAt.Equal(want) {
		t.Errorf("expires %v, want %v", got.ExpiresAt, want)
	}

	// The two names alternate.
	w.Forward(2 * day)
	w.settle()
	w.checkWhole()
	if name := w.Coder.TokenNames(Username)[0]; name != TokenName(w.cp) {
		t.Errorf("token name %q", name)
	}
}

func TestTokenThatRanOutIsRenewed(t *testing.T) {
	w := newWorld(t)
	w.pass()
	w.Forward(8 * day)
	got := w.pass()
	w.WantState(got.Result, Ready, coderv1alpha1.ReasonTokenAccepted)
	if ensuretest.Reasons(got.Events) != "TokenMinted" {
		t.Errorf("events %v", got.Events)
	}
	w.checkWhole()
}

// An expired token keeps its name, and some versions of Coder list it only on request.
func TestTokenThatRanOutKeepsItsName(t *testing.T) {
	for _, release := range coderdtest.Releases() {
		t.Run(string(release), func(t *testing.T) {
			w := newWorld(t, coderdtest.WithRelease(release))
			w.pass()
			w.Forward(8 * day)
			w.WantState(w.pass().Result, Ready, coderv1alpha1.ReasonTokenAccepted)
			w.checkWhole()
		})
	}
}

// The name may still be taken, for example because a response was lost.
func TestTokenOfATakenName(t *testing.T) {
	for name, processed := range map[string]bool{"by a token that is there": true, "by a token that is gone": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Coder.Fail(coderdtest.Fault{
				Method: "POST", PathPrefix: "/api/v2/users/me/keys/tokens", Status: 409, Processed: processed, Times: 1,
			})
			w.WantState(w.pass().Result, Ready, coderv1alpha1.ReasonTokenAccepted)
			w.checkWhole()
		})
	}
}

func TestTokenOfSomebodyElseInOurSecret(t *testing.T) {
	w := newWorld(t)
	w.pass()
	w.addAda()
	secret := w.Secret("dev-operator-token")
	secret.Data["token"] = []byte(w.ada)
	w.Update(secret)
	w.pass()
	w.checkWhole()
	if len(w.Coder.TokenNames("ada")) != 1 {
		t.Error("revoked a token that is not the operator's")
	}
}

func TestRenamedTokenSecret(t *testing.T) {
	w := newWorld(t)
	w.cp.Status.OperatorTokenSecretRef = w.pass().TokenRef
	w.cp.Spec.OperatorAccess.GeneratedTokenSecretName = "other"
	got := w.pass()
	if got.TokenRef.Name != "other" || w.HasSecret("dev-operator-token") {
		t.Errorf("token ref %v", got.TokenRef)
	}
	if names := w.Coder.TokenNames(Username); len(names) != 1 {
		t.Errorf("tokens %q", names)
	}
}

func TestRefusedCredentials(t *testing.T) {
	w := newWorld(t)
	w.pass()
	w.Coder.SuspendUser(Username)
	w.restart()
	for range 2 {
		w.Writes = 0
		got := w.pass()
		w.WantState(got.Result, Failed, coderv1alpha1.ReasonCredentialsRefused)
		if !strings.Contains(got.Message, `"dev-operator-credentials"`) || len(got.Events) != 0 || w.Writes != 0 || got.TokenRef != nil {
			t.Errorf("message %q, events %v, %d writes, token ref %v", got.Message, got.Events, w.Writes, got.TokenRef)
		}
	}
	// The remedy from the message.
	w.addAda()
	w.Delete(w.Secret("dev-operator-credentials"))
	w.settle()
	w.checkWhole()
}

func TestPasswordLoginDisabled(t *testing.T) {
	w := newWorld(t, coderdtest.WithPasswordLoginDisabled())
	got := w.pass()
	w.WantState(got.Result, Failed, coderv1alpha1.ReasonCredentialsRefused)
	if !strings.Contains(got.Message, "CODER_DISABLE_PASSWORD_AUTH") {
		t.Errorf("message %q", got.Message)
	}
}

func TestUnreachable(t *testing.T) {
	for name, prepare := range map[string]func(w *world){
		"fresh":      func(*world) {},
		"with token": func(w *world) { w.pass() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			prepare(w)
			w.Writes = 0
			up := w.Coder.Fail(coderdtest.Fault{Status: 502})
			for range 3 {
				got := w.pass()
				w.WantState(got.Result, Waiting, coderv1alpha1.ReasonUnreachable)
				if len(got.Events) != 0 || w.Writes != 0 || got.RequeueAfter <= 0 || got.RequeueAfter > 15*time.Second {
					t.Errorf("events %v, %d writes, requeue after %v", got.Events, w.Writes, got.RequeueAfter)
				}
				if kept := got.TokenRef != nil; kept != (name == "with token") {
					t.Errorf("token ref %v", got.TokenRef)
				}
			}
			up()
			w.settle()
			w.checkWhole()
		})
	}
}

func TestRefusals(t *testing.T) {
	const tokens = "/api/v2/users/me/keys/tokens"
	for name, c := range map[string]struct {
		fault  coderdtest.Fault
		state  State
		reason string
		after  time.Duration
	}{
		"too many requests": {
			fault: coderdtest.Fault{PathPrefix: "/api/v2/users/login", Status: 429, RetryAfter: 42 * time.Second},
			state: Waiting, reason: coderv1alpha1.ReasonWaiting, after: 42 * time.Second,
		},
		"no token may be made": {
			fault: coderdtest.Fault{PathPrefix: tokens, Method: "POST", Status: 403},
			state: Failed, reason: coderv1alpha1.ReasonTokenRefused, after: time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Coder.Fail(c.fault)
			got := w.pass()
			w.WantState(got.Result, c.state, c.reason)
			if got.RequeueAfter != c.after {
				t.Errorf("requeue after %v, want %v", got.RequeueAfter, c.after)
			}
			w.Coder.ClearFaults()
			w.settle()
			w.checkWhole()
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
				w := newWorld(t)
				theirs := &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: name, OwnerReferences: owner},
					Data:       map[string][]byte{"token": []byte("keep")},
				}
				w.Create(theirs)
				got := w.pass()
				w.WantState(got.Result, Failed, coderv1alpha1.ReasonNotOwned)
				if !strings.Contains(got.Message, name) {
					t.Errorf("message %q", got.Message)
				}
				w.revoke()
				if after := w.Secret(name); after.ResourceVersion != theirs.ResourceVersion {
					t.Error("the Secret was touched")
				}
			})
		}
	}
}

func TestSecretOfAnEarlierControlPlane(t *testing.T) {
	w := newWorld(t)
	w.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: ensuretest.Namespace, Name: "dev-operator-token",
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: coderv1alpha1.GroupVersion.String(), Kind: "CoderControlPlane", Name: testName, UID: "earlier", Controller: new(true),
		}},
	}})
	w.WantState(w.pass().Result, Waiting, coderv1alpha1.ReasonWaiting)
}
