package outcome

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// marked wraps a Stop with information of one package.
type marked struct{ *Stop }

func (m marked) Unwrap() error { return m.Stop }

// TestStopped finds the Stop in any error chain, and finds nothing else.
func TestStopped(t *testing.T) {
	waits := Waits("Busy", time.Minute, "waits for %q", "a")
	fails := Fails("Wrong", time.Hour, "correct %q", "b")
	for name, c := range map[string]struct {
		err  error
		want *Stop
	}{
		"no error":  {nil, nil},
		"another":   {errors.New("conflict"), nil},
		"waiting":   {waits, &Stop{State: Waiting, Reason: "Busy", After: time.Minute, Message: `waits for "a"`}},
		"failed":    {fails, &Stop{State: Failed, Reason: "Wrong", After: time.Hour, Message: `correct "b"`}},
		"wrapped":   {fmt.Errorf("in a pass: %w", fails), fails},
		"marked":    {marked{waits}, waits},
		"with more": {errors.Join(waits, nil), waits},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Stopped(c.err)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			stop, other := End(c.err)
			if diff := cmp.Diff(c.want, stop); diff != "" || (other == nil) != (stop != nil || c.err == nil) {
				t.Errorf("the end leaves %v (-want +got):\n%s", other, diff)
			}
		})
	}
	if got := (marked{fails}).Error(); got != `correct "b"` {
		t.Errorf("says %q", got)
	}
}

func TestEvents(t *testing.T) {
	var events Events
	events.Normal("Made", "made it")
	events.Warning("Left", "left it")
	want := Events{{Type: "Normal", Reason: "Made", Message: "made it"}, {Type: "Warning", Reason: "Left", Message: "left it"}}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
