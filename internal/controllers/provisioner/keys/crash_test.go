package keys

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure/ensuretest"
)

// scenario is a state that needs further steps.
type scenario struct {
	prepare func(w *world)
	// run runs one pass, and done reports whether everything is done. If they are nil, Ensure and
	// Retire are used.
	run   func(w *world) error
	done  func(w *world) bool
	check func(w *world)
}

func scenarios() map[string]scenario {
	whole := func(name string) func(*world) { return func(w *world) { w.checkWhole(name) } }
	gone := func(w *world) {
		if names := w.keyNames(); names != "" {
			w.T.Errorf("keys left in Coder: %s", names)
		}
	}
	return map[string]scenario{
		"create": {prepare: func(*world) {}, check: whole("gpu")},
		"tags changed": {
			prepare: func(w *world) {
				w.settle()
				w.cr.Spec.Tags = map[string]string{"zone": "b"}
			},
			check: whole("gpu-2"),
		},
		"rotation by age": {
			prepare: func(w *world) {
				w.cr.Spec.Key.RotateAfter = &metav1.Duration{Duration: 24 * time.Hour}
				w.settle()
				w.Forward(24 * time.Hour)
			},
			check: whole(""),
		},
		"Secret deleted": {
			prepare: func(w *world) {
				w.settle()
				w.Delete(w.Secret(secretName))
			},
			check: whole("gpu-2"),
		},
		"Secret renamed": {
			prepare: func(w *world) {
				w.settle()
				w.cr.Spec.Key.SecretName = "elsewhere"
			},
			check: func(w *world) {
				w.checkWhole("gpu")
				if w.HasSecret(secretName) {
					w.T.Error("the Secret of the earlier name is left")
				}
			},
		},
		"key of the Secret changed, and the tags": {
			prepare: func(w *world) {
				w.settle()
				w.cr.Spec.Key.SecretKey, w.cr.Spec.Tags = "token", nil
			},
			check: whole("gpu-2"),
		},
		"deleted in Coder": {
			prepare: func(w *world) {
				w.settle()
				w.Coder.RemoveProvisionerKey(organization, "gpu")
				w.restart()
			},
			check: whole("gpu"),
		},
		"key renamed": {
			prepare: func(w *world) {
				w.settle()
				w.cr.Spec.Key.Name = "Other"
			},
			check: whole("other"),
		},
		"own key": {
			prepare: func(w *world) {
				w.settle()
				w.cr.Spec.Key.SecretRef = &coderv1alpha1.ProvisionerKeySecretReference{Name: "mine"}
				w.pods = []string{""}
			},
			run: func(w *world) error {
				result, err := w.manager.Release(w.Ctx, w.request())
				w.hear(result, err)
				if result.Forgotten {
					w.cr.Status = coderv1alpha1.CoderProvisionerStatus{}
				}
				return err
			},
			done: func(w *world) bool { return !w.HasSecret(secretName) },
			check: func(w *world) {
				gone(w)
				if w.HasSecret(secretName) {
					w.T.Error("the Secret is left")
				}
			},
		},
		"delete": {
			prepare: func(w *world) { w.settle() },
			run: func(w *world) error {
				result, err := w.manager.Withdraw(w.Ctx, w.request())
				w.hear(result, err)
				return err
			},
			done:  func(w *world) bool { return w.keyNames() == "" },
			check: gone,
		},
	}
}

func (s scenario) pass(w *world) error {
	if s.run != nil {
		return s.run(w)
	}
	if _, err := w.tryEnsure(); err != nil {
		return err
	}
	result, err := w.manager.Retire(w.Ctx, w.request())
	w.hear(result, err)
	return err
}

func TestCrash(t *testing.T) {
	ensuretest.Crash(t, 2, scenarios(), func(t *testing.T, s scenario) (_ *ensuretest.World, run, resume func()) {
		w := newWorld(t)
		s.prepare(w)
		return w.World, func() {
			for range 4 {
				if err := s.pass(w); err != nil || w.Fault.Struck() {
					break
				}
			}
		}, func() { s.resume(w) }
	})
}

// resume continues with a new process.
func (s scenario) resume(w *world) {
	w.restart()
	if s.done == nil {
		w.settle()
	} else {
		for range 6 {
			w.Must(s.pass(w))
			if s.done(w) {
				break
			}
		}
	}
	s.check(w)
}
