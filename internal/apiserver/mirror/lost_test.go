package mirror

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// setAgents sets the status of the agents of workspaces, without a build.
func (c *fakeCoder) setAgents(status string, ids ...uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		c.items[id].Agents = []coderd.Agent{{Name: "main", Status: status}}
	}
}

// lostOf returns how many of the workspaces show a disconnected agent.
func (s *sim) lostOf(c *fakeCoder, ids ...uuid.UUID) (n int) {
	for _, id := range ids {
		if e, _ := s.epoch.workspaces.Store.Table.Find(c.name, uidOf(id)); hasLostAgent(e.Object) {
			n++
		}
	}
	return n
}

// TestAgentsAreLost checks that disconnected agents, and their return, are seen within ten seconds
// among ten thousand workspaces, even if many agents are disconnected for long.
func TestAgentsAreLost(t *testing.T) {
	kubetest.SkipWithRace(t)
	const limit = 10 * time.Second
	for _, long := range []int{0, 250} {
		s := newSim(t, 1)
		c := s.add("team", "prod")
		c.fill(10_000)
		ids := c.ids()
		c.setAgents("connected", ids...)
		old, some := ids[:long], ids[5000:5003]
		c.setAgents(agentDisconnected, old...)
		s.until(time.Minute, "Ready", s.ready(c))
		s.until(5*time.Minute, "those lost before", func() bool { return s.lostOf(c, old...) == long })
		for range 5 {
			// If there is more than one page, all pages are read at most once a minute.
			s.run(70*time.Second + time.Duration(s.random.IntN(20_000))*time.Millisecond)
			c.setAgents(agentDisconnected, some...)
			s.until(limit, "lost", func() bool { return s.lostOf(c, some...) == len(some) })
			s.run(70*time.Second + time.Duration(s.random.IntN(20_000))*time.Millisecond)
			c.setAgents("connected", some...)
			s.until(limit, "back", func() bool { return s.lostOf(c, some...) == 0 })
		}
		before := c.requests()
		s.run(10 * time.Minute)
		if perMinute := float64(c.requests()-before) / 10; perMinute > 60 {
			t.Errorf("%.1f requests a minute with %d disconnected agents: %v", perMinute, long, c.calls)
		}
	}
}

// TestAllAgentsAreLost simulates a network failure. Each workspace is read once.
func TestAllAgentsAreLost(t *testing.T) {
	kubetest.SkipWithRace(t)
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(10_000)
	ids := c.ids()
	c.setAgents("connected", ids...)
	s.until(time.Minute, "Ready", s.ready(c))
	s.run(time.Minute)
	before := c.requests()
	c.setAgents(agentDisconnected, ids...)
	took := s.until(30*time.Second, "all lost", func() bool { return s.lostOf(c, ids...) == len(ids) })
	if n := c.requests() - before; n > 40 {
		t.Errorf("%d requests in %s: %v", n, took, c.calls)
	}
	// Another replica continues with the objects.
	s.lead()
	s.until(time.Minute, "Ready", s.ready(c))
	before = c.calls["ids"]
	c.setAgents("connected", ids[7])
	s.until(10*time.Second, "one is back", func() bool { return s.lostOf(c, ids...) == len(ids)-1 })
	if n := c.calls["ids"] - before; n > 5 {
		t.Errorf("%d requests for workspaces by their ids", n)
	}
}
