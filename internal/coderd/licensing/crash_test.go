package licensing

import (
	"fmt"
	"testing"
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
			prepare: func(w *world) { w.coder.AddLicense(theirs); w.license = first },
			check:   func(w *world) { w.wantHeld([]string{theirs, first}, []string{first}) },
		},
		"replaced": {
			uploads: 1, steps: 6,
			prepare: func(w *world) { w.coder.AddLicense(theirs); w.license = first; w.pass(); w.license = second },
			check:   func(w *world) { w.wantHeld([]string{theirs, second}, []string{second}) },
		},
		"replaced by one that a person added": {
			uploads: 0, steps: 4,
			prepare: func(w *world) { w.coder.AddLicense(theirs); w.license = first; w.pass(); w.license = theirs },
			check:   func(w *world) { w.wantHeld([]string{theirs}, nil) },
		},
		"not asked for any more": {
			uploads: 0, steps: 4,
			prepare: func(w *world) { w.coder.AddLicense(theirs); w.license = noID; w.pass(); w.license = "" },
			check:   func(w *world) { w.wantHeld([]string{theirs}, nil) },
		},
	}
}

// TestCrash interrupts the process at every record and request, once before the other side receives
// it and once after, and continues with a new process.
func TestCrash(t *testing.T) {
	for name, s := range scenarios() {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/answer lost=%t", name, lost), func(t *testing.T) {
				at := 1
				for crashAt(t, s, at, lost) {
					at++
				}
				if at-1 != s.steps {
					t.Errorf("%d steps, want %d", at-1, s.steps)
				}
			})
		}
	}
}

// crashAt reports whether there was a step at which to interrupt.
func crashAt(t *testing.T, s scenario, at int, lost bool) bool {
	t.Helper()
	w := newLicensedWorld(t)
	s.prepare(w)
	w.coder.ResetRequests()
	w.fault.Set(at, lost)
	_, _ = w.try()
	struck := w.fault.Struck()
	w.fault.Set(0, false)
	w.restart()
	w.pass()
	s.check(w)
	if n := w.coder.Requests()["POST /api/v2/licenses"]; n != s.uploads {
		t.Errorf("%d uploads, want %d", n, s.uploads)
	}
	w.coder.ResetRequests()
	records := w.records
	w.restart()
	w.pass()
	s.check(w)
	if n := w.coder.Writes(); n != 0 || w.records != records {
		t.Errorf("%d writes and %d records at rest", n, w.records-records)
	}
	if t.Failed() {
		t.Fatalf("after a crash at step %d", at)
	}
	return struck
}
