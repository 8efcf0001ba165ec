package access

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure/ensuretest"
)

// scenario is a state from which Ensure takes several steps.
type scenario struct {
	prepare func(w *world)
	check   func(w *world)
}

func scenarios() map[string]scenario {
	whole := func(w *world) { w.checkWhole(); w.checkAdmin() }
	return map[string]scenario{
		"fresh": {prepare: func(*world) {}, check: whole},
		"rotation": {
			prepare: func(w *world) {
				w.settle()
				w.Forward(5 * 24 * time.Hour)
			},
			check: whole,
		},
		"refused token": {
			prepare: func(w *world) {
				w.settle()
				w.Coder.RevokeToken(w.token())
				w.restart()
			},
			check: whole,
		},
		"deleted token Secret": {
			prepare: func(w *world) {
				w.settle()
				w.Delete(w.Secret("dev-operator-token"))
			},
			check: whole,
		},
		"users exist": {
			prepare: func(w *world) { w.addAda() },
			check: func(w *world) {
				w.checkWhole()
				creds := readAccount(w.Secret("dev-operator-credentials"))
				if got := w.Coder.Usernames(); !slices.Equal(got, []string{"ada", creds.username}) {
					w.T.Errorf("users %q, want ada and the operator", got)
				}
				if w.Get(jobName, &batchv1.Job{}) {
					w.T.Error("the Job is still there")
				}
			},
		},
		"own token replaced by a given one": {
			prepare: func(w *world) {
				w.settle()
				w.addAda()
				w.giveToken(w.ada)
			},
			check: func(w *world) {
				if names := w.Coder.TokenNames(Username); len(names) != 0 {
					w.T.Errorf("tokens %q are left", names)
				}
				if w.HasSecret("dev-operator-token") {
					w.T.Error("the token Secret is left")
				}
			},
		},
		"disabled": {
			prepare: func(w *world) {
				w.settle()
				w.cp.Spec.OperatorAccess.Disabled = true
			},
			check: func(w *world) {
				if names := w.Coder.TokenNames(Username); len(names) != 0 {
					w.T.Errorf("tokens %q are left", names)
				}
			},
		},
	}
}

func TestCrash(t *testing.T) {
	ensuretest.Crash(t, 3, scenarios(), func(t *testing.T, s scenario) (_ *ensuretest.World, run, resume func()) {
		w := newWorld(t)
		s.prepare(w)
		return w.World, func() {
				for range 6 {
					result, err := w.manager.Ensure(w.Ctx, w.request())
					w.CheckSilence(w.secrets, result.Events, result.Message, err)
					if w.Fault.Struck() || result.State == Ready {
						break
					}
					w.runJob()
				}
			}, func() {
				w.restart()
				w.settle()
				w.pass()
				s.check(w)
			}
	})
}
