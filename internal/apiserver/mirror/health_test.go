package mirror

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
)

// TestHealth checks the state after a sequence of calls at given times, in seconds.
func TestHealth(t *testing.T) {
	start := time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	type step struct {
		at   int
		do   func(h *health, now time.Time)
		want syncstatus.State
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
			{0, nothing, syncstatus.Syncing}, {299, nothing, syncstatus.Syncing}, {300, nothing, syncstatus.Quarantined},
			{400, synced, syncstatus.Ready},
		},
		"never read, refused": {
			{0, fail(callCount, refused), syncstatus.Syncing}, {4, nothing, syncstatus.Syncing}, {5, nothing, syncstatus.Quarantined},
			{600, nothing, syncstatus.Quarantined}, {601, synced, syncstatus.Ready},
		},
		"unreachable": {
			{0, synced, syncstatus.Ready}, {10, fail(callJobs, unreachable), syncstatus.Ready}, {39, fail(callJobs, unreachable), syncstatus.Ready},
			{40, nothing, syncstatus.Stale}, {309, nothing, syncstatus.Stale}, {310, nothing, syncstatus.Quarantined},
			{311, ok(callJobs), syncstatus.Quarantined}, {312, synced, syncstatus.Ready}, {1000, nothing, syncstatus.Ready},
		},
		"back in time": {
			{0, synced, syncstatus.Ready}, {10, fail(callJobs, unreachable), syncstatus.Ready}, {39, ok(callJobs), syncstatus.Ready},
			{40, fail(callJobs, unreachable), syncstatus.Ready}, {69, nothing, syncstatus.Ready}, {70, nothing, syncstatus.Stale},
		},
		"one call of many": {
			{0, synced, syncstatus.Ready}, {1, fail(callTemplates, unreachable), syncstatus.Ready},
			{20, ok(callJobs), syncstatus.Ready}, {31, ok(callJobs), syncstatus.Stale},
		},
		"answers while it was stale do not make it ready": {
			{0, synced, syncstatus.Ready}, {1, fail(callJobs, unreachable), syncstatus.Ready}, {31, nothing, syncstatus.Stale},
			{60, ok(callJobs), syncstatus.Stale}, {301, nothing, syncstatus.Quarantined},
		},
		"refused": {
			{0, synced, syncstatus.Ready}, {10, fail(callJobs, refused), syncstatus.Ready}, {14, nothing, syncstatus.Ready},
			{15, nothing, syncstatus.Quarantined},
		},
		"refused while stale": {
			{0, synced, syncstatus.Ready}, {1, fail(callConnect, unreachable), syncstatus.Ready}, {31, nothing, syncstatus.Stale},
			{32, fail(callCount, refused), syncstatus.Stale}, {37, nothing, syncstatus.Quarantined},
		},
		"asked for patience": {
			{0, synced, syncstatus.Ready}, {1, fail(callWorkspaces, limited), syncstatus.Ready}, {120, nothing, syncstatus.Ready},
			{121, nothing, syncstatus.Stale},
		},
		"a page that failed once": {
			{0, synced, syncstatus.Ready}, {1, fail(callPages, unreachable), syncstatus.Ready}, {1000, nothing, syncstatus.Ready},
		},
		"shows less than it has": {
			{0, synced, syncstatus.Ready}, {1, func(h *health, now time.Time) { h.quarantine(now, "blind") }, syncstatus.Quarantined},
			{1000, nothing, syncstatus.Quarantined}, {1001, synced, syncstatus.Ready},
		},
		"resumed ready": {
			{0, func(h *health, now time.Time) {
				h.resume(syncstatus.Status{State: syncstatus.Ready, Seen: true, Since: metav1.Time{Time: now.Add(-time.Hour)}}, now)
			}, syncstatus.Ready},
			{1, fail(callCount, unreachable), syncstatus.Ready}, {5, nothing, syncstatus.Ready}, {6, nothing, syncstatus.Stale},
		},
		"resumed ready, and connected": {
			{0, func(h *health, now time.Time) {
				h.resume(syncstatus.Status{State: syncstatus.Ready, Seen: true, Since: metav1.Time{Time: now.Add(-time.Hour)}}, now)
			}, syncstatus.Ready},
			{0, ok(callConnect), syncstatus.Ready}, {1, fail(callCount, unreachable), syncstatus.Ready}, {5, ok(callConnect), syncstatus.Ready},
			{6, ok(callConnect), syncstatus.Stale},
		},
		"resumed ready, and answered": {
			{0, func(h *health, now time.Time) {
				h.resume(syncstatus.Status{State: syncstatus.Ready, Seen: true, Since: metav1.Time{Time: now.Add(-time.Hour)}}, now)
			}, syncstatus.Ready},
			{1, ok(callJobs), syncstatus.Ready}, {2, fail(callCount, unreachable), syncstatus.Ready},
			{31, nothing, syncstatus.Ready}, {32, nothing, syncstatus.Stale},
		},
		"resumed stale": {
			{0, func(h *health, now time.Time) {
				h.resume(syncstatus.Status{State: syncstatus.Stale, Seen: true, Since: metav1.Time{Time: now.Add(-200 * time.Second)}, Message: "m"}, now)
			}, syncstatus.Stale},
			{99, nothing, syncstatus.Stale}, {100, nothing, syncstatus.Quarantined},
		},
		"resumed stale from a clock that is an hour ahead": {
			{0, func(h *health, now time.Time) {
				h.resume(syncstatus.Status{State: syncstatus.Stale, Seen: true, Since: metav1.Time{Time: now.Add(time.Hour)}, Message: "m"}, now)
			}, syncstatus.Stale},
			{299, nothing, syncstatus.Stale}, {300, nothing, syncstatus.Quarantined},
		},
		"resumed stale from a clock that is an hour behind": {
			{0, func(h *health, now time.Time) {
				h.resume(syncstatus.Status{State: syncstatus.Stale, Seen: true, Since: metav1.Time{Time: now.Add(-time.Hour)}, Message: "m"}, now)
			}, syncstatus.Quarantined},
			{1, synced, syncstatus.Ready},
		},
		"resumed while syncing, from a clock that is an hour ahead": {
			{0, func(h *health, now time.Time) {
				h.resume(syncstatus.Status{State: syncstatus.Syncing, Since: metav1.Time{Time: now.Add(time.Hour)}}, now)
			}, syncstatus.Syncing},
			{299, nothing, syncstatus.Syncing}, {300, nothing, syncstatus.Quarantined}, {301, synced, syncstatus.Ready},
		},
	} {
		t.Run(name, func(t *testing.T) {
			timing := DefaultTiming()
			h := newHealth(&timing, start)
			for _, s := range steps {
				s.do(h, at(s.at))
				h.update(at(s.at))
				if h.state != s.want {
					t.Fatalf("after %ds it is %s (%q), not %s", s.at, h.state, h.message, s.want)
				}
				if (h.state == syncstatus.Ready) != (h.message == "") && h.seen {
					t.Errorf("after %ds it is %s with the message %q", s.at, h.state, h.message)
				}
			}
		})
	}
}

// TestOutageIsToldOnce checks that the message of an outage does not change during it.
func TestOutageIsToldOnce(t *testing.T) {
	timing := DefaultTiming()
	start := time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	h := newHealth(&timing, start)
	h.synced(start)
	h.failed(callJobs, unreachable, start, "one")
	h.update(start.Add(31 * time.Second))
	h.failed(callJobs, unreachable, start.Add(40*time.Second), "two")
	h.failed(callCount, refused, start.Add(40*time.Second), "three")
	h.update(start.Add(time.Hour))
	if h.state != syncstatus.Quarantined || h.published != "one" || !h.outage.Equal(start) {
		t.Errorf("%s since %v: %q", h.state, h.outage, h.published)
	}
}

// TestReasonBeforeTheFirstRead checks that the status of a control plane that was never read names
// the current problem, also after it was quarantined or another replica became the leader.
func TestReasonBeforeTheFirstRead(t *testing.T) {
	timing := DefaultTiming()
	now := time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	h := newHealth(&timing, now)
	check := func(h *health, state syncstatus.State, message string) {
		t.Helper()
		now = now.Add(6 * time.Second)
		if h.update(now); h.state != state || h.message != message {
			t.Errorf("it is %s with the message %q, want %s and %q", h.state, h.message, state, message)
		}
	}
	const reading = "its objects are being read for the first time"
	check(h, syncstatus.Syncing, reading)
	h.failed(callCount, refused, now, "the token is refused")
	check(h, syncstatus.Quarantined, "the token is refused")
	next := newHealth(&timing, now)
	next.resume(syncstatus.Status{State: h.state, Since: metav1.Time{Time: h.since}, Message: h.message}, now)
	check(next, syncstatus.Quarantined, "the token is refused")
	for _, h := range []*health{h, next} {
		h.succeeded(callCount)
		check(h, syncstatus.Quarantined, reading)
		h.failed(callSync, unreachable, now, "the quota is used up")
		check(h, syncstatus.Quarantined, "the quota is used up")
		h.succeeded(callSync)
		h.quarantine(now, "Coder hides objects")
		check(h, syncstatus.Quarantined, "Coder hides objects")
	}
}

// TestReasonAfterAnOutage checks that the status names what prevents a full read while Coder
// answers, and that the objects keep the message of the outage.
func TestReasonAfterAnOutage(t *testing.T) {
	timing := DefaultTiming()
	now := time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	h := newHealth(&timing, now)
	check := func(message, published string) {
		t.Helper()
		if now = now.Add(31 * time.Second); !h.update(now) || h.message != message || h.published != published {
			t.Errorf("the message is %q, and that of the objects %q; want %q and %q", h.message, h.published, message, published)
		}
	}
	h.failed(callSync, unreachable, now, "the quota is used up")
	check("the quota is used up", "")
	h.synced(now)
	h.failed(callJobs, unreachable, now, "Coder is away")
	check("Coder is away", "Coder is away")
	h.succeeded(callJobs)
	h.failed(callSync, unreachable, now, "the quota is used up")
	check("the quota is used up", "Coder is away")
	h.failed(callJobs, unreachable, now, "Coder is away again")
	check("Coder is away", "Coder is away")
	h.synced(now)
	if h.message != "" || h.published != "" {
		t.Errorf("after the outage the messages are %q and %q", h.message, h.published)
	}
}
