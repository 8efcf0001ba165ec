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
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure/ensuretest"
)

// giveToken puts a user's token into a Secret and references it in the spec.
func (f *fixture) giveToken(value string) {
	f.T.Helper()
	if len(value) > 10 {
		f.secrets[value] = true
	}
	f.Create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: "mine"},
		Data:       map[string][]byte{"api": []byte(value + "\n")},
	})
	f.cp.Spec.OperatorAccess.TokenSecretRef = &coderv1alpha1.TokenSecretReference{Name: "mine", Key: "api"}
}

func TestGivenToken(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(f *fixture)
		state   ensure.State
		reason  string
		says    string
	}{
		"of an owner": {
			prepare: func(f *fixture) {
				f.addAda()
				f.giveToken(f.ada)
			},
			state: ensure.Ready, reason: coderv1alpha1.ReasonTokenAccepted,
		},
		"of somebody else": {
			prepare: func(f *fixture) {
				f.giveToken(f.Coder.AddUser("bob", "template-admin"))
			},
			state: ensure.Failed, reason: coderv1alpha1.ReasonTokenRefused, says: `"bob" does not have the role owner`,
		},
		"that Coder does not know": {
			prepare: func(f *fixture) { f.giveToken("aaaaaaaaaa-bbbbbbbbbbbbbbbbbbbbbb") },
			state:   ensure.Failed, reason: coderv1alpha1.ReasonTokenRefused, says: `key "api" of Secret "mine"`,
		},
		"in a Secret that does not exist": {
			prepare: func(f *fixture) {
				f.cp.Spec.OperatorAccess.TokenSecretRef = &coderv1alpha1.TokenSecretReference{Name: "gone"}
			},
			state: ensure.Failed, reason: coderv1alpha1.ReasonTokenSecretMissing, says: `Secret "gone"`,
		},
		"in a key that does not exist": {
			prepare: func(f *fixture) {
				f.giveToken("x")
				f.cp.Spec.OperatorAccess.TokenSecretRef.Key = "other"
			},
			state: ensure.Failed, reason: coderv1alpha1.ReasonTokenSecretMissing, says: `key "other"`,
		},
		"that the operator made itself": {
			prepare: func(f *fixture) {
				f.pass()
				f.cp.Spec.OperatorAccess.TokenSecretRef = &coderv1alpha1.TokenSecretReference{Name: "dev-operator-token"}
			},
			state: ensure.Failed, reason: coderv1alpha1.ReasonInvalidSpec, says: "the operator created itself",
		},
		"that was copied from the operator's Secret": {
			prepare: func(f *fixture) {
				f.pass()
				f.giveToken(f.token())
			},
			state: ensure.Failed, reason: coderv1alpha1.ReasonInvalidSpec, says: `in Secret "dev-operator-token"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c.prepare(f)
			f.TakeWrites()
			before := f.Coder.TokenNames(coderv1alpha1.OperatorUsername)
			got := f.pass()
			f.WantState(got.Result, c.state, c.reason)
			if !strings.Contains(got.Message, c.says) {
				t.Errorf("message %q does not say %q", got.Message, c.says)
			}
			after := f.Coder.TokenNames(coderv1alpha1.OperatorUsername)
			if f.Writes() != 0 || !slices.Equal(before, after) || len(got.Events) != 0 {
				t.Errorf("%d writes, tokens %q -> %q, events %v", f.Writes(), before, after, got.Events)
			}
			if (got.TokenRef != nil) != (c.state == ensure.Ready) {
				t.Errorf("token ref %v", got.TokenRef)
			}
		})
	}
}

func TestGivenTokenReplacesOurs(t *testing.T) {
	f := newFixture(t)
	f.pass()
	f.addAda()
	f.giveToken(f.ada)
	got := f.pass()
	f.WantState(got.Result, ensure.Ready, coderv1alpha1.ReasonTokenAccepted)
	if names := f.Coder.TokenNames(coderv1alpha1.OperatorUsername); ensuretest.Reasons(got.Events) != "TokenRevoked" || f.HasSecret("dev-operator-token") || len(names) != 0 {
		t.Errorf("events %q, tokens %v", ensuretest.Reasons(got.Events), names)
	}
	f.Coder.Asked()
	f.TakeWrites()
	f.WantState(f.pass().Result, ensure.Ready, coderv1alpha1.ReasonTokenAccepted)
	if asked := f.Coder.Asked(); asked != 0 || f.Writes() != 0 {
		t.Errorf("a pass that changes nothing makes %d requests and %d writes", asked, f.Writes())
	}
	// After removing the reference, the operator's account is used again.
	f.cp.Spec.OperatorAccess.TokenSecretRef = nil
	f.WantState(f.pass().Result, ensure.Ready, coderv1alpha1.ReasonTokenAccepted)
	f.checkWhole()
	if names := f.Coder.TokenNames("ada"); len(names) != 1 {
		t.Errorf("ada has tokens %q", names)
	}
}

// The cached verification of a token does not apply to its replacement.
func TestGivenTokenIsReplaced(t *testing.T) {
	f := newFixture(t)
	f.addAda()
	f.giveToken(f.ada)
	f.pass()
	secret := f.Secret("mine")
	secret.Data["api"] = []byte("aaaaaaaaaa-bbbbbbbbbbbbbbbbbbbbbb")
	f.Update(secret)
	f.WantState(f.pass().Result, ensure.Failed, coderv1alpha1.ReasonTokenRefused)
}

// The operator cannot renew a given token, so its expiry is reported early.
func TestGivenTokenThatExpires(t *testing.T) {
	f := newFixture(t, coderdtest.WithRelease(coderdtest.Release234))
	f.addAda()
	token := f.Coder.AddToken("ada", 30*day)
	f.giveToken(token)
	expires := f.Clock.Now().Add(30 * day)
	got := f.pass()
	f.WantState(got.Result, ensure.Ready, coderv1alpha1.ReasonTokenAccepted)
	if got.ExpiresAt == nil || !got.ExpiresAt.Equal(expires) {
		t.Errorf("expires at %v, want %v", got.ExpiresAt, expires)
	}

	f.Forward(20*day - time.Second)
	got = f.pass()
	f.WantState(got.Result, ensure.Ready, coderv1alpha1.ReasonTokenAccepted)
	if got.RequeueAfter != time.Second {
		t.Errorf("looks again after %s, want the begin of the warning", got.RequeueAfter)
	}

	f.Forward(time.Second)
	// The verification is cached: no request is made.
	f.Coder.Asked()
	got = f.pass()
	f.WantState(got.Result, ensure.Ready, coderv1alpha1.ReasonTokenExpiring)
	if want := `Secret "mine"`; !strings.Contains(got.Message, want) || !strings.Contains(got.Message, "2026-03-31T12:00:00Z") {
		t.Errorf("message %q does not name %s and the time", got.Message, want)
	}
	if asked := f.Coder.Asked(); asked != 0 {
		t.Errorf("%d requests", asked)
	}

	f.Forward(10*day + time.Second)
	f.WantState(f.pass().Result, ensure.Failed, coderv1alpha1.ReasonTokenRefused)
}

// A token whose expiry Coder does not return is used without a warning. An outage is not treated
// this way.
func TestGivenTokenOfUnknownLife(t *testing.T) {
	for status, want := range map[int]ensure.State{403: ensure.Ready, 404: ensure.Ready, 500: ensure.Waiting} {
		f := newFixture(t)
		f.addAda()
		f.giveToken(f.ada)
		f.Coder.Fail(coderdtest.Fault{PathPrefix: "/api/v2/users/me/keys/", Status: status})
		got := f.pass()
		if got.State != want || got.ExpiresAt != nil {
			t.Errorf("HTTP %d: %s %s (%s), expires at %v", status, got.State, got.Reason, got.Message, got.ExpiresAt)
		}
	}
}
