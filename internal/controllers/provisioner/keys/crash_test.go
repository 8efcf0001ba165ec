package keys

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/crashtest"
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
			w.t.Errorf("keys left in Coder: %s", names)
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
				w.forward(24 * time.Hour)
			},
			check: whole(""),
		},
		"Secret deleted": {
			prepare: func(w *world) {
				w.settle()
				w.delete(secretName)
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
				if w.secret(secretName) != nil {
					w.t.Error("the Secret of the earlier name is left")
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
				w.coder.RemoveProvisionerKey(organization, "gpu")
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
				result, err := w.manager.Release(w.ctx, w.request())
				w.hear(result, err)
				if result.Forgotten {
					w.cr.Status = coderv1alpha1.CoderProvisionerStatus{}
				}
				return err
			},
			done: func(w *world) bool { return w.secret(secretName) == nil },
			check: func(w *world) {
				gone(w)
				if w.secret(secretName) != nil {
					w.t.Error("the Secret is left")
				}
			},
		},
		"delete": {
			prepare: func(w *world) { w.settle() },
			run: func(w *world) error {
				result, err := w.manager.Withdraw(w.ctx, w.request())
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
	result, err := w.manager.Retire(w.ctx, w.request())
	w.hear(result, err)
	return err
}

// TestCrash kills the process at every single write and request, once before the server receives it
// and once after, and continues with a new process.
func TestCrash(t *testing.T) {
	for name, s := range scenarios() {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/answer lost=%t", name, lost), func(t *testing.T) {
				crashtest.EachStep(t, 2, func(at int) bool { return crashAt(t, s, at, lost) })
			})
		}
	}
}

// crashAt reports whether there was a step to crash at.
func crashAt(t *testing.T, s scenario, at int, lost bool) bool {
	t.Helper()
	w := newWorld(t)
	s.prepare(w)
	w.fault.Set(at, lost)
	for range 4 {
		if err := s.pass(w); err != nil || w.fault.Struck() {
			break
		}
	}
	struck := w.fault.Struck()
	w.restart()
	if s.done == nil {
		w.settle()
	} else {
		for range 6 {
			if err := s.pass(w); err != nil {
				t.Fatal(err)
			}
			if s.done(w) {
				break
			}
		}
	}
	s.check(w)
	if t.Failed() {
		t.Fatalf("after a crash at step %d", at)
	}
	return struck
}
