package licensing

import (
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure/ensuretest"
)

// scenario is a state from which Ensure takes several steps.
type scenario struct {
	prepare func(w *world)
	// uploads is the number of licenses uploaded to Coder, and steps the number of steps, including
	// records.
	uploads, steps int
	check          func(w *world)
}

func scenarios() map[string]scenario {
	first, second, theirs := license(100), license(200), license(300)
	noID := noUUID(begin.AddDate(1, 0, 0))
	return map[string]scenario{
		"added": {
			uploads: 1, steps: 4,
			prepare: func(w *world) { w.Coder.AddLicense(theirs); w.license = first },
			check:   func(w *world) { w.wantHeld([]string{theirs, first}, []string{first}) },
		},
		"replaced": {
			uploads: 1, steps: 6,
			prepare: func(w *world) { w.Coder.AddLicense(theirs); w.license = first; w.pass(); w.license = second },
			check:   func(w *world) { w.wantHeld([]string{theirs, second}, []string{second}) },
		},
		"replaced by one that a person added": {
			uploads: 0, steps: 4,
			prepare: func(w *world) { w.Coder.AddLicense(theirs); w.license = first; w.pass(); w.license = theirs },
			check:   func(w *world) { w.wantHeld([]string{theirs}, nil) },
		},
		"not asked for any more": {
			uploads: 0, steps: 4,
			prepare: func(w *world) { w.Coder.AddLicense(theirs); w.license = noID; w.pass(); w.license = "" },
			check:   func(w *world) { w.wantHeld([]string{theirs}, nil) },
		},
	}
}

func TestCrash(t *testing.T) {
	ensuretest.Crash(t, 0, scenarios(), func(t *testing.T, s scenario) (_ *ensuretest.World, run, resume func()) {
		w := newLicensedWorld(t)
		s.prepare(w)
		w.Coder.ResetRequests()
		return w.World, func() {
			_, _ = w.try()
			if !w.Fault.Struck() && w.Fault.Steps() != s.steps {
				t.Errorf("%d steps, want %d", w.Fault.Steps(), s.steps)
			}
		}, func() { s.resume(w) }
	})
}

// resume continues with a new process, and checks that another one changes nothing.
func (s scenario) resume(w *world) {
	w.restart()
	w.pass()
	s.check(w)
	if n := w.Coder.Requests()["POST /api/v2/licenses"]; n != s.uploads {
		w.T.Errorf("%d uploads, want %d", n, s.uploads)
	}
	w.Coder.ResetRequests()
	records := w.records
	w.restart()
	w.pass()
	s.check(w)
	if n := w.Coder.Writes(); n != 0 || w.records != records {
		w.T.Errorf("%d writes and %d records at rest", n, w.records-records)
	}
}
