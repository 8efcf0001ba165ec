package mirror

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// deletions returns the keys that were removed after a revision.
func deletions(log *Log, after uint64) []string {
	events := log.Since(after)
	var keys []string
	for _, e := range events {
		if e.Object == nil {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

// TestLostRights checks that all objects are kept if Coder shows nothing any more.
func TestLostRights(t *testing.T) {
	forbidden := &coderd.Error{Op: "asking", StatusCode: 403, Message: "you may not"}
	for name, lose := range map[string]func(*fakeCoder){
		"nothing is shown": func(c *fakeCoder) { c.blind, c.roles = true, nil },
		"nothing is shown, and the user seems to be an owner": func(c *fakeCoder) { c.blind = true },
		"a part is hidden": func(c *fakeCoder) { c.hidePart(); c.roles = nil },
		"a part is hidden by the scopes of the token": (*fakeCoder).hidePart,
		"forbidden": func(c *fakeCoder) { c.fault = func(string) error { return forbidden } },
		"one by one forbidden": func(c *fakeCoder) {
			c.blind = true
			c.fault = func(call string) error {
				if call == "one" {
					return forbidden
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, 1)
			c := s.add("team", "prod")
			c.fill(30)
			c.putTemplate("docker", "1")
			c.putTemplate("vm", "1")
			c.putUser("ada", "1")
			c.putUser("bob", "1")
			s.until(time.Minute, "Ready", s.ready(c))
			w, tt := s.workspaces.Head(), s.templates.Head()
			lose(c)
			s.until(3*time.Minute, "Quarantined", func() bool { return s.state(c).State == syncstatus.Quarantined })
			s.run(time.Hour)
			if got := s.state(c); got.State != syncstatus.Quarantined || got.Message == "" {
				t.Errorf("it is %+v", got)
			}
			if gone := append(deletions(s.workspaces, w), deletions(s.templates, tt)...); len(gone) > 0 {
				t.Errorf("deleted: %v", gone)
			}
			before := c.requests()
			s.run(10 * time.Minute)
			if n := c.requests() - before; n > 600 {
				t.Errorf("%d requests in ten minutes", n)
			}
			c.blind, c.fault, c.roles, c.unseen = false, nil, []string{"owner"}, nil
			s.until(2*time.Minute, "Ready", s.ready(c))
			s.equal(c)
		})
	}
}

// hidePart hides some objects of each kind from the operator's account, as if they were in another organization.
func (c *fakeCoder) hidePart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unseen = map[uuid.UUID]bool{}
	hide := func(id uuid.UUID) { c.unseen[id] = id[15]/2%2 == 0 }
	for id := range c.items {
		hide(id)
	}
	for id := range c.templates {
		hide(id)
	}
	for id := range c.users {
		hide(id)
	}
}

// TestDeletedWhileRightsAreLost checks that what is deleted in Coder while the account does not see everything is removed
// when it does again, and that no other object is.
func TestDeletedWhileRightsAreLost(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(30)
	s.until(time.Minute, "Ready", s.ready(c))
	head := s.workspaces.Head()
	c.hidePart()
	c.roles = nil
	var seen uuid.UUID
	for _, id := range c.ids() {
		if !c.unseen[id] {
			seen = id
		}
	}
	c.drop(seen)
	s.run(10 * time.Minute)
	if gone := deletions(s.workspaces, head); len(gone) > 1 {
		t.Errorf("deleted: %v", gone)
	}
	c.unseen, c.roles = nil, []string{"owner"}
	s.until(3*time.Minute, "Ready", s.ready(c))
	s.run(2 * time.Minute)
	s.equal(c)
}

// TestOneObjectThatFailsDelaysNoOther checks that deleted objects are removed, and that an outage ends, although Coder fails to
// return another object that is missing in its lists.
func TestOneObjectThatFailsDelaysNoOther(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(30)
	s.until(time.Minute, "Ready", s.ready(c))
	ids := c.ids()
	c.broken, c.hidden = ids[0], map[uuid.UUID]bool{ids[0]: true}
	c.drop(ids[1])
	delete(c.items, ids[2])
	s.run(3 * time.Minute)
	c.fault = func(string) error { return &coderd.Error{Op: "asking", Message: "no answer"} }
	s.until(time.Minute, "Stale", func() bool { return !s.ready(c)() })
	c.fault = nil
	s.until(2*time.Minute, "Ready again", s.ready(c))
	c.broken, c.hidden = uuid.Nil, nil
	s.run(6 * time.Minute)
	s.equal(c)
}

// TestRestoredBackup checks that what a backup of the database does not contain is removed, however much that is. Coder
// answers as if it never had these objects.
func TestRestoredBackup(t *testing.T) {
	for name, kept := range map[string]int{"nothing is left": 0, "some are left": 7} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, 1)
			c := s.add("team", "prod")
			c.fill(250)
			c.putTemplate("docker", "1")
			c.putUser("ada", "1")
			s.until(time.Minute, "Ready", s.ready(c))
			head := s.workspaces.Head()
			for _, id := range c.ids()[kept:] {
				delete(c.items, id)
			}
			clear(c.templates)
			for id := range c.users {
				c.unseen = map[uuid.UUID]bool{id: true}
				delete(c.users, id)
			}
			s.run(50 * time.Second)
			if gone := deletions(s.workspaces, head); len(gone) > 0 {
				t.Errorf("%d are removed without a second look", len(gone))
			}
			s.run(5 * time.Minute)
			s.equal(c)
			s.wantUsers(0, map[string]string{})
			if !s.ready(c)() {
				t.Errorf("it is %+v", s.state(c))
			}
		})
	}
}

// TestAllTemplatesVanish checks that this is believed only of an owner's token, after a
// confirmation.
func TestAllTemplatesVanish(t *testing.T) {
	for _, owner := range []bool{true, false} {
		s := newSim(t, 1)
		c := s.add("team", "prod")
		for i := range 4 {
			c.putTemplate(fmt.Sprint("t", i), "1")
		}
		s.until(time.Minute, "Ready", s.ready(c))
		head := s.templates.Head()
		clear(c.templates)
		if !owner {
			c.roles = nil
		}
		s.run(50 * time.Second)
		if gone := deletions(s.templates, head); len(gone) > 0 {
			t.Errorf("owner %v: deleted at once: %v", owner, gone)
		}
		s.run(3 * time.Minute)
		if gone := deletions(s.templates, head); (len(gone) == 4) != owner {
			t.Errorf("owner %v: deleted %v", owner, gone)
		}
	}
}

// TestManyDeletions checks that many deletions need a confirmation, and announced ones do not.
func TestManyDeletions(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(100)
	s.until(time.Minute, "Ready", s.ready(c))
	head := s.workspaces.Head()
	ids := c.ids()
	for _, id := range ids[:60] {
		c.build(id, coderd.TransitionDelete)
	}
	s.run(4 * time.Second)
	for _, id := range ids[:60] {
		c.finish(id)
	}
	s.run(15 * time.Second)
	if n := len(deletions(s.workspaces, head)); n != 60 {
		t.Errorf("%d of 60 announced deletions", n)
	}
	head = s.workspaces.Head()
	for _, id := range ids[60:80] {
		c.drop(id)
	}
	until := s.until(10*time.Minute, "the first suspicion", func() bool { return s.epoch.planes[c.name].workspaces.breaker.held() == 20 })
	s.run(50 * time.Second)
	if n := len(deletions(s.workspaces, head)); n != 0 {
		t.Errorf("%d deletions without a second look, %v after", n, until)
	}
	s.run(time.Minute)
	if n := len(deletions(s.workspaces, head)); n != 20 {
		t.Errorf("%d of 20 deletions after the second look", n)
	}
	s.equal(c)
}

// TestRelease checks that objects that are no longer served are removed without requests to Coder.
func TestRelease(t *testing.T) {
	for name, leave := range map[string]func(*sim, *fakeCoder){
		"gone": func(s *sim, c *fakeCoder) { s.members.remove(c.name) },
		"being deleted": func(s *sim, c *fakeCoder) {
			s.members.put(c.name, "uid-prod", false, func(m *connections.Member) { m.Deleting = true })
		},
		"namespace is deleted": func(s *sim, c *fakeCoder) { s.released["team"] = true },
		"another of the name": func(s *sim, c *fakeCoder) {
			s.coders[c.name] = newFakeCoder(s, c.name)
			s.members.put(c.name, "uid-other", true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, 1)
			c, other := s.add("team", "prod"), s.add("other", "next")
			c.fill(250)
			other.fill(10)
			c.putTemplate("docker", "1")
			s.until(time.Minute, "Ready", func() bool { return s.ready(c)() && s.ready(other)() })
			// A creation was interrupted, so there is a record without an object.
			if _, err := s.records.Put(s.ctx, &metadata.Record{ControlPlane: c.name, Kind: "CoderWorkspace", Name: "coder.ada.next", Labels: map[string]string{"a": "b"}}); err != nil {
				t.Fatal(err)
			}
			before := c.requests()
			leave(s, c)
			s.run(5 * time.Second)
			if left := s.records.List(c.name); len(left) > 0 {
				t.Errorf("records are left: %+v", left)
			}
			if len(objects(s.workspaces, "team"))+len(objects(s.templates, "team")) > 0 {
				t.Error("objects are left")
			}
			s.equal(other)
			if n := c.requests() - before; n > 0 {
				t.Errorf("%d requests", n)
			}
			if _, known := s.board.All(); !known || name != "another of the name" && s.state(c).State != "" {
				t.Errorf("the board has %+v", s.state(c))
			}
		})
	}
}

// TestADeniedRelease checks that an object whose removal an admission webhook denies does not affect the removal of others.
func TestADeniedRelease(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(250)
	s.until(time.Minute, "Ready", s.ready(c))
	table := s.records.Workspaces.Table
	first := table.Of(c.name)[0].Object.GetName()
	cluster := s.records.Cluster("CoderWorkspace")
	cluster.Refuse(first, apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New(`admission webhook "w" denied the request: no`)))
	s.members.remove(c.name)
	s.run(5 * time.Second)
	if left := table.Count(c.name); left != 1 {
		t.Errorf("%d records are left", left)
	}
	cluster.Refuse(first, nil)
	s.run(time.Minute)
	if left := table.Count(c.name); left != 0 {
		t.Errorf("%d records are left after the webhook was removed", left)
	}
}

// TestCreatedAgain checks that a control plane keeps its objects if an earlier one of its name had
// none.
func TestCreatedAgain(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(10)
	c.putTemplate("docker", "1")
	s.members.put(c.name, "uid-first", false)
	s.run(5 * time.Second)
	s.members.remove(c.name)
	s.run(5 * time.Second)
	s.members.put(c.name, "uid-second", true)
	s.until(time.Minute, "Ready", s.ready(c))
	w, tt := s.workspaces.Head(), s.templates.Head()
	s.run(time.Minute)
	if gone := append(deletions(s.workspaces, w), deletions(s.templates, tt)...); len(gone) > 0 {
		t.Errorf("deleted: %v", gone)
	}
	s.equal(c)
}

// TestCreatedAgainWhileNobodyMirrors checks that the next leader removes the objects of a control plane
// that was replaced by another one of the same name, with an empty database.
func TestCreatedAgainWhileNobodyMirrors(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(3)
	c.putTemplate("docker", "1")
	s.until(time.Minute, "Ready", s.ready(c))
	next := newFakeCoder(s, c.name)
	s.coders[c.name] = next
	s.members.put(c.name, "uid-other", true)
	s.lead()
	s.epoch.tick(s.ctx)
	if n := len(objects(s.workspaces, "team")) + len(objects(s.templates, "team")); n > 0 {
		t.Errorf("%d objects are left", n)
	}
	if got := s.state(next); got.State != syncstatus.Syncing || got.Seen || got.UID != "uid-other" {
		t.Errorf("it is %+v", got)
	}
	s.until(time.Minute, "Ready", s.ready(next))
	next.create("bob", "dev")
	s.run(10 * time.Second)
	s.equal(next)
}

// TestCreatedAgainDuringTheRemoval checks that a control plane that is created again does not start while records of the
// earlier one are left, because a killed replica was writing them.
func TestCreatedAgainDuringTheRemoval(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(3)
	s.until(time.Minute, "Ready", s.ready(c))
	ids := c.ids()
	for _, id := range ids[:2] {
		s.claim(s.recordOf(id))
	}
	s.members.remove(c.name)
	s.board.Replace(nil)
	s.lead()
	s.epoch.tick(s.ctx)
	next := newFakeCoder(s, c.name)
	s.coders[c.name] = next
	s.members.put(c.name, "uid-other", true)
	s.epoch.tick(s.ctx)
	if n := len(objects(s.workspaces, "team")); n != 2 || s.epoch.plane(c.name) != nil {
		t.Errorf("with %d objects of the earlier one, it is %+v", n, s.state(next))
	}
	s.run(50 * time.Second)
	if s.epoch.plane(c.name) != nil {
		t.Errorf("before the claims have expired, it is %+v", s.state(next))
	}
	s.until(20*time.Second, "Ready", s.ready(next))
	s.equal(next)
}

// TestDatabaseReplaced checks the message after Coder's database was replaced by an empty one, and
// that its advice works.
func TestDatabaseReplaced(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(30)
	c.putTemplate("docker", "1")
	c.putUser("ada", "1")
	s.until(time.Minute, "Ready", s.ready(c))
	next := newFakeCoder(s, c.name)
	next.next = c.next
	s.coders[c.name] = next
	s.until(3*time.Minute, "Quarantined", func() bool { return s.state(next).State == syncstatus.Quarantined })
	if got := s.state(next).Message; !strings.Contains(got, "if it was replaced on purpose, set spec.operatorAccess.disabled to true") {
		t.Errorf("the message is %q", got)
	}
	// This is what connections.Dynamic returns for spec.operatorAccess.disabled.
	s.members.remove(c.name)
	s.run(5 * time.Second)
	s.members.put(c.name, "uid-prod", true)
	s.until(time.Minute, "Ready", s.ready(next))
	next.create("bob", "dev")
	s.run(10 * time.Second)
	s.equal(next)
	s.wantUsers(0, map[string]string{})
}

// TestTakeover checks that a new leader continues with the records without a full read.
func TestTakeover(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(2000)
	c.putTemplate("docker", "1")
	s.until(time.Minute, "Ready", s.ready(c))
	s.run(time.Minute)
	busy := c.ids()[7]
	c.build(busy, coderd.TransitionStop)
	s.run(5 * time.Second)
	c.finish(busy)
	missed := c.ids()[9]
	c.touch(missed, func(*coderd.Workspace) {})
	head, calls := s.workspaces.Head(), map[string]int{}
	c.calls = calls
	s.lead()
	if got := s.state(c).State; got != syncstatus.Ready {
		t.Errorf("at the takeover it is %s", got)
	}
	s.run(3 * time.Second)
	if calls["page"] > 0 || calls["ids"] > 4 {
		t.Errorf("at once it asked %v", calls)
	}
	if e, _ := s.epoch.workspaces.Store.Table.Find(c.name, uidOf(busy)); versionIn(e.Object) != "4" {
		t.Errorf("what was being built is %s", versionIn(e.Object))
	}
	s.run(2 * time.Minute)
	s.equal(c)
	if calls["page"] > 0 || len(deletions(s.workspaces, head)) > 0 {
		t.Errorf("it asked %v", calls)
	}
}

// TestNeverConnected checks that a control plane that never connects is Quarantined after five minutes,
// and does not delay another one.
func TestNeverConnected(t *testing.T) {
	s := newSim(t, 1)
	good := s.add("team", "prod")
	dead := s.add("team", "dead")
	s.members.put(dead.name, "uid-dead", false, func(m *connections.Member) { m.Named = false })
	s.until(time.Minute, "Ready", s.ready(good))
	if got := s.state(dead); got.State != syncstatus.Syncing || got.Seen || got.Message == "" {
		t.Errorf("it is %+v", got)
	}
	s.run(5 * time.Minute)
	if got := s.state(dead); got.State != syncstatus.Quarantined || got.Seen {
		t.Errorf("after five minutes it is %+v", got)
	}
	s.members.put(dead.name, "uid-dead", true)
	s.until(10*time.Second, "Ready", s.ready(dead))
}

// TestNeverServed checks that NeverServed holds until everything was read. It also holds if another
// replica becomes the leader meanwhile and the status already reports that the token was accepted.
func TestNeverServed(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "next")
	s.members.put(c.name, "uid-next", false, func(m *connections.Member) { m.NeverServed = true })
	s.run(2 * time.Second)
	if !s.state(c).NeverServed {
		t.Errorf("it is %+v", s.state(c))
	}
	s.members.put(c.name, "uid-next", false)
	s.lead()
	s.run(2 * time.Second)
	if !s.state(c).NeverServed {
		t.Errorf("for another leader it is %+v", s.state(c))
	}
	s.members.put(c.name, "uid-next", true)
	s.until(10*time.Second, "Ready", s.ready(c))
	s.members.put(c.name, "uid-next", false, func(m *connections.Member) { m.NeverServed = true })
	s.run(time.Minute)
	if got := s.state(c); got.NeverServed || got.State == syncstatus.Ready {
		t.Errorf("once it was read it is %+v", got)
	}
}

// TestTokenChange checks that a new token loses no object and causes no event.
func TestTokenChange(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(20)
	s.until(time.Minute, "Ready", s.ready(c))
	head := s.workspaces.Head()
	c.fault = func(string) error { return &coderd.Error{Op: "asking", StatusCode: 401, Message: "who are you"} }
	s.run(2 * time.Second)
	c.fault = nil
	s.members.put(c.name, "uid-prod", true)
	s.run(10 * time.Second)
	if s.workspaces.Head() != head || s.state(c).State != syncstatus.Ready {
		t.Errorf("%d events, %+v", s.workspaces.Head()-head, s.state(c))
	}
}

// TestOrganizationsShareTheBudget checks that organizations with recent builds are polled more
// often.
func TestOrganizationsShareTheBudget(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(10)
	for i := range 30 {
		c.organizations = append(c.organizations, coderd.Organization{ID: c.id(), Name: fmt.Sprint("o", i)})
	}
	s.until(time.Minute, "Ready", s.ready(c))
	s.run(10 * time.Minute)
	before := c.requests()
	s.run(10 * time.Minute)
	if n := c.requests() - before; n > 600 {
		t.Errorf("%d requests in ten minutes", n)
	}
	c.build(c.ids()[0], coderd.TransitionStop)
	s.run(time.Minute)
	c.finish(c.ids()[0])
	c.build(c.ids()[1], coderd.TransitionStop)
	began := s.clock.Now()
	s.until(10*time.Second, "a build in a lively organization", func() bool {
		e, _ := s.epoch.workspaces.Store.Table.Find(c.name, uidOf(c.ids()[1]))
		return versionIn(e.Object) == "3"
	})
	t.Logf("seen after %v", s.clock.Now().Sub(began))
}

// TestHint checks that a hint causes an immediate read.
func TestHint(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(10)
	template := c.putTemplate("docker", "1")
	s.until(time.Minute, "Ready", s.ready(c))
	s.run(time.Second)
	c.touch(c.ids()[0], func(*coderd.Workspace) {})
	changed := c.templates[template]
	changed.DisplayName = "2"
	c.templates[template] = changed
	s.mirror.config.Hints.Object("CoderWorkspace", c.name, c.ids()[0])
	s.mirror.config.Hints.Object("CoderTemplate", c.name, template)
	s.mirror.config.Hints.Object("CoderTemplate", types.NamespacedName{Name: "nobody"}, template)
	s.run(300 * time.Millisecond)
	s.equal(c)
}

// TestDisplacedNames renames objects in Coder in a cycle. No object may disappear.
func TestDisplacedNames(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(3)
	s.until(time.Minute, "Ready", s.ready(c))
	ids := c.ids()
	for i, id := range ids {
		w := c.items[id]
		w.OwnerName, w.Name = fmt.Sprintf("user%d", (i+1)%3), fmt.Sprintf("ws%d", (i+1)%3)
		w.LatestBuild.Number++
		s.mirror.config.Hints.Object("CoderWorkspace", c.name, id)
	}
	head := s.workspaces.Head()
	s.run(5 * time.Second)
	s.equal(c)
	if gone := deletions(s.workspaces, head); len(gone) != 0 {
		t.Errorf("deleted were %v", gone)
	}
}

// TestFiftyThousand measures a large first sync.
func TestFiftyThousand(t *testing.T) {
	kubetest.SkipWithRace(t)
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.rowLatency = time.Millisecond
	c.fill(50_000)
	began := time.Now()
	took := s.until(5*time.Minute, "Ready", s.ready(c))
	t.Logf("50,000 workspaces: %v on its clock, %v of real time, %v", took, time.Since(began), c.calls)
	if n := s.workspaces.Len(); n != 50_000 || took > 65*time.Second {
		t.Errorf("%d objects after %v", n, took)
	}
}
