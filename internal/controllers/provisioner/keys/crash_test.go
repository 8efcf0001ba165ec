package keys

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure/ensuretest"
)

// scenario is a state that needs further steps.
type scenario struct {
	prepare func(f *fixture)
	// run runs one pass, and done reports whether everything is done. If they are nil, Ensure and
	// Retire are used.
	run   func(f *fixture) error
	done  func(f *fixture) bool
	check func(f *fixture)
}

func scenarios() map[string]scenario {
	whole := func(name string) func(*fixture) { return func(f *fixture) { f.checkWhole(name) } }
	gone := func(f *fixture) {
		if names := f.keyNames(); names != "" {
			f.T.Errorf("keys left in Coder: %s", names)
		}
	}
	return map[string]scenario{
		"create": {prepare: func(*fixture) {}, check: whole("gpu")},
		"tags changed": {
			prepare: func(f *fixture) {
				f.settle()
				f.cr.Spec.Tags = map[string]string{"zone": "b"}
			},
			check: whole("gpu-2"),
		},
		"rotation by age": {
			prepare: func(f *fixture) {
				f.cr.Spec.Key.RotateAfter = &metav1.Duration{Duration: 24 * time.Hour}
				f.settle()
				f.Forward(24 * time.Hour)
			},
			check: whole(""),
		},
		"Secret deleted": {
			prepare: func(f *fixture) {
				f.settle()
				f.Remove(f.Secret(secretName))
			},
			check: whole("gpu-2"),
		},
		"deleted in Coder": {
			prepare: func(f *fixture) {
				f.settle()
				f.Coder.RemoveProvisionerKey(organization, "gpu")
				f.restart()
			},
			check: whole("gpu"),
		},
		"key renamed": {
			prepare: func(f *fixture) {
				f.settle()
				f.cr.Spec.Key.Name = "Other"
			},
			check: whole("other"),
		},
		"own key": {
			prepare: func(f *fixture) {
				f.settle()
				f.cr.Spec.Key.SecretRef = &coderv1alpha1.ProvisionerKeySecretReference{Name: "mine"}
				f.pods = []string{""}
			},
			run: func(f *fixture) error {
				result, err := f.manager.Release(f.Ctx, f.request())
				f.hear(result, err)
				if result.Forgotten {
					f.cr.Status = coderv1alpha1.CoderProvisionerStatus{}
				}
				return err
			},
			done: func(f *fixture) bool { return !f.HasSecret(secretName) },
			check: func(f *fixture) {
				gone(f)
				if f.HasSecret(secretName) {
					f.T.Error("the Secret is left")
				}
			},
		},
		"delete": {
			prepare: func(f *fixture) { f.settle() },
			run: func(f *fixture) error {
				result, err := f.manager.Withdraw(f.Ctx, f.request())
				f.hear(result, err)
				return err
			},
			done:  func(f *fixture) bool { return f.keyNames() == "" },
			check: gone,
		},
	}
}

func (s scenario) pass(f *fixture) error {
	if s.run != nil {
		return s.run(f)
	}
	if _, err := f.tryEnsure(); err != nil {
		return err
	}
	result, err := f.manager.Retire(f.Ctx, f.request())
	f.hear(result, err)
	return err
}

func TestCrash(t *testing.T) {
	ensuretest.Crash(t, 2, scenarios(), func(t *testing.T, s scenario) (_ *ensuretest.Fixture, run, resume func()) {
		f := newFixture(t)
		s.prepare(f)
		return f.Fixture, func() {
			for range 4 {
				if err := s.pass(f); err != nil || f.Fault.Struck() {
					break
				}
			}
		}, func() { s.resume(f) }
	})
}

// resume continues with a new process.
func (s scenario) resume(f *fixture) {
	f.restart()
	if s.done == nil {
		f.settle()
	} else {
		for range 6 {
			f.Must(s.pass(f))
			if s.done(f) {
				break
			}
		}
	}
	s.check(f)
}
