package access

import (
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/coder-k8s/coder-k8s/internal/kube/crashtest"
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
				w.forward(5 * 24 * time.Hour)
			},
			check: whole,
		},
		"refused token": {
			prepare: func(w *world) {
				w.settle()
				w.coder.RevokeToken(w.token())
				w.restart()
			},
			check: whole,
		},
		"deleted token Secret": {
			prepare: func(w *world) {
				w.settle()
				w.remove(w.secret("dev-operator-token"))
			},
			check: whole,
		},
		"users exist": {
			prepare: func(w *world) { w.addAda() },
			check: func(w *world) {
				w.checkWhole()
				creds := readAccount(w.secret("dev-operator-credentials"))
				if got := w.coder.Usernames(); !slices.Equal(got, []string{"ada", creds.username}) {
					w.t.Errorf("users %q, want ada and the operator", got)
				}
				if w.get(jobName, &batchv1.Job{}) {
					w.t.Error("the Job is still there")
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
				if names := w.coder.TokenNames(Username); len(names) != 0 {
					w.t.Errorf("tokens %q are left", names)
				}
				if w.get("dev-operator-token", &corev1.Secret{}) {
					w.t.Error("the token Secret is left")
				}
			},
		},
		"disabled": {
			prepare: func(w *world) {
				w.settle()
				w.cp.Spec.OperatorAccess.Disabled = true
			},
			check: func(w *world) {
				if names := w.coder.TokenNames(Username); len(names) != 0 {
					w.t.Errorf("tokens %q are left", names)
				}
			},
		},
	}
}

// TestCrash interrupts the process at every write and request, once before the other side receives
// it and once after, and continues with a new process.
func TestCrash(t *testing.T) {
	for name, s := range scenarios() {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/answer lost=%t", name, lost), func(t *testing.T) {
				crashtest.EachStep(t, 3, func(at int) bool { return crashAt(t, s, at, lost) })
			})
		}
	}
}

// crashAt reports whether there was a step at which to interrupt.
func crashAt(t *testing.T, s scenario, at int, lost bool) bool {
	t.Helper()
	w := newWorld(t)
	s.prepare(w)
	w.fault.Set(at, lost)
	for range 6 {
		result, err := w.manager.Ensure(w.ctx, w.request())
		w.checkSilence(result, err)
		if w.fault.Struck() || result.State == Ready {
			break
		}
		w.runJob()
	}
	struck := w.fault.Struck()
	w.restart()
	w.settle()
	w.pass()
	s.check(w)
	if t.Failed() {
		t.Fatalf("after a crash at step %d", at)
	}
	return struck
}
