package access

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure/ensuretest"
)

// scenario is a state from which Ensure takes several steps.
type scenario struct {
	prepare func(f *fixture)
	check   func(f *fixture)
}

func scenarios() map[string]scenario {
	whole := func(f *fixture) { f.checkWhole(); f.checkAdmin() }
	return map[string]scenario{
		"fresh": {prepare: func(*fixture) {}, check: whole},
		"rotation": {
			prepare: func(f *fixture) {
				f.settle()
				f.Forward(5 * 24 * time.Hour)
			},
			check: whole,
		},
		"refused token": {
			prepare: func(f *fixture) {
				f.settle()
				f.Coder.RevokeToken(f.token())
				f.restart()
			},
			check: whole,
		},
		"deleted token Secret": {
			prepare: func(f *fixture) {
				f.settle()
				f.Remove(f.Secret("dev-operator-token"))
			},
			check: whole,
		},
		"users exist": {
			prepare: func(f *fixture) { f.addAda() },
			check: func(f *fixture) {
				f.checkWhole()
				creds := readAccount(f.Secret("dev-operator-credentials"))
				if got := f.Coder.Usernames(); !slices.Equal(got, []string{"ada", creds.username}) {
					f.T.Errorf("users %q, want ada and the operator", got)
				}
				if f.Has(jobName, &batchv1.Job{}) {
					f.T.Error("the Job is still there")
				}
			},
		},
		"own token replaced by a given one": {
			prepare: func(f *fixture) {
				f.settle()
				f.addAda()
				f.giveToken(f.ada)
			},
			check: func(f *fixture) {
				if names := f.Coder.TokenNames(coderv1alpha1.OperatorUsername); len(names) != 0 {
					f.T.Errorf("tokens %q are left", names)
				}
				if f.HasSecret("dev-operator-token") {
					f.T.Error("the token Secret is left")
				}
			},
		},
		"disabled": {
			prepare: func(f *fixture) {
				f.settle()
				f.cp.Spec.OperatorAccess.Disabled = true
			},
			check: func(f *fixture) {
				if names := f.Coder.TokenNames(coderv1alpha1.OperatorUsername); len(names) != 0 {
					f.T.Errorf("tokens %q are left", names)
				}
			},
		},
	}
}

func TestCrash(t *testing.T) {
	ensuretest.Crash(t, 3, scenarios(), func(t *testing.T, s scenario) (_ *ensuretest.Fixture, run, resume func()) {
		f := newFixture(t)
		s.prepare(f)
		return f.Fixture, func() {
				for range 6 {
					result, err := f.manager.Ensure(f.Ctx, f.request())
					f.CheckSilence(f.secrets, result.Events, result.Message, err)
					if f.Fault.Struck() || result.State == ensure.Ready {
						break
					}
					f.runJob()
				}
			}, func() {
				f.restart()
				f.settle()
				f.pass()
				s.check(f)
			}
	})
}
