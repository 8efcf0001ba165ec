package access

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// giveToken puts a token of a person into a Secret and names it in the spec.
func (w *world) giveToken(value string) {
	w.t.Helper()
	w.secrets = append(w.secrets, value)
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
				w.giveToken(w.coder.addKey(w.coder.addUser("ada", "a@b", "x", "owner"), "mine", false, 0).value)
			},
			state: Ready, reason: coderv1alpha1.ReasonTokenAccepted,
		},
		"of somebody else": {
			prepare: func(w *world) {
				w.giveToken(w.coder.addKey(w.coder.addUser("bob", "b@b", "x", "template-admin"), "mine", false, 0).value)
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
			before := len(w.coder.tokens())
			got := w.pass()
			wantState(t, got, c.state, c.reason)
			if !strings.Contains(got.Message, c.says) {
				t.Errorf("message %q does not say %q", got.Message, c.says)
			}
			if w.writes != 0 || len(w.coder.tokens()) != before || len(got.Events) != 0 {
				t.Errorf("%d writes, tokens %d -> %d, events %v", w.writes, before, len(w.coder.tokens()), got.Events)
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
	w.giveToken(w.coder.addKey(w.coder.addUser("ada", "a@b", "x", "owner"), "mine", false, 0).value)
	got := w.pass()
	wantState(t, got, Ready, coderv1alpha1.ReasonTokenAccepted)
	if reasons(got) != "TokenRevoked" || w.get("dev-operator-token", &corev1.Secret{}) || len(w.coder.tokens()) != 1 {
		t.Errorf("events %q, tokens %v", reasons(got), w.coder.tokens())
	}
	// And back again: the account is still the operator's.
	w.cp.Spec.OperatorAccess.TokenSecretRef = nil
	wantState(t, w.pass(), Ready, coderv1alpha1.ReasonTokenAccepted)
	if len(w.coder.tokens()) != 2 {
		t.Errorf("tokens %v", w.coder.tokens())
	}
}
