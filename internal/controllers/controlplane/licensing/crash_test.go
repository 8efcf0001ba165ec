package licensing

import (
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure/ensuretest"
)

// scenario is a state from which Ensure takes several steps.
type scenario struct {
	prepare func(f *fixture)
	// uploads is the number of licenses uploaded to Coder, and steps the number of steps, including
	// records.
	uploads, steps int
	check          func(f *fixture)
}

func scenarios() map[string]scenario {
	first, second, theirs := license(100), license(200), license(300)
	noID := noUUID(begin.AddDate(1, 0, 0))
	return map[string]scenario{
		"added": {
			uploads: 1, steps: 4,
			prepare: func(f *fixture) { f.Coder.AddLicense(theirs); f.license = first },
			check:   func(f *fixture) { f.wantHeld([]string{theirs, first}, []string{first}) },
		},
		"replaced": {
			uploads: 1, steps: 6,
			prepare: func(f *fixture) { f.Coder.AddLicense(theirs); f.license = first; f.pass(); f.license = second },
			check:   func(f *fixture) { f.wantHeld([]string{theirs, second}, []string{second}) },
		},
		"replaced by one that a person added": {
			uploads: 0, steps: 4,
			prepare: func(f *fixture) { f.Coder.AddLicense(theirs); f.license = first; f.pass(); f.license = theirs },
			check:   func(f *fixture) { f.wantHeld([]string{theirs}, nil) },
		},
		"not asked for any more": {
			uploads: 0, steps: 4,
			prepare: func(f *fixture) { f.Coder.AddLicense(theirs); f.license = noID; f.pass(); f.license = "" },
			check:   func(f *fixture) { f.wantHeld([]string{theirs}, nil) },
		},
	}
}

func TestCrash(t *testing.T) {
	ensuretest.Crash(t, 0, scenarios(), func(t *testing.T, s scenario) (_ *ensuretest.Fixture, run, resume func()) {
		f := newLicensedFixture(t)
		s.prepare(f)
		f.Coder.ResetRequests()
		return f.Fixture, func() {
			_, _ = f.try()
			if !f.Fault.Struck() && f.Fault.Steps() != s.steps {
				t.Errorf("%d steps, want %d", f.Fault.Steps(), s.steps)
			}
		}, func() { s.resume(f) }
	})
}

// resume continues with a new process, and checks that another one changes nothing.
func (s scenario) resume(f *fixture) {
	f.restart()
	f.pass()
	s.check(f)
	if n := f.Coder.Requests()["POST /api/v2/licenses"]; n != s.uploads {
		f.T.Errorf("%d uploads, want %d", n, s.uploads)
	}
	f.Coder.ResetRequests()
	records := f.records
	f.restart()
	f.pass()
	s.check(f)
	if n := f.Coder.Writes(); n != 0 || f.records != records {
		f.T.Errorf("%d writes and %d records at rest", n, f.records-records)
	}
}
