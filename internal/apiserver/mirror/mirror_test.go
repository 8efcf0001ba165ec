package mirror

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

func (s *sim) equal(c *fakeCoder) {
	s.t.Helper()
	if diff := cmp.Diff(c.want(), objects(s.workspaces, c.name.Namespace)); diff != "" {
		s.t.Errorf("the records of workspaces are not those of Coder (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(c.wantTemplates(), objects(s.templates, c.name.Namespace)); diff != "" {
		s.t.Errorf("the records of templates are not those of Coder (-want +got):\n%s", diff)
	}
}

// TestFirstSync checks that the first sync reads all objects in little more time than Coder's own
// pages take.
func TestFirstSync(t *testing.T) {
	kubetest.SkipWithRace(t)
	for _, n := range []int{0, 1, 999, 10_000} {
		s := newSim(t, 1)
		c := s.add("team", "prod")
		c.rowLatency = time.Millisecond
		c.fill(n)
		c.putTemplate("docker", "1")
		took := s.until(5*time.Minute, "Ready", s.ready(c))
		s.equal(c)
		t.Logf("%d workspaces: %v, %d requests %v", n, took, c.requests(), c.calls)
		if ideal := time.Duration(n) * time.Millisecond; n > 1000 && took > ideal*13/10 {
			t.Errorf("%d workspaces took %v, Coder's own pages %v", n, took, ideal)
		}
	}
}

// TestTooManyWorkspaces checks that a control plane with too many workspaces is not read into
// memory and reports the reason. Other control planes are served.
func TestTooManyWorkspaces(t *testing.T) {
	s := newSim(t, 1)
	s.mirror.config.MaxWorkspaces = 5
	many, few := s.add("team", "prod"), s.add("other", "prod")
	many.fill(6)
	few.fill(5)
	s.until(time.Minute, "Ready", s.ready(few))
	s.equal(few)
	const says = "Coder has 6 workspaces, but a control plane is served only up to 5"
	s.until(time.Minute, "the message", func() bool { return s.state(many).Message == says })
	if n := len(objects(s.workspaces, "team")); n != 0 || s.state(many).State != syncstatus.Syncing {
		t.Errorf("%d objects, %+v", n, s.state(many))
	}
	many.drop(many.ids()[0])
	s.until(2*time.Minute, "Ready", s.ready(many))
	s.equal(many)
	few.fill(1)
	s.until(2*time.Minute, "the message of the one that was served before", func() bool { return s.state(few).Message == says })
	if n := len(objects(s.workspaces, "other")); n != 5 {
		t.Errorf("%d objects, want the 5 that were served before", n)
	}
	few.drop(few.ids()[5])
	s.until(time.Minute, "Ready", s.ready(few))
	s.equal(few)
}

// TestLargeWorkspaces checks that workspaces are read in smaller pages and batches if a response is
// too large.
func TestLargeWorkspaces(t *testing.T) {
	kubetest.SkipWithRace(t)
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(3000)
	c.most = 30
	ids := c.ids()
	s.until(2*time.Minute, "Ready", s.ready(c))
	s.equal(c)
	pages := c.calls["page"]
	lost := ids[2600:]
	c.setAgents(agentDisconnected, lost...)
	s.until(80*time.Second, "disconnected agents", func() bool { return s.lostOf(c, lost...) == len(lost) })
	for _, id := range ids {
		c.touch(id, func(*coderd.Workspace) {})
	}
	s.run(5 * time.Minute)
	s.equal(c)
	if n := c.calls["page"] - pages; n > 0 {
		t.Errorf("%d pages were read again, as after an outage", n)
	}
}

// TestRequestsAtRest counts the requests while nothing changes.
func TestRequestsAtRest(t *testing.T) {
	kubetest.SkipWithRace(t)
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(10_000)
	for range 50 {
		c.putTemplate("t"+c.id().String()[24:], "1")
	}
	for i := range 1000 {
		c.putUser(fmt.Sprintf("user%d", i), "1")
	}
	s.until(time.Minute, "Ready", s.ready(c))
	s.run(20 * time.Minute)
	before, head := c.requests(), s.workspaces.Head()
	s.run(30 * time.Minute)
	perMinute := float64(c.requests()-before) / 30
	t.Logf("%.1f requests a minute: %v", perMinute, c.calls)
	// The kind of users reads the members of one organization in 54 s, and the names of the
	// organizations and the tokens in 5 minutes.
	if perMinute += 60./54 + 2./5; perMinute > 60 {
		t.Errorf("%.1f requests a minute at rest", perMinute)
	}
	if s.workspaces.Head() != head {
		t.Errorf("%d events although nothing changed", s.workspaces.Head()-head)
	}
}

// TestEarlierBuilds checks that builds from before the start do not count as recent ones: Coder is
// not asked more often because of them.
func TestEarlierBuilds(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(30)
	c.shortBuilds(c.ids()...)
	s.until(time.Minute, "Ready", s.ready(c))
	before := c.calls["jobs"] + c.calls["newest"]
	s.run(30 * time.Second)
	if asked := c.calls["jobs"] + c.calls["newest"] - before; asked > 18 {
		t.Errorf("Coder was asked %d times for its builds in 30 s; want one in 1.8 s", asked)
	}
}

// TestBuildReachesTheRecords measures the time until a build is in the records.
func TestBuildReachesTheRecords(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(300)
	s.until(time.Minute, "Ready", s.ready(c))
	var all []time.Duration
	for i := range 60 {
		s.run(time.Duration(s.random.IntN(9000)) * time.Millisecond)
		id := c.ids()[i]
		c.build(id, coderd.TransitionStop)
		began := s.clock.Now()
		s.until(10*time.Second, "the build in the records", func() bool {
			e, _ := s.epoch.workspaces.Store.Table.Find(c.name, uidOf(id))
			return versionIn(e.Object) == "3"
		})
		all = append(all, s.clock.Now().Sub(began))
		c.finish(id)
	}
	// Only the first build begins while Coder is at rest.
	first, slowest := all[0], slices.Max(all[1:])
	t.Logf("the first took %v, the slowest of the others %v", first, slowest)
	if first > 2*time.Second+100*time.Millisecond || slowest > 900*time.Millisecond {
		t.Errorf("the first took %v, the slowest of the others %v", first, slowest)
	}
	s.run(5 * time.Second)
	s.equal(c)
}

// TestBuildOfATemplate: the kind is notified when the build of a version begins and when it ends, and then the template is read.
func TestBuildOfATemplate(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	id := c.putTemplate("docker", "1")
	s.until(time.Minute, "Ready", s.ready(c))
	job := &fakeJob{Job: coderd.Job{ID: c.id(), Status: "running", Active: true, Template: id}, organization: c.organizations[0].ID}
	c.jobs = append(c.jobs, job)
	for _, n := range []int{1, 2} {
		before := c.calls["template"]
		s.until(3*time.Second, fmt.Sprintf("%d notifications", n), func() bool { return len(s.built) == n && c.calls["template"] > before })
		job.Active, job.Status = false, "succeeded"
	}
	s.run(time.Minute)
	if diff := cmp.Diff([]uuid.UUID{id, id}, s.built); diff != "" {
		t.Errorf("templates (-want +got):\n%s", diff)
	}
}

// TestABuildThatNeverEnds has a build for which there is no provisioner. Coder is polled as at rest.
func TestABuildThatNeverEnds(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(10)
	s.until(time.Minute, "Ready", s.ready(c))
	c.build(c.ids()[0], coderd.TransitionStop)
	s.run(10 * time.Minute)
	polls := func() int { return c.calls["jobs"] + c.calls["newest"] }
	before := polls()
	s.run(10 * time.Minute)
	if perMinute := float64(polls()-before) / 10; perMinute > 35 {
		t.Errorf("the builds are polled %.1f times a minute", perMinute)
	}
}

// shortBuilds starts and ends builds of workspaces before any poll.
func (c *fakeCoder) shortBuilds(ids ...uuid.UUID) {
	for _, id := range ids {
		c.build(id, coderd.TransitionStop)
		c.finish(id)
	}
}

// stoppedOf returns how many of the workspaces are stopped in the records.
func (s *sim) stoppedOf(c *fakeCoder, ids ...uuid.UUID) (n int) {
	for _, id := range ids {
		if e, _ := s.epoch.workspaces.Store.Table.Find(c.name, uidOf(id)); e.Object.(*aggregationv1alpha1.CoderWorkspace).Status.LatestBuildStatus == "stopped" {
			n++
		}
	}
	return n
}

// TestBuildBetweenTwoQuestions has a build that no poll of the active jobs finds. It is among the
// newest jobs. If these take Coder long, they are requested less often.
func TestBuildBetweenTwoQuestions(t *testing.T) {
	kubetest.SkipWithRace(t)
	for _, test := range []struct{ newest, limit time.Duration }{
		{0, 2100 * time.Millisecond},
		{300 * time.Millisecond, 9 * time.Second},
	} {
		s := newSim(t, 1)
		c := s.add("team", "prod")
		c.newestLatency = test.newest
		c.fill(1000)
		s.until(time.Minute, "Ready", s.ready(c))
		for i := range 10 {
			s.run(time.Duration(s.random.IntN(90_000)) * time.Millisecond)
			id := c.ids()[i]
			c.shortBuilds(id)
			s.until(test.limit, fmt.Sprintf("the build, newest jobs take %s", test.newest), func() bool { return s.stoppedOf(c, id) == 1 })
		}
		before := c.calls["newest"]
		s.run(10 * time.Minute)
		took := time.Duration(c.calls["newest"]-before) * (test.newest + c.latency)
		if part := took.Seconds() / 600; part > 0.06 {
			t.Errorf("the newest jobs, which take %s, are asked for %.0f %% of the time", test.newest, 100*part)
		}
	}
}

// TestJobsAreRefusedAtFirst has a token that may read the jobs only after a while.
func TestJobsAreRefusedAtFirst(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(3)
	c.fault = func(call string) error {
		if call == "jobs" || call == "newest" {
			return &coderd.Error{Op: "listing the jobs", StatusCode: 404, Message: "not found"}
		}
		return nil
	}
	s.until(time.Minute, "the message", func() bool { return strings.Contains(s.state(c).Message, "has no permission to read the builds") })
	// The first answer has an active job.
	id := c.ids()[0]
	c.build(id, coderd.TransitionStop)
	c.fault = nil
	s.until(2*time.Minute, "Ready", s.ready(c))
	s.run(10 * time.Second)
	c.finish(id)
	s.until(2100*time.Millisecond, "the end of the build", func() bool { return s.stoppedOf(c, id) == 1 })
}

// TestManyShortBuilds has more builds between two polls than a poll covers.
func TestManyShortBuilds(t *testing.T) {
	kubetest.SkipWithRace(t)
	for n, limit := range map[int]time.Duration{150: 5 * time.Second, 1500: 2 * time.Minute} {
		s := newSim(t, 1)
		c := s.add("team", "prod")
		c.fill(2000)
		s.until(time.Minute, "Ready", s.ready(c))
		s.run(time.Minute)
		ids := c.ids()[:n]
		c.shortBuilds(ids...)
		s.until(limit, fmt.Sprintf("%d builds", n), func() bool { return s.stoppedOf(c, ids...) == n })
		s.run(time.Minute)
		before := c.requests()
		s.run(10 * time.Minute)
		if perMinute := float64(c.requests()-before) / 10; perMinute > 60 {
			t.Errorf("%.1f requests a minute after %d builds: %v", perMinute, n, c.calls)
		}
	}
}

// TestOutageOfTenMinutes checks that an outage deletes nothing, and is written once into each
// object.
func TestOutageOfTenMinutes(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(300)
	c.putTemplate("docker", "1")
	s.until(time.Minute, "Ready", s.ready(c))
	head, floor := s.workspaces.Head(), s.workspaces.Len()
	c.fault = func(string) error { return &coderd.Error{Op: "asking", Message: "Coder cannot be reached"} }
	// Waiting for the limiter advances the clock, so a step may take longer.
	for began := s.clock.Now(); s.clock.Since(began) < 28*time.Second; s.run(time.Second) {
		if got := s.state(c).State; got != syncstatus.Ready {
			t.Errorf("after %s it is %s", s.clock.Since(began), got)
		}
	}
	s.until(10*time.Second, "Stale", func() bool { return s.state(c).State == syncstatus.Stale })
	s.run(5 * time.Minute)
	if got := s.state(c); got.State != syncstatus.Quarantined || !got.Seen {
		t.Errorf("after 5m38s it is %+v", got)
	}
	s.run(5 * time.Minute)
	events := s.workspaces.Since(head)
	if len(events) != 300 || s.workspaces.Len() != floor {
		t.Errorf("%d events, %d objects", len(events), s.workspaces.Len())
	}
	c.fault = nil
	s.until(time.Minute, "Ready again", s.ready(c))
	s.equal(c)
	events = s.workspaces.Since(head)
	if len(events) != 600 {
		t.Errorf("%d events in all", len(events))
	}
	for _, e := range events {
		if e.Object == nil {
			t.Errorf("%s was deleted", e.Key)
		}
	}
}

// synced returns how many workspaces have the condition Synced.
func (s *sim) synced() (n int) {
	for _, e := range s.workspaces.Live() {
		if e.Object.(*aggregationv1alpha1.CoderWorkspace).Status.Conditions[0].Status == metav1.ConditionTrue {
			n++
		}
	}
	return n
}

// TestUnstableCoder has a Coder that fails for 45 s, and then answers for 20 s. The objects show each outage, and the first three
// ends at once. After that, the end of an outage alone does not change them until Coder was available for a while.
func TestUnstableCoder(t *testing.T) {
	kubetest.SkipWithRace(t)
	s := newSim(t, 1)
	c := s.add("team", "prod")
	const n = 100
	c.fill(n)
	s.until(time.Minute, "Ready", s.ready(c))
	away := func(string) error { return &coderd.Error{Op: "asking", Message: "Coder cannot be reached"} }
	head, outages, shown := s.workspaces.Head(), 0, 0
	for began := s.clock.Now(); s.clock.Since(began) < time.Hour; outages++ {
		c.fault = away
		s.run(45 * time.Second)
		if got := s.synced(); got != 0 {
			t.Errorf("after 45 s without Coder, %d workspaces are Synced", got)
		}
		c.fault = nil
		s.run(20 * time.Second)
		if got := s.synced(); got == n {
			shown++
		} else if got != 0 && outages < 3 {
			t.Errorf("after outage %d, %d workspaces are Synced", outages, got)
		}
	}
	writes := len(s.workspaces.Since(head))
	t.Logf("%d outages, %d ends shown, %d writes", outages, shown, writes)
	if writes > 2*n*(3+60/15) || shown < 3 {
		t.Errorf("%d writes of %d workspaces in %d outages, of which %d ends were shown", writes, n, outages, shown)
	}
	c.fault = away
	s.run(45 * time.Second)
	c.fault = nil
	s.until(time.Minute, "Ready", s.ready(c))
	c.touch(c.ids()[0], func(*coderd.Workspace) {})
	s.run(15 * time.Second)
	if got := s.synced(); got != 1 {
		t.Errorf("%d workspaces are Synced, want the one that was changed", got)
	}
	s.until(16*time.Minute, "all are Synced", func() bool { return s.synced() == n })
	s.equal(c)
}
