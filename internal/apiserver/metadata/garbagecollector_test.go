package metadata_test

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records/recordstest"
)

var now = time.Date(2026, 5, 6, 7, 0, 0, 0, time.UTC)

// TestSweep sweeps for some minutes, and checks when each record is deleted.
func TestSweep(t *testing.T) {
	every := func(minutes, until int) (at []int) {
		for m := 0; m <= until; m += minutes {
			at = append(at, m)
		}
		return at
	}
	for name, c := range map[string]struct {
		pending bool
		exists  func(minute int) bool
		sweeps  []int
		want    int // the minute of its deletion, or -1
	}{
		"pending, and nothing came":       {true, func(int) bool { return false }, every(1, 5), 3},
		"pending, and the object is seen": {true, func(int) bool { return true }, every(1, 300), -1},
		"the object is there":             {false, func(int) bool { return true }, every(1, 300), -1},
		"the object is gone":              {false, func(int) bool { return false }, every(5, 300), 60},
		"the object came back":            {false, func(m int) bool { return m == 55 }, every(5, 300), 120},
		"nobody could look for a while":   {false, func(int) bool { return false }, append(every(5, 55), 70, 75, 80), -1},
		"looked at long enough after":     {false, func(int) bool { return false }, append([]int{0, 5, 10}, 100, 110, 120, 130, 140, 150, 159, 160), 160},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(now)
			records := recordstest.NewWithClock(t, clock)
			controlPlane := types.NamespacedName{Namespace: "team", Name: "prod"}
			record := &metadata.Record{ControlPlane: controlPlane, Kind: "CoderWorkspace", Name: "coder.ada.dev", UID: "1", Labels: map[string]string{"a": "b"}}
			if c.pending {
				record.UID = ""
			}
			if _, err := records.Put(t.Context(), record); err != nil {
				t.Fatal(err)
			}
			collector := metadata.NewGarbageCollector(records)
			gone := -1
			for _, minute := range c.sweeps {
				removed, err := collector.Sweep(t.Context(), controlPlane, now.Add(time.Duration(minute)*time.Minute), func(r *metadata.Record) bool { return c.exists(minute) })
				if err != nil {
					t.Fatal(err)
				}
				if len(removed) > 0 && gone < 0 {
					gone = minute
				}
			}
			if left := len(records.All()); gone != c.want || left != map[bool]int{true: 0, false: 1}[c.want >= 0] {
				t.Errorf("it went at minute %d, should at %d; left are %d", gone, c.want, left)
			}
		})
	}
}

// TestSweepFails checks that a failed deletion is retried.
func TestSweepFails(t *testing.T) {
	records := recordstest.NewWithClock(t, clocktesting.NewFakePassiveClock(now))
	controlPlane := types.NamespacedName{Namespace: "team", Name: "prod"}
	for _, name := range []string{"a", "b"} {
		if _, err := records.Put(t.Context(), &metadata.Record{ControlPlane: controlPlane, Kind: "CoderWorkspace", Name: name, Labels: map[string]string{"a": "b"}}); err != nil {
			t.Fatal(err)
		}
	}
	collector := metadata.NewGarbageCollector(records)
	nothing := func(*metadata.Record) bool { return false }
	records.Cluster("CoderWorkspace").Away(errors.New("kube-apiserver is away"))
	removed, err := collector.Sweep(t.Context(), controlPlane, now.Add(time.Hour), nothing)
	if err == nil || len(removed) != 0 {
		t.Errorf("removed was %v, %v", removed, err)
	}
	records.Cluster("CoderWorkspace").Away(nil)
	removed, err = collector.Sweep(t.Context(), controlPlane, now.Add(time.Hour), nothing)
	if err != nil || len(removed) != 2 || len(records.All()) != 0 {
		t.Errorf("then removed was %v, %v", removed, err)
	}
}
