package access

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure/ensuretest"
)

func (f *fixture) checkGone() {
	f.T.Helper()
	if names := f.Coder.TokenNames(coderv1alpha1.OperatorUsername); len(names) != 0 {
		f.T.Errorf("tokens %q are left in Coder", names)
	}
	for _, name := range []string{"dev-operator-token", "dev-operator-credentials"} {
		if f.HasSecret(name) {
			f.T.Errorf("Secret %q is left", name)
		}
	}
	if n := f.Coder.Sessions(coderv1alpha1.OperatorUsername); n != 0 {
		f.T.Errorf("%d sessions are left", n)
	}
}

func TestRevoke(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(f *fixture)
		events  string
	}{
		"a token that works":      {prepare: func(f *fixture) { f.pass() }, events: "TokenRevoked"},
		"where nothing ever was":  {prepare: func(*fixture) {}},
		"a token that Coder lost": {prepare: func(f *fixture) { f.pass(); f.Coder.RevokeToken(f.token()) }},
		"a token without its Secret": {
			prepare: func(f *fixture) { f.pass(); f.Remove(f.Secret("dev-operator-token")) }, events: "TokenRevoked",
		},
		"a suspended account": {prepare: func(f *fixture) {
			f.pass()
			if err := f.as(f.token()).DeleteToken(f.Ctx, "me", f.Secret("dev-operator-token").Annotations[AnnotationTokenID]); err != nil {
				f.T.Fatal(err)
			}
			f.Coder.SuspendUser(coderv1alpha1.OperatorUsername)
		}},
		"while the Job runs": {prepare: func(f *fixture) { f.addAda(); f.pass() }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c.prepare(f)
			got := f.revoke()
			f.WantState(got.Result, ensure.Ready, coderv1alpha1.ReasonTokenRevoked)
			if ensuretest.Reasons(got.Events) != c.events {
				t.Errorf("events %q, want %q", ensuretest.Reasons(got.Events), c.events)
			}
			f.checkGone()
			if f.Has(jobName, &batchv1.Job{}) {
				t.Error("the Job is left")
			}
			f.Coder.Asked()
			f.TakeWrites()
			again := f.revoke()
			if asked := f.Coder.Asked(); asked != 0 || f.Writes() != 0 || len(again.Events) != 0 {
				t.Errorf("once more: %d requests, %d writes, events %v", asked, f.Writes(), again.Events)
			}
		})
	}
}

func TestRevokeWaitsForCoder(t *testing.T) {
	f := newFixture(t)
	f.pass()
	f.Coder.Fail(coderdtest.Fault{DropConnection: true})
	got := f.revoke()
	f.WantState(got.Result, ensure.Waiting, coderv1alpha1.ReasonUnreachable)
	if !f.HasSecret("dev-operator-token") {
		t.Error("the Secret is gone, and with it the way to try again")
	}
	f.Coder.ClearFaults()
	f.WantState(f.revoke().Result, ensure.Ready, coderv1alpha1.ReasonTokenRevoked)
	f.checkGone()
}

func TestDisabled(t *testing.T) {
	f := newFixture(t)
	f.pass()
	f.cp.Spec.OperatorAccess.Disabled = true
	got := f.pass()
	f.WantState(got.Result, ensure.Ready, coderv1alpha1.ReasonDisabled)
	if got.TokenRef != nil || got.ExpiresAt != nil || ensuretest.Reasons(got.Events) != "TokenRevoked" {
		t.Errorf("token ref %v, events %v", got.TokenRef, got.Events)
	}
	f.checkGone()
	f.checkAdmin()
	f.Coder.Asked()
	f.TakeWrites()
	f.WantState(f.pass().Result, ensure.Ready, coderv1alpha1.ReasonDisabled)
	if asked := f.Coder.Asked(); asked != 0 || f.Writes() != 0 {
		t.Errorf("once more: %d requests, %d writes", asked, f.Writes())
	}
	f.cp.Spec.OperatorAccess.Disabled = false
	f.addAda()
	f.settle()
	f.checkWhole()
}
