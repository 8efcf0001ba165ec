package mirror

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// TestInventedJobs has a Coder that reports thousands of new builds of workspaces that do not exist in every answer, in
// many organizations. What is kept of them is bounded, and changes of existing workspaces are still served.
func TestInventedJobs(t *testing.T) {
	kubetest.SkipWithRace(t)
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(30)
	for i := range 300 {
		c.organizations = append(c.organizations, coderd.Organization{ID: c.id(), Name: fmt.Sprint("o", i)})
	}
	s.until(time.Minute, "Ready", s.ready(c))
	active := true
	c.inventedJobs = func() []coderd.Job {
		active = !active
		jobs := make([]coderd.Job, 2000)
		for i := range jobs {
			jobs[i] = coderd.Job{ID: c.id(), Status: "running", Active: active, Workspace: c.id(), Template: c.id()}
		}
		return jobs
	}
	p := s.epoch.planes[c.name]
	for range 20 {
		s.run(10 * time.Second)
		for _, q := range []*queue{p.workspaces.queue, p.templates.queue} {
			if n := len(q.due); n > 10_100 {
				t.Fatalf("%d objects are to be read", n)
			}
		}
		known := 0
		for _, o := range p.jobs.organizations {
			known += len(o.active) + len(o.newest)
		}
		if known > 150_000 {
			t.Fatalf("%d jobs are known", known)
		}
	}
	for range 2 * maxStrangers {
		p.workspaces.mark(c.id(), time.Hour)
	}
	last := c.id()
	p.workspaces.rebuild(last)
	if n := len(p.workspaces.queue.due); n > maxStrangers || p.workspaces.queue.unbuilt[last] > 0 {
		t.Fatalf("%d objects are to be read, and the last one is among them: %t", n, p.workspaces.queue.unbuilt[last] > 0)
	}
	c.touch(c.ids()[7], func(*coderd.Workspace) {})
	s.until(time.Minute, "the change of a workspace", func() bool {
		e, _ := p.workspaces.Store.Table.Find(c.name, uidOf(c.ids()[7]))
		return versionIn(e.Object) == "3"
	})
}

// TestInventedWorkspaces has a Coder that adds other workspaces to each answer. No more are served than the limit, and changes
// of those that are served before are still served.
func TestInventedWorkspaces(t *testing.T) {
	s := newSim(t, 1)
	s.mirror.config.MaxWorkspaces = 100
	c := s.add("team", "prod")
	c.fill(30)
	s.until(time.Minute, "Ready", s.ready(c))
	c.inventedWorkspaces = func() []coderd.Workspace {
		all := make([]coderd.Workspace, 50)
		for i := range all {
			all[i] = coderd.Workspace{ID: c.id(), OwnerName: "eve", Name: fmt.Sprint("ws", c.next), OrganizationName: "coder"}
		}
		return all
	}
	id := c.ids()[7]
	c.touch(id, func(*coderd.Workspace) {})
	s.run(2 * time.Minute)
	if n := s.workspaces.Len(); n > 100 {
		t.Errorf("%d workspaces are served, want at most 100", n)
	}
	if e, _ := s.epoch.workspaces.Store.Table.Find(c.name, uidOf(id)); versionIn(e.Object) != "3" {
		t.Errorf("the workspace is at version %s", versionIn(e.Object))
	}
	q := s.epoch.planes[c.name].workspaces.queue
	if n := len(q.due) + len(q.unbuilt) + len(q.keys) + len(q.busy); n > 200 {
		t.Errorf("the queue has %d entries: %d reads, %d that could not be built, %d keys and %d that change", n, len(q.due), len(q.unbuilt), len(q.keys), len(q.busy))
	}
}

// TestInvalidNames has a Coder with names that Coder itself does not accept. Such objects are not served, and have no effect on
// others: not on a control plane whose prefix is in a name, and not on the records that are written with them.
func TestInvalidNames(t *testing.T) {
	s := newSim(t, 1)
	hostile, other := s.add("team", "prod"), s.add("team", "cp2")
	s.members.put(other.name, "uid-cp2", true, func(m *connections.Member) { m.NamePrefix, m.Connection.NamePrefix = "cp2.", "cp2." })
	hostile.fill(5)
	for _, name := range []string{"", ".", "a.b", "a/b", "../x", "a b", "a_b", "-a", "a--b", "ä", "a\n", strings.Repeat("x", 10<<10)} {
		hostile.finish(hostile.create("eve", name))
		hostile.putTemplate(name, "1")
		hostile.putUser(name, "1")
	}
	hostile.putUser("cp2.ada", "1")
	s.until(time.Minute, "Ready", s.ready(hostile))
	other.putUser("ada", "1")
	s.until(2*time.Minute, "the user of the other control plane", func() bool {
		e, _ := s.epoch.users.Store.Table.Find(other.name, uidOf(other.userIDs()[0]))
		return e != nil && e.Object.GetName() == "cp2.ada"
	})
	if w, tt, u := s.workspaces.Len(), s.templates.Len(), s.users.Len(); w != 5 || tt != 0 || u != 1 {
		t.Errorf("%d workspaces, %d templates and %d users are served, want 5, 0 and 1", w, tt, u)
	}
	pages := hostile.calls["page"]
	s.run(10 * time.Minute)
	if n := hostile.calls["page"] - pages; n > 0 {
		t.Errorf("in 10 minutes %d full reads, because the number of workspaces differs from Coder's", n)
	}
}

func (c *fakeCoder) userIDs() []uuid.UUID { return slices.Collect(maps.Keys(c.users)) }
