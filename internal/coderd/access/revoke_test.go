package access

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

func (w *world) checkGone() {
	w.t.Helper()
	if names := w.coder.TokenNames(Username); len(names) != 0 {
		w.t.Errorf("tokens %q are left in Coder", names)
	}
	for _, name := range []string{"dev-operator-token", "dev-operator-credentials"} {
		if w.get(name, &corev1.Secret{}) {
			w.t.Errorf("Secret %q is left", name)
		}
	}
	if n := w.coder.Sessions(Username); n != 0 {
		w.t.Errorf("%d sessions are left", n)
	}
}

func TestRevoke(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(w *world)
		events  string
	}{
		"a token that works":      {prepare: func(w *world) { w.pass() }, events: "TokenRevoked"},
		"where nothing ever was":  {prepare: func(*world) {}},
		"a token that Coder lost": {prepare: func(w *world) { w.pass(); w.coder.RevokeToken(w.token()) }},
		"a token without its Secret": {
			prepare: func(w *world) { w.pass(); w.remove(w.secret("dev-operator-token")) }, events: "TokenRevoked",
		},
		"a suspended account": {prepare: func(w *world) {
			w.pass()
			if err := w.as(w.token()).DeleteToken(w.ctx, "me", w.secret("dev-operator-token").Annotations[AnnotationTokenID]); err != nil {
				w.t.Fatal(err)
			}
			w.coder.SuspendUser(Username)
		}},
		"while the Job runs": {prepare: func(w *world) { w.addAda(); w.pass() }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.prepare(w)
			got := w.revoke()
			wantState(t, got, Ready, coderv1alpha1.ReasonTokenRevoked)
			if reasons(got) != c.events {
				t.Errorf("events %q, want %q", reasons(got), c.events)
			}
			w.checkGone()
			if w.get(jobName, &batchv1.Job{}) {
				t.Error("the Job is left")
			}
			w.asked()
			w.writes = 0
			again := w.revoke()
			if asked := w.asked(); asked != 0 || w.writes != 0 || len(again.Events) != 0 {
				t.Errorf("once more: %d requests, %d writes, events %v", asked, w.writes, again.Events)
			}
		})
	}
}

func TestRevokeWaitsForCoder(t *testing.T) {
	w := newWorld(t)
	w.pass()
	w.coder.Fail(coderdtest.Fault{DropConnection: true})
	got := w.revoke()
	wantState(t, got, Waiting, coderv1alpha1.ReasonUnreachable)
	if !w.get("dev-operator-token", &corev1.Secret{}) {
		t.Error("the Secret is gone, and with it the way to try again")
	}
	w.coder.ClearFaults()
	wantState(t, w.revoke(), Ready, coderv1alpha1.ReasonTokenRevoked)
	w.checkGone()
}

func TestDisabled(t *testing.T) {
	w := newWorld(t)
	w.pass()
	w.cp.Spec.OperatorAccess.Disabled = true
	got := w.pass()
	wantState(t, got, Ready, coderv1alpha1.ReasonDisabled)
	if got.TokenRef != nil || got.ExpiresAt != nil || reasons(got) != "TokenRevoked" {
		t.Errorf("token ref %v, events %v", got.TokenRef, got.Events)
	}
	w.checkGone()
	w.checkAdmin()
	w.asked()
	w.writes = 0
	wantState(t, w.pass(), Ready, coderv1alpha1.ReasonDisabled)
	if asked := w.asked(); asked != 0 || w.writes != 0 {
		t.Errorf("once more: %d requests, %d writes", asked, w.writes)
	}
	w.cp.Spec.OperatorAccess.Disabled = false
	w.addAda()
	w.settle()
	w.checkWhole()
}
