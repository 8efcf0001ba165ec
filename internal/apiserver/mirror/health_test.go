package mirror

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/partition"
)

// TestHealth checks the state after a sequence of calls at given times, in seconds.
func TestHealth(t *testing.T) {
	start := time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	type step struct {
		at   int
		do   func(h *health, now time.Time)
		want partition.State
	}
	nothing := func(*health, time.Time) {}
	synced := func(h *health, now time.Time) { h.synced(now) }
	fail := func(call string, what fault) func(*health, time.Time) {
		return func(h *health, now time.Time) { h.failed(call, what, now, "trouble") }
	}
	ok := func(call string) func(*health, time.Time) {
		return func(h *health, _ time.Time) { h.succeeded(call) }
	}
	for name, steps := range map[string][]step{
		"never read": {
			{0, nothing, partition.Syncing}, {299, nothing, partition.Syncing}, {300, nothing, partition.Quarantined},
			{400, synced, partition.Ready},
		},
		"never read, refused": {
			{0, fail(callCount, refused), partition.Syncing}, {4, nothing, partition.Syncing}, {5, nothing, partition.Quarantined},
			{600, nothing, partition.Quarantined}, {601, synced, partition.Ready},
		},
		"unreachable": {
			{0, synced, partition.Ready}, {10, fail(callJobs, unreachable), partition.Ready}, {39, fail(callJobs, unreachable), partition.Ready},
			{40, nothing, partition.Stale}, {309, nothing, partition.Stale}, {310, nothing, partition.Quarantined},
			{311, ok(callJobs), partition.Quarantined}, {312, synced, partition.Ready}, {1000, nothing, partition.Ready},
		},
		"back in time": {
			{0, synced, partition.Ready}, {10, fail(callJobs, unreachable), partition.Ready}, {39, ok(callJobs), partition.Ready},
			{40, fail(callJobs, unreachable), partition.Ready}, {69, nothing, partition.Ready}, {70, nothing, partition.Stale},
		},
		"one call of many": {
			{0, synced, partition.Ready}, {1, fail(callTemplates, unreachable), partition.Ready},
			{20, ok(callJobs), partition.Ready}, {31, ok(callJobs), partition.Stale},
		},
		"answers while it was stale do not make it ready": {
			{0, synced, partition.Ready}, {1, fail(callJobs, unreachable), partition.Ready}, {31, nothing, partition.Stale},
			{60, ok(callJobs), partition.Stale}, {301, nothing, partition.Quarantined},
		},
		"refused": {
			{0, synced, partition.Ready}, {10, fail(callJobs, refused), partition.Ready}, {14, nothing, partition.Ready},
			{15, nothing, partition.Quarantined},
		},
		"refused while stale": {
			{0, synced, partition.Ready}, {1, fail(callConnect, unreachable), partition.Ready}, {31, nothing, partition.Stale},
			{32, fail(callCount, refused), partition.Stale}, {37, nothing, partition.Quarantined},
		},
		"asked for patience": {
			{0, synced, partition.Ready}, {1, fail(callWorkspaces, limited), partition.Ready}, {120, nothing, partition.Ready},
			{121, nothing, partition.Stale},
		},
		"a page that failed once": {
			{0, synced, partition.Ready}, {1, fail(callPages, unreachable), partition.Ready}, {1000, nothing, partition.Ready},
		},
		"shows less than it has": {
			{0, synced, partition.Ready}, {1, func(h *health, now time.Time) { h.quarantine(now, "blind") }, partition.Quarantined},
			{1000, nothing, partition.Quarantined}, {1001, synced, partition.Ready},
		},
		"resumed ready": {
			{0, func(h *health, now time.Time) {
				h.resume(partition.Partition{State: partition.Ready, Seen: true, Since: metav1.Time{Time: now.Add(-time.Hour)}})
			}, partition.Ready},
			{1, fail(callCount, unreachable), partition.Ready}, {5, nothing, partition.Ready}, {6, nothing, partition.Stale},
		},
		"resumed ready, and answered": {
			{0, func(h *health, now time.Time) {
				h.resume(partition.Partition{State: partition.Ready, Seen: true, Since: metav1.Time{Time: now.Add(-time.Hour)}})
			}, partition.Ready},
			{1, ok(callJobs), partition.Ready}, {2, fail(callCount, unreachable), partition.Ready},
			{31, nothing, partition.Ready}, {32, nothing, partition.Stale},
		},
		"resumed stale": {
			{0, func(h *health, now time.Time) {
				h.resume(partition.Partition{State: partition.Stale, Seen: true, Since: metav1.Time{Time: now.Add(-200 * time.Second)}, Message: "m"})
			}, partition.Stale},
			{99, nothing, partition.Stale}, {100, nothing, partition.Quarantined},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var timing Timing
			timing.complete()
			h := newHealth(&timing, start)
			for _, s := range steps {
				s.do(h, at(s.at))
				h.update(at(s.at))
				if h.state != s.want {
					t.Fatalf("after %ds it is %s (%q), not %s", s.at, h.state, h.message, s.want)
				}
				if (h.state == partition.Ready) != (h.message == "") && h.seen {
					t.Errorf("after %ds it is %s with the message %q", s.at, h.state, h.message)
				}
			}
		})
	}
}

// TestOutageIsToldOnce checks that the message of an outage does not change during it.
func TestOutageIsToldOnce(t *testing.T) {
	var timing Timing
	timing.complete()
	start := time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	h := newHealth(&timing, start)
	h.synced(start)
	h.failed(callJobs, unreachable, start, "one")
	h.update(start.Add(31 * time.Second))
	h.failed(callJobs, unreachable, start.Add(40*time.Second), "two")
	h.failed(callCount, refused, start.Add(40*time.Second), "three")
	h.update(start.Add(time.Hour))
	if h.state != partition.Quarantined || h.told != "one" || !h.outage.Equal(start) {
		t.Errorf("%s since %v: %q", h.state, h.outage, h.told)
	}
}
