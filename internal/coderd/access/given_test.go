package access

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// giveToken puts a user's token into a Secret and references it in the spec.
func (w *world) giveToken(value string) {
	w.t.Helper()
	if len(value) > 10 {
		w.secrets[value] = true
	}
	w.put(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "mine"},
		Data:       map[string][]byte{"api": []byte(value + "\n")},
	})
	w.cp.Spec.OperatorAccess.TokenSecretRef = &coderv1alpha1.TokenSecretReference{Name: "mine", Key: "api"}
}

func TestGivenToken(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(w *world)
		state   State
		reason  string
		says    string
	}{
		"of an owner": {
			prepare: func(w *world) {
				w.addAda()
				w.giveToken(w.ada)
			},
			state: Ready, reason: coderv1alpha1.ReasonTokenAccepted,
		},
		"of somebody else": {
			prepare: func(w *world) {
				w.giveToken(w.coder.AddUser("bob", "template-admin"))
			},
			state: Failed, reason: coderv1alpha1.ReasonTokenRefused, says: `"bob" does not have the role owner`,
		},
		"that Coder does not know": {
			prepare: func(w *world) { w.giveToken("aaaaaaaaaa-bbbbbbbbbbbbbbbbbbbbbb") },
			state:   Failed, reason: coderv1alpha1.ReasonTokenRefused, says: `key "api" of Secret "mine"`,
		},
		"in a Secret that does not exist": {
			prepare: func(w *world) {
				w.cp.Spec.OperatorAccess.TokenSecretRef = &coderv1alpha1.TokenSecretReference{Name: "gone"}
			},
			state: Failed, reason: coderv1alpha1.ReasonTokenSecretMissing, says: `Secret "gone"`,
		},
		"in a key that does not exist": {
			prepare: func(w *world) {
				w.giveToken("x")
				w.cp.Spec.OperatorAccess.TokenSecretRef.Key = "other"
			},
			state: Failed, reason: coderv1alpha1.ReasonTokenSecretMissing, says: `key "other"`,
		},
		"that the operator made itself": {
			prepare: func(w *world) {
				w.pass()
				w.cp.Spec.OperatorAccess.TokenSecretRef = &coderv1alpha1.TokenSecretReference{Name: "dev-operator-token"}
			},
			state: Failed, reason: coderv1alpha1.ReasonInvalidSpec, says: "the operator made itself",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.prepare(w)
			w.writes = 0
			before := w.coder.TokenNames(Username)
			got := w.pass()
			wantState(t, got, c.state, c.reason)
			if !strings.Contains(got.Message, c.says) {
				t.Errorf("message %q does not say %q", got.Message, c.says)
			}
			after := w.coder.TokenNames(Username)
			if w.writes != 0 || !slices.Equal(before, after) || len(got.Events) != 0 {
				t.Errorf("%d writes, tokens %q -> %q, events %v", w.writes, before, after, got.Events)
			}
			if (got.TokenRef != nil) != (c.state == Ready) {
				t.Errorf("token ref %v", got.TokenRef)
			}
		})
	}
}

func TestGivenTokenReplacesOurs(t *testing.T) {
	w := newWorld(t)
	w.pass()
	w.addAda()
	w.giveToken(w.ada)
	got := w.pass()
	wantState(t, got, Ready, coderv1alpha1.ReasonTokenAccepted)
	if names := w.coder.TokenNames(Username); reasons(got) != "TokenRevoked" || w.get("dev-operator-token", &corev1.Secret{}) || len(names) != 0 {
		t.Errorf("events %q, tokens %v", reasons(got), names)
	}
	w.asked()
	w.writes = 0
	wantState(t, w.pass(), Ready, coderv1alpha1.ReasonTokenAccepted)
	if asked := w.asked(); asked != 0 || w.writes != 0 {
		t.Errorf("a pass that changes nothing makes %d requests and %d writes", asked, w.writes)
	}
	// After removing the reference, the operator's account is used again.
	w.cp.Spec.OperatorAccess.TokenSecretRef = nil
	wantState(t, w.pass(), Ready, coderv1alpha1.ReasonTokenAccepted)
	w.checkWhole()
	if names := w.coder.TokenNames("ada"); len(names) != 1 {
		t.Errorf("ada has tokens %q", names)
	}
}

// The cached verification of a token does not apply to its replacement.
func TestGivenTokenIsReplaced(t *testing.T) {
	w := newWorld(t)
	w.addAda()
	w.giveToken(w.ada)
	w.pass()
	secret := w.secret("mine")
	secret.Data["api"] = []byte("aaaaaaaaaa-bbbbbbbbbbbbbbbbbbbbbb")
	if err := w.client.Update(w.ctx, secret); err != nil {
		t.Fatal(err)
	}
	wantState(t, w.pass(), Failed, coderv1alpha1.ReasonTokenRefused)
}

// The operator cannot renew a given token, so its expiry is reported early.
func TestGivenTokenThatExpires(t *testing.T) {
	w := newWorld(t, coderdtest.WithRelease(coderdtest.Release234))
	w.addAda()
	token := w.coder.AddToken("ada", 30*day)
	w.giveToken(token)
	expires := w.clock.Now().Add(30 * day)
	got := w.pass()
	wantState(t, got, Ready, coderv1alpha1.ReasonTokenAccepted)
	if got.ExpiresAt == nil || !got.ExpiresAt.Equal(expires) {
		t.Errorf("expires at %v, want %v", got.ExpiresAt, expires)
	}

	w.forward(20*day - time.Second)
	got = w.pass()
	wantState(t, got, Ready, coderv1alpha1.ReasonTokenAccepted)
	if got.RequeueAfter != time.Second {
		t.Errorf("looks again after %s, want the begin of the warning", got.RequeueAfter)
	}

	w.forward(time.Second)
	// The verification is cached: no request is made.
	w.asked()
	got = w.pass()
	wantState(t, got, Ready, coderv1alpha1.ReasonTokenExpiring)
	if want := `Secret "mine"`; !strings.Contains(got.Message, want) || !strings.Contains(got.Message, "2026-03-31T12:00:00Z") {
		t.Errorf("message %q does not name %s and the time", got.Message, want)
	}
	if asked := w.asked(); asked != 0 {
		t.Errorf("%d requests", asked)
	}

	w.forward(10*day + time.Second)
	wantState(t, w.pass(), Failed, coderv1alpha1.ReasonTokenRefused)
}

// A token whose expiry Coder does not return is used without a warning. An outage is not treated
// this way.
func TestGivenTokenOfUnknownLife(t *testing.T) {
	for status, want := range map[int]State{403: Ready, 404: Ready, 500: Waiting} {
		w := newWorld(t)
		w.addAda()
		w.giveToken(w.ada)
		w.coder.Fail(coderdtest.Fault{PathPrefix: "/api/v2/users/me/keys/", Status: status})
		got := w.pass()
		if got.State != want || got.ExpiresAt != nil {
			t.Errorf("HTTP %d: %s %s (%s), expires at %v", status, got.State, got.Reason, got.Message, got.ExpiresAt)
		}
	}
}
