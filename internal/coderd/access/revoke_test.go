package access

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure/ensuretest"
)

func (w *world) checkGone() {
	w.T.Helper()
	if names := w.Coder.TokenNames(Username); len(names) != 0 {
		w.T.Errorf("tokens %q are left in Coder", names)
	}
	for _, name := range []string{"dev-operator-token", "dev-operator-credentials"} {
		if w.HasSecret(name) {
			w.T.Errorf("Secret %q is left", name)
		}
	}
	if n := w.Coder.Sessions(Username); n != 0 {
		w.T.Errorf("%d sessions are left", n)
	}
}

func TestRevoke(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(w *world)
		events  string
	}{
		"a token that works":      {prepare: func(w *world) { w.pass() }, events: "TokenRevoked"},
		"where nothing ever was":  {prepare: func(*world) {}},
		"a token that Coder lost": {prepare: func(w *world) { w.pass(); w.Coder.RevokeToken(w.token()) }},
		"a token without its Secret": {
			prepare: func(w *world) { w.pass(); w.Delete(w.Secret("dev-operator-token")) }, events: "TokenRevoked",
		},
		"a suspended account": {prepare: func(w *world) {
			w.pass()
			if err := w.as(w.token()).DeleteToken(w.Ctx, "me", w.Secret("dev-operator-token").Annotations[AnnotationTokenID]); err != nil {
				w.T.Fatal(err)
			}
			w.Coder.SuspendUser(Username)
		}},
		"while the Job runs": {prepare: func(w *world) { w.addAda(); w.pass() }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.prepare(w)
			got := w.revoke()
			w.WantState(got.Result, Ready, coderv1alpha1.ReasonTokenRevoked)
			if ensuretest.Reasons(got.Events) != c.events {
				t.Errorf("events %q, want %q", ensuretest.Reasons(got.Events), c.events)
			}
			w.checkGone()
			if w.Get(jobName, &batchv1.Job{}) {
				t.Error("the Job is left")
			}
			w.Asked()
			w.Writes = 0
			again := w.revoke()
			if asked := w.Asked(); asked != 0 || w.Writes != 0 || len(again.Events) != 0 {
				t.Errorf("once more: %d requests, %d writes, events %v", asked, w.Writes, again.Events)
			}
		})
	}
}

func TestRevokeWaitsForCoder(t *testing.T) {
	w := newWorld(t)
	w.pass()
	w.Coder.Fail(coderdtest.Fault{DropConnection: true})
	got := w.revoke()
	w.WantState(got.Result, Waiting, coderv1alpha1.ReasonUnreachable)
	if !w.HasSecret("dev-operator-token") {
		t.Error("the Secret is gone, and with it the way to try again")
	}
	w.Coder.ClearFaults()
	w.WantState(w.revoke().Result, Ready, coderv1alpha1.ReasonTokenRevoked)
	w.checkGone()
}

func TestDisabled(t *testing.T) {
	w := newWorld(t)
	w.pass()
	w.cp.Spec.OperatorAccess.Disabled = true
	got := w.pass()
	w.WantState(got.Result, Ready, coderv1alpha1.ReasonDisabled)
	if got.TokenRef != nil || got.ExpiresAt != nil || ensuretest.Reasons(got.Events) != "TokenRevoked" {
		t.Errorf("token ref %v, events %v", got.TokenRef, got.Events)
	}
	w.checkGone()
	w.checkAdmin()
	w.Asked()
	w.Writes = 0
	w.WantState(w.pass().Result, Ready, coderv1alpha1.ReasonDisabled)
	if asked := w.Asked(); asked != 0 || w.Writes != 0 {
		t.Errorf("once more: %d requests, %d writes", asked, w.Writes)
	}
	w.cp.Spec.OperatorAccess.Disabled = false
	w.addAda()
	w.settle()
	w.checkWhole()
}
