package mirror

import (
	"cmp"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
)

// fault is what went wrong with a call.
type fault int

const (
	// unreachable: any other failure, for example no answer or a server error.
	unreachable fault = iota
	// limited: Coder answered 429 Too Many Requests.
	limited
	// refused: Coder does not accept the token, or the token lacks a permission.
	refused
)

// The calls that must succeed. Each is tracked by itself, because one may fail while the others
// work.
const (
	callConnect       = "connect"
	callOrganizations = "organizations"
	callJobs          = "jobs"
	callCount         = "count"
	callPages         = "pages"
	callWorkspaces    = "workspaces"
	callTemplates     = "templates"
	// callUsers is never evaluated, because workspaces and templates do not need the users.
	callUsers  = "users"
	callUser   = "user"
	callAgents = "agents"
	// callSync is a full read that did not end although Coder answered, for example because
	// kube-apiserver accepts no records.
	callSync = "sync"
)

// failure is a call that has failed since a time.
type failure struct {
	fault   fault
	since   time.Time
	message string
}

// health derives the state of a control plane from the results of its calls. It has no clock and is
// not safe for concurrent use.
type health struct {
	timing *Timing

	state   syncstatus.State
	seen    bool
	since   time.Time
	message string
	// began is when the control plane was first seen.
	began time.Time
	// outage is when the failure began that made the control plane not Ready. published is the message
	// that was published for it.
	outage    time.Time
	published string
	// recovered is the time of an outage's begin plus Timing.Recover for it and for each of the outages before. See recovers.
	recovered time.Time

	failing map[string]failure
	// inherited is true while the state is from another leader, because Coder has not answered yet.
	inherited bool
}

// newHealth returns the health of a control plane that was never read.
func newHealth(timing *Timing, now time.Time) *health {
	return &health{timing: timing, state: syncstatus.Syncing, since: now, began: now, failing: map[string]failure{}}
}

// resume continues with the state that another leader published. Its clock may be ahead of this one,
// or this one was set back. A time in the future counts as now: otherwise the state would last until
// that time.
func (h *health) resume(known syncstatus.Status, now time.Time) {
	since := known.Since.Time
	if since.After(now) {
		since = now
	}
	h.state, h.seen, h.since, h.message = known.State, known.Seen, since, known.Message
	h.inherited = true
	if h.state == syncstatus.Syncing {
		h.began = since
	}
	if h.seen && (h.state == syncstatus.Stale || h.state == syncstatus.Quarantined) {
		h.outage, h.published = since, known.Message
	}
}

// succeeded records a success. callConnect succeeds without an answer from Coder.
func (h *health) succeeded(call string) {
	delete(h.failing, call)
	if call != callConnect {
		h.inherited = false
	}
}

// failed records the failure of a call that was sent at began.
func (h *health) failed(call string, what fault, began time.Time, message string) {
	known, ok := h.failing[call]
	if !ok || known.fault != what {
		known = failure{fault: what, since: began}
	}
	known.message = message
	h.failing[call] = known
}

// synced notes that the records equal Coder.
func (h *health) synced(now time.Time) {
	clear(h.failing)
	h.seen = true
	h.outage, h.published = time.Time{}, ""
	h.turn(syncstatus.Ready, now, "")
}

// recoveries is how many outages may begin within Timing.Recover so that the objects show each end at once.
const recoveries = 3

// recovers returns the time from which the objects show that Coder is available again. Before, only objects that change for
// another reason show it: an unstable Coder would otherwise cause two writes of every object for each outage.
func (h *health) recovers() time.Time { return h.recovered.Add(-recoveries * h.timing.Recover) }

// quarantine records that Coder shows fewer objects than it has.
func (h *health) quarantine(now time.Time, message string) {
	h.blame(now, message)
	h.turn(syncstatus.Quarantined, now, h.published)
}

// update re-evaluates the state at now and reports whether the state or its message changed.
func (h *health) update(now time.Time) bool {
	before, message := h.state, h.message
	worst := h.worst(now)
	rejected := worst != nil && worst.fault == refused
	if !h.seen {
		h.message = h.explain(worst)
		if rejected || now.Sub(h.began) >= h.timing.QuarantineAfter {
			h.turn(syncstatus.Quarantined, now, h.message)
		}
		return h.state != before || h.message != message
	}
	if h.state == syncstatus.Ready && worst != nil {
		h.blame(worst.since, worst.message)
		h.turn(syncstatus.Stale, now, h.published)
	}
	if h.state == syncstatus.Stale && (rejected || now.Sub(h.outage) >= h.timing.QuarantineAfter) {
		h.turn(syncstatus.Quarantined, now, h.published)
	}
	if h.state != syncstatus.Ready {
		h.message = h.published
		// Coder answers again, but something else prevents the end of the outage.
		if f, ok := h.failing[callSync]; ok && worst == nil {
			h.message = f.message
		}
	}
	return h.state != before || h.message != message
}

// explain returns why a control plane that was never read is not Ready.
func (h *health) explain(worst *failure) string {
	if worst != nil {
		return worst.message
	}
	for _, call := range h.calls() {
		if f, ok := h.failing[call]; ok {
			return f.message
		}
	}
	if h.inherited && h.message != "" {
		return h.message
	}
	return cmp.Or(h.published, "its objects are being read for the first time")
}

// worst returns the most severe failure that has lasted longer than its patience, or nil.
func (h *health) worst(now time.Time) (worst *failure) {
	for _, call := range h.calls() {
		f, ok := h.failing[call]
		if !ok || now.Sub(f.since) < h.patience(f.fault) {
			continue
		}
		if worst == nil || f.fault > worst.fault {
			worst = &f
		}
	}
	return worst
}

// calls returns the calls that are evaluated. After the first full read these are only the repeated
// calls.
func (h *health) calls() []string {
	repeated := []string{callConnect, callJobs, callWorkspaces, callTemplates, callCount, callOrganizations}
	if h.seen {
		return repeated
	}
	return append(repeated, callPages, callUser, callSync)
}

// patience returns how long a fault may last. A Coder that limits requests still works, so limited
// may last longer.
func (h *health) patience(what fault) time.Duration {
	switch {
	case what == refused:
		return h.timing.RefusedAfter
	case what == limited:
		return 4 * h.timing.StaleAfter
	case h.inherited:
		// The previous leader may have ended because of the same fault.
		return h.timing.StaleAfter / 6
	default:
		return h.timing.StaleAfter
	}
}

// blame begins an outage. During an outage the first message stays, because it is written into
// every object.
func (h *health) blame(since time.Time, message string) {
	if !h.outage.IsZero() {
		return
	}
	h.outage, h.published = since, message
	// An outage that began before recovers counts with the one before it: the objects have shown nothing else in the meantime.
	if !h.recovers().After(since) {
		h.recovered = maxTime(h.recovered, since).Add(h.timing.Recover)
	}
}

func (h *health) turn(state syncstatus.State, now time.Time, message string) {
	h.message = message
	if h.state != state {
		h.state, h.since = state, now
	}
}
