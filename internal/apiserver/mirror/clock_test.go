package mirror

import (
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// TestClockJumpsForward checks that all that is due at once after the clock jumps by an hour is
// sent at the usual rate, and changes nothing.
func TestClockJumpsForward(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(300)
	c.putTemplate("docker", "1")
	s.until(time.Minute, "Ready", s.ready(c))
	s.run(10 * time.Minute)
	head, before := s.workspaces.Head(), c.requests()
	s.clock.Step(time.Hour)
	s.run(time.Minute)
	if n := c.requests() - before; n > 80 {
		t.Errorf("%d requests in the minute after the jump: %v", n, c.calls)
	}
	if got := s.state(c); got.State != syncstatus.Ready {
		t.Errorf("it is %+v", got)
	}
	if events := s.workspaces.Since(head); len(events) != 0 {
		t.Errorf("%d events", len(events))
	}
	s.equal(c)
}

// TestTakeoverWithAnotherClock checks that a replica whose clock is an hour ahead or behind
// continues an outage: nothing is deleted, and the outage ends with Coder's first answers.
func TestTakeoverWithAnotherClock(t *testing.T) {
	for name, difference := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, 1)
			c := s.add("team", "prod")
			c.fill(300)
			c.putTemplate("docker", "1")
			s.until(time.Minute, "Ready", s.ready(c))
			floor := s.workspaces.Len()
			c.fault = func(string) error { return &coderd.Error{Op: "asking", Message: "Coder cannot be reached"} }
			s.until(2*time.Minute, "Stale", func() bool { return s.state(c).State == syncstatus.Stale })
			s.epoch.end()
			s.clock.SetTime(s.clock.Now().Add(difference))
			s.lead()
			s.until(7*time.Minute, "Quarantined", func() bool { return s.state(c).State == syncstatus.Quarantined })
			if s.workspaces.Len() != floor {
				t.Errorf("%d objects of %d are left", s.workspaces.Len(), floor)
			}
			c.fault = nil
			s.until(time.Minute, "Ready again", s.ready(c))
			s.equal(c)
		})
	}
}

// TestScheduleIsMonotonic checks that the times to which the mirror compares the clock have a
// monotonic part. Without it, nothing would be read for an hour after the clock is set back by one.
func TestScheduleIsMonotonic(t *testing.T) {
	config := &Config{Clock: clock.RealClock{}, Jitter: func() float64 { return 0.5 }}
	p, limits := &plane{config: config}, newLimiter(config.Clock, config.Jitter, 6)
	limits.note(&coderd.Error{Op: "asking", Message: "Coder cannot be reached"})
	for what, at := range map[string]time.Time{
		"the next step":    p.after(time.Minute),
		"the limiter":      limits.filled,
		"the latest of":    maxTime(p.after(time.Minute), p.after(time.Hour)),
		"the census":       newDriftCheck(p).task.next,
		"the blocked time": limits.blocked,
	} {
		if !strings.Contains(at.String(), " m=") {
			t.Errorf("%s has no monotonic part: %s", what, at)
		}
	}
}
