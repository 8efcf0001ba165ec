package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// chaos changes a Coder and its surroundings at random, and checks the records.
type chaos struct {
	*sim
	coder *fakeCoder
	// read is the revision up to which the records were checked.
	read [2]uint64
	// newest is the version of each object that was last seen.
	newest map[types.UID]int
	// calm is true if no more faults are injected.
	calm  bool
	locks []func()
	names int
	// deletions counts the deletions that were seen.
	deletions int
}

func (c *chaos) name() string {
	c.names++
	return fmt.Sprintf("n%d", c.random.IntN(40))
}

func (c *chaos) pick() uuid.UUID {
	ids := c.coder.ids()
	if len(ids) == 0 {
		return uuid.Nil
	}
	return ids[c.random.IntN(len(ids))]
}

// happen makes one random change.
func (c *chaos) happen() {
	coder, id := c.coder, c.pick()
	switch c.random.IntN(20) {
	case 0, 1, 2:
		if name := c.name(); !coder.taken("ada", name) {
			coder.create("ada", name)
		}
	case 3, 4:
		coder.build(id, coderd.TransitionStop)
	case 5:
		coder.build(id, coderd.TransitionStart)
	case 6:
		coder.build(id, coderd.TransitionDelete)
	case 7, 8, 9, 10:
		coder.finish(id)
	case 11:
		coder.rename(id, c.name())
	case 12:
		coder.drop(id)
	case 13:
		coder.touch(id, func(*coderd.Workspace) {})
	case 14:
		coder.changeTemplates(c.random.IntN(3), c.name())
	default:
		c.write(id)
	}
}

// write writes as a client does: under the lock of the key, first to Coder, then to the records.
func (c *chaos) write(id uuid.UUID) {
	table := c.records.Workspaces.Table
	entry, _ := table.Find(c.coder.name, uidOf(id))
	if entry == nil {
		return
	}
	unlock, ok := c.records.Workspaces.TryLock(entry.Key)
	if !ok {
		return
	}
	c.coder.touch(id, func(*coderd.Workspace) {})
	c.coder.mu.Lock()
	w := c.coder.items[id]
	c.coder.mu.Unlock()
	if w == nil {
		unlock()
		return
	}
	finish := func() {
		defer unlock()
		c.coder.mu.Lock()
		w, ok := c.coder.items[id]
		var seen coderd.Workspace
		if ok {
			seen = w.Workspace
		}
		c.coder.mu.Unlock()
		if !ok {
			return
		}
		object, err := (&workspaceKind{}).Object(c.ctx, connections.Connection{ControlPlane: c.coder.name}, seen, nil, entry.Object)
		if err != nil {
			c.t.Error(err)
		}
		current, _ := table.Find(c.coder.name, uidOf(id))
		if current == nil || current.Key != entry.Key {
			return
		}
		if err := c.records.Workspaces.Propose(c.ctx, records.Proposal{Key: entry.Key, Expect: current.Revision, Object: object, Natural: object.GetName()}); err != nil {
			c.t.Errorf("a client's write: %v", err)
		}
	}
	if c.random.IntN(2) == 0 {
		finish()
		return
	}
	c.locks = append(c.locks, finish)
}

// unlock lets some of the clients continue.
func (c *chaos) unlock(all bool) {
	for len(c.locks) > 0 && (all || c.random.IntN(3) == 0) {
		c.locks[0]()
		c.locks = c.locks[1:]
	}
}

func (f *fakeCoder) taken(owner, name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.items {
		if w.OwnerName == owner && w.Name == name {
			return true
		}
	}
	return false
}

func (f *fakeCoder) changeTemplates(what int, name string) {
	f.mu.Lock()
	var any uuid.UUID
	taken := false
	for id, t := range f.templates {
		any = id
		taken = taken || t.Name == name
	}
	t := f.templates[any]
	switch {
	case any == uuid.Nil || what == 0:
		f.mu.Unlock()
		if !taken {
			f.putTemplate(name, "1")
		}
		return
	case what == 1:
		delete(f.templates, any)
	default:
		version, _ := strconv.Atoi(t.DisplayName)
		t.DisplayName = strconv.Itoa(version + 1)
		if !taken {
			t.Name = name
		}
		f.templates[any] = t
	}
	f.mu.Unlock()
}

// trouble starts or ends a fault.
func (c *chaos) trouble() {
	coder := c.coder
	coder.mu.Lock()
	coder.fault, coder.blind, coder.roles, coder.hidden = nil, false, []string{"owner"}, map[uuid.UUID]bool{}
	down := &coderd.Error{Op: "asking", Message: "Coder cannot be reached"}
	kind := c.random.IntN(11)
	for id := range coder.items {
		// Coder's lists omit workspaces without a template.
		coder.hidden[id] = kind >= 9 && c.random.IntN(4) == 0
	}
	switch kind {
	case 0:
		coder.fault = func(string) error { return down }
	case 1:
		coder.fault = func(string) error {
			return &coderd.Error{Op: "asking", StatusCode: 429, Message: "slow down", RetryAfter: 3 * time.Second}
		}
	case 2:
		coder.fault = func(string) error { return &coderd.Error{Op: "asking", StatusCode: 403, Message: "you may not"} }
	case 3:
		coder.blind, coder.roles = true, nil
	case 4, 10:
		coder.fault = func(string) error {
			if c.random.IntN(2) == 0 {
				return down
			}
			return nil
		}
	}
	coder.mu.Unlock()
	switch kind {
	case 5:
		c.members.put(coder.name, "uid-prod", false)
	case 6:
		c.members.put(coder.name, "uid-prod", true)
	case 7:
		c.members.err = errors.New("the cache has a bad moment")
	case 8:
		c.lead()
	default:
		c.members.err = nil
		c.members.put(coder.name, "uid-prod", true)
	}
}

// watch checks each event.
func (c *chaos) watch() {
	for i, log := range []*Log{c.workspaces, c.templates} {
		for _, e := range log.Since(c.read[i]) {
			c.read[i] = e.Revision
			if e.Object == nil {
				c.deletions++
				c.prove(e)
				continue
			}
			version, _ := strconv.Atoi(versionIn(e.Object))
			if uid := e.Object.GetUID(); version < c.newest[uid] {
				c.t.Errorf("%s goes back from version %d to %d", e.Key, c.newest[uid], version)
			} else {
				c.newest[uid] = version
			}
		}
	}
}

// prove checks that a deleted object is not in Coder.
func (c *chaos) prove(e LogEvent) {
	uid := e.Previous.Object.GetUID()
	c.coder.mu.Lock()
	defer c.coder.mu.Unlock()
	for _, w := range c.coder.items {
		if uidOf(w.ID) == uid {
			c.t.Errorf("%s was deleted, but is there", e.Key)
		}
	}
	for _, t := range c.coder.templates {
		if uidOf(t.ID) == uid {
			c.t.Errorf("%s was deleted, but is there", e.Key)
		}
	}
}

// TestConverges makes random changes, and then waits until the records equal Coder.
func TestConverges(t *testing.T) {
	kubetest.SkipWithRace(t)
	for seed := range uint64(40) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			s := newSim(t, seed)
			c := &chaos{sim: s, coder: s.add("team", "prod"), newest: map[types.UID]int{}}
			s.before = c.watch
			for range 30 {
				c.happen()
			}
			c.coder.during = func(string) {
				if c.calm {
					return
				}
				// Writes of clients are now younger than the pending answer.
				for range c.random.IntN(6) {
					c.write(c.pick())
				}
				if c.random.IntN(4) == 0 {
					c.happen()
				}
			}
			for range 120 {
				if c.random.IntN(4) == 0 {
					c.trouble()
				}
				for range c.random.IntN(5) {
					c.happen()
				}
				c.unlock(false)
				s.run(time.Duration(c.random.IntN(20_000)) * time.Millisecond)
			}
			c.settle()
			c.watch()
			s.equal(c.coder)
			if got := s.state(c.coder).State; got != syncstatus.Ready {
				t.Errorf("it is %+v", s.state(c.coder))
			}
			t.Logf("%d events, %d deletions, %v", s.workspaces.Head(), c.deletions, c.coder.calls)
		})
	}
}

// settle ends all random changes.
func (c *chaos) settle() {
	c.calm = true
	c.unlock(true)
	c.coder.mu.Lock()
	c.coder.fault, c.coder.blind, c.coder.roles, c.coder.hidden = nil, false, []string{"owner"}, nil
	c.coder.mu.Unlock()
	c.members.err = nil
	c.members.put(c.coder.name, "uid-prod", true)
	for _, id := range c.coder.ids() {
		c.coder.finish(id)
	}
	c.run(15 * time.Minute)
}

// TestADamagedRecordIsWrittenAgain damages a record while nothing changes in Coder.
func TestADamagedRecordIsWrittenAgain(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	id := c.create("ada", "dev")
	c.finish(id)
	s.until(time.Minute, "Ready", s.ready(c))
	key, _ := s.records.Workspaces.Table.KeyOf(c.name, uidOf(id))
	namespace, name := s.records.Workspaces.Locate(key)
	cluster := s.records.Cluster("CoderWorkspace")
	record, err := cluster.Get(s.ctx, namespace, name, "")
	if err != nil {
		t.Fatal(err)
	}
	record.Object = "{"
	if err := errors.Join(cluster.Update(s.ctx, record), s.records.Workspaces.Learn(s.ctx, key)); err != nil {
		t.Fatal(err)
	}
	s.run(5 * time.Second)
	if record, err = cluster.Get(s.ctx, namespace, name, ""); err != nil || record.Object == "{" {
		t.Errorf("the record is %+v, %v", record, err)
	}
}

// TestNoMoreRecords checks that the status names the reason while kube-apiserver accepts no records,
// and that the control plane becomes Ready when it does.
func TestNoMoreRecords(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(5)
	s.records.Cluster("CoderWorkspace").Full(apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("exceeded quota: records")))
	s.run(2 * time.Minute)
	if got := s.state(c); got.State != syncstatus.Syncing || !strings.Contains(got.Message, "exceeded quota: records") {
		t.Errorf("it is %s: %q", got.State, got.Message)
	}
	s.records.Cluster("CoderWorkspace").Full(nil)
	s.until(2*time.Minute, "Ready", s.ready(c))
	s.equal(c)
}

// TestRecordsSurvive checks that records follow their objects.
func TestRecordsSurvive(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	pending, err := s.records.Put(s.ctx, &metadata.Record{ControlPlane: c.name, Kind: "CoderWorkspace", Name: "coder.ada.dev", Labels: map[string]string{"a": "b"}})
	if err != nil || !pending.Pending() {
		t.Fatal(err)
	}
	s.clock.Step(time.Second)
	id := c.create("ada", "dev")
	c.finish(id)
	for range 3 {
		c.finish(c.create("ada", "x"+fmt.Sprint(c.next)))
	}
	s.until(time.Minute, "Ready", s.ready(c))
	label := func() string {
		e, _ := s.epoch.workspaces.Store.Table.Find(c.name, uidOf(id))
		if e == nil {
			return ""
		}
		return e.Object.GetLabels()["a"]
	}
	if label() != "b" {
		t.Error("the record of an interrupted creation was not adopted")
	}
	s.records.Edit(c.name, uidOf(id), func(r *metadata.Record) { r.Labels["a"] = "c" })
	s.run(2 * time.Second)
	if label() != "c" {
		t.Errorf("an edit of the record is not seen: %q", label())
	}
	c.build(id, coderd.TransitionStop)
	s.run(5 * time.Second)
	if r, ok := s.records.Get(c.name, uidOf(id)); !ok || r.Generation != 2 {
		t.Errorf("the generation is not kept: %+v", r)
	}
	c.finish(id)
	c.rename(id, "prod")
	s.run(2 * time.Minute)
	if label() != "c" {
		t.Error("the record does not follow a rename")
	}
	c.build(id, coderd.TransitionDelete)
	s.run(5 * time.Second)
	c.finish(id)
	s.run(5 * time.Second)
	if _, ok := s.records.Get(c.name, uidOf(id)); ok {
		t.Error("the record stays behind")
	}
	s.equal(c)
}

// mirrorThatSettles returns a mirror of five workspaces. The workspace with the given id has
// pending work. settle returns the result of the kind for each number of calls.
func mirrorThatSettles(t *testing.T, settle func(r *metadata.Record, times int) (bool, error)) (s *sim, kind *workspaceKind, id uuid.UUID) {
	t.Helper()
	s = newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(5)
	id = c.ids()[0]
	kind = s.mirror.config.Workspaces.Kind.(*workspaceKind)
	kind.settle = func(_ context.Context, _ coderd.Workspace, r *metadata.Record) (bool, error) {
		// All five are read and settled, because they were built recently.
		if r == nil {
			return false, nil
		}
		return settle(r, kind.settled[id])
	}
	if _, err := s.records.Put(s.ctx, &metadata.Record{ControlPlane: c.name, Kind: "CoderWorkspace", Name: "x", UID: uidOf(id), Intent: []byte(`{"stop":true}`)}); err != nil {
		t.Fatal(err)
	}
	s.until(time.Minute, "Ready", s.ready(c))
	return s, kind, id
}

// TestNothingIsCommittedWithoutTheLease covers a mirror that was paused, and does not know yet what its successor has done.
func TestNothingIsCommittedWithoutTheLease(t *testing.T) {
	s := newSim(t, 1)
	c, gone := s.add("team", "prod"), s.add("other", "gone")
	c.fill(5)
	gone.fill(5)
	s.until(time.Minute, "Ready", func() bool { return s.ready(c)() && s.ready(gone)() })
	s.deposed = true
	head, objects := s.workspaces.Head(), s.workspaces.Len()
	c.build(c.ids()[0], coderd.TransitionStop)
	s.members.remove(gone.name)
	s.run(20 * time.Second)
	if s.workspaces.Head() != head {
		t.Errorf("it wrote %v", s.workspaces.Since(head))
	}
	s.deposed = false
	s.run(20 * time.Second)
	if n := s.workspaces.Len(); n != objects-5 {
		t.Errorf("there are %d workspaces, want %d", n, objects-5)
	}
	s.equal(c)
}

// TestSettle checks that a kind is called as long as it returns again.
func TestSettle(t *testing.T) {
	s, kind, id := mirrorThatSettles(t, func(r *metadata.Record, times int) (bool, error) {
		if len(r.Intent) > 0 && times == 1 {
			return false, errors.New("a bad moment")
		}
		return times < 4, nil
	})
	// The next round comes after 10 s. It settles the workspace with pending work.
	s.run(9 * time.Second)
	if n := kind.settled[id]; n != 4 {
		t.Errorf("settled %d times, want 4", n)
	}
}

// TestSettleThatFails checks the exponential backoff, although the rounds read the workspace every
// 10 s.
func TestSettleThatFails(t *testing.T) {
	s, kind, id := mirrorThatSettles(t, func(*metadata.Record, int) (bool, error) { return false, errors.New("a bad moment") })
	s.run(10 * time.Minute)
	// The retries come after 2, 4, 8 s and so on, up to 256 s.
	if n := kind.settled[id]; n < 8 || n > 10 {
		t.Errorf("tried %d times in ten minutes", n)
	}
}

// TestFailedBuilds checks that an object that could not be built does not have to wait for the next attempt
// before it is settled, and that the attempts become rarer until it is built.
func TestFailedBuilds(t *testing.T) {
	timing := &Timing{Busy: 2 * time.Second}
	q, id, now := newQueue(timing), uuid.New(), time.Time{}.Add(time.Hour)
	wait := func() time.Duration {
		q.again(q.unbuilt, id, now)
		at := q.next(now.Add(24 * time.Hour))
		q.take(at, 1)
		return at.Sub(now)
	}
	waits := []time.Duration{wait(), wait(), wait()}
	if q.failing(id) {
		t.Error("it counts as an object that could not be settled")
	}
	q.built(id)
	if waits = append(waits, wait()); !slices.Equal(waits, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 2 * time.Second}) {
		t.Errorf("the next attempts are after %v", waits)
	}
}

// claim writes the claim of a killed replica into the record of a workspace.
func (s *sim) claim(record records.Record) {
	s.t.Helper()
	cluster := s.records.Cluster("CoderWorkspace")
	record.Claim = "killed/1"
	err := cluster.Update(s.ctx, &record)
	if err == nil {
		err = s.records.Workspaces.Learn(s.ctx, s.records.Workspaces.Key(record.Namespace, record.Name))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// recordOf returns the record of a workspace.
func (s *sim) recordOf(id uuid.UUID) records.Record {
	s.t.Helper()
	all := s.records.Cluster("CoderWorkspace").All()
	i := slices.IndexFunc(all, func(r records.Record) bool { return r.ID == string(uidOf(id)) || r.ID == "" && id == uuid.Nil })
	if i < 0 {
		s.t.Fatalf("workspace %s has no record", id)
	}
	return all[i]
}

// TestAClaimedObjectIsNotBuilt checks that the objects that a killed replica was writing are built again only when
// its claim has expired. Building a template downloads its files, which Coder limits.
func TestAClaimedObjectIsNotBuilt(t *testing.T) {
	s, kind, id := mirrorThatSettles(t, func(*metadata.Record, int) (bool, error) { return false, nil })
	s.claim(s.recordOf(id))
	built := 0
	kind.build = func(w coderd.Workspace) error {
		if w.ID == id {
			built++
		}
		return nil
	}
	s.run(50 * time.Second)
	if built != 0 {
		t.Errorf("it was built %d times while another replica was writing it", built)
	}
	s.until(20*time.Second, "it is built", func() bool { return built > 0 })
	// Nothing has changed, and each replica that starts later would wait for the claim.
	head := s.workspaces.Head()
	s.run(time.Second)
	if claim := s.recordOf(id).Claim; claim != "" || s.workspaces.Head() != head {
		t.Errorf("the record has the claim %q, and there are %d events", claim, s.workspaces.Head()-head)
	}
}

// TestAClaimedCreation is TestAClaimedObjectIsNotBuilt for an object that a killed replica was creating. Its name is
// known only after it was built once.
func TestAClaimedCreation(t *testing.T) {
	s, kind, _ := mirrorThatSettles(t, func(*metadata.Record, int) (bool, error) { return false, nil })
	c := s.coders[types.NamespacedName{Namespace: "team", Name: "prod"}]
	if _, err := s.records.Put(s.ctx, &metadata.Record{ControlPlane: c.name, Kind: "CoderWorkspace", Name: "coder.ada.n1", Labels: map[string]string{"a": "b"}}); err != nil {
		t.Fatal(err)
	}
	s.claim(s.recordOf(uuid.Nil))
	id, built := c.create("ada", "n1"), 0
	c.finish(id)
	kind.build = func(w coderd.Workspace) error {
		if w.ID == id {
			built++
			// The kind of templates requests another read.
			s.mirror.config.Hints.Object("CoderWorkspace", c.name, id)
		}
		return nil
	}
	s.run(50 * time.Second)
	if built != 1 {
		t.Errorf("it was built %d times while another replica was creating it", built)
	}
	s.until(20*time.Second, "it is in the records", func() bool {
		entry, _ := s.records.Workspaces.Table.Find(c.name, uidOf(id))
		return entry != nil && entry.Object.GetLabels()["a"] == "b"
	})
}

// TestAClaimedDeletion checks that an object that a killed replica was deleting is requested only now and then until
// its claim has expired, and that these attempts are not counted as deletions.
func TestAClaimedDeletion(t *testing.T) {
	for name, remove := range map[string]func(*sim, *fakeCoder, uuid.UUID){
		"by a build": func(s *sim, c *fakeCoder, id uuid.UUID) {
			c.build(id, coderd.TransitionDelete)
			s.run(5 * time.Second)
			s.claim(s.recordOf(id))
			c.finish(id)
		},
		"unannounced": func(s *sim, c *fakeCoder, id uuid.UUID) {
			s.claim(s.recordOf(id))
			c.drop(id)
			s.mirror.config.Hints.Object("CoderWorkspace", c.name, id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, id := mirrorThatSettles(t, func(*metadata.Record, int) (bool, error) { return false, nil })
			c := s.coders[types.NamespacedName{Namespace: "team", Name: "prod"}]
			remove(s, c, id)
			before := c.calls["one"]
			s.run(50 * time.Second)
			if n := c.calls["one"] - before; n > 30 {
				t.Errorf("it was requested %d times while another replica was deleting it", n)
			}
			if n := s.epoch.plane(c.name).workspaces.breaker.held(); n > 0 {
				t.Errorf("%d deletions are held back", n)
			}
			s.until(15*time.Second, "it is gone", func() bool {
				entry, _ := s.records.Workspaces.Table.Find(c.name, uidOf(id))
				return entry == nil
			})
		})
	}
}

// TestSettleOfAnOutdatedRecord checks that nothing is changed in Coder if another replica has written
// the record since it was read.
func TestSettleOfAnOutdatedRecord(t *testing.T) {
	s, kind, id := mirrorThatSettles(t, func(*metadata.Record, int) (bool, error) { return false, nil })
	plane := types.NamespacedName{Namespace: "team", Name: "prod"}
	var results []error
	kind.settle = func(ctx context.Context, w coderd.Workspace, _ *metadata.Record) (bool, error) {
		if w.ID != id {
			return false, nil
		}
		if len(results) == 0 {
			other := s.records.Replica()
			record, _ := other.Get(plane, uidOf(id))
			record = record.DeepCopy()
			record.Intent = []byte(`{"stop":false}`)
			if _, err := other.Put(ctx, record); err != nil {
				t.Error(err)
			}
		}
		err := coderd.BeforeChange(ctx)
		results = append(results, err)
		return false, err
	}
	settled := func(n int) func() bool { return func() bool { return len(results) >= n } }
	s.until(time.Minute, "it is settled", settled(1))
	key, _ := s.records.Workspaces.Table.KeyOf(plane, uidOf(id))
	if err := s.records.Workspaces.Learn(s.ctx, key); err != nil {
		t.Fatal(err)
	}
	s.until(10*time.Second, "it is settled again", settled(2))
	if !errors.Is(results[0], records.ErrChanged) || results[1] != nil {
		t.Errorf("the changes in Coder: %v", results)
	}
}

// TestSettleOfAPausedHolder checks that a replica that was paused while it changed an object sends no further request that
// may end when other replicas no longer respect its claim.
func TestSettleOfAPausedHolder(t *testing.T) {
	for pause, sent := range map[time.Duration]bool{
		20 * time.Second: true, 31 * time.Second: false, time.Minute: false, time.Hour: false,
	} {
		t.Run(pause.String(), func(t *testing.T) {
			s, kind, id := mirrorThatSettles(t, func(*metadata.Record, int) (bool, error) { return false, nil })
			var results []error
			kind.settle = func(ctx context.Context, w coderd.Workspace, _ *metadata.Record) (bool, error) {
				if w.ID != id || len(results) > 0 {
					return false, nil
				}
				results = append(results, coderd.BeforeChange(ctx))
				s.clock.Step(pause)
				results = append(results, coderd.BeforeChange(ctx))
				return false, results[1]
			}
			s.until(time.Minute, "it is settled", func() bool { return len(results) > 0 })
			if results[0] != nil || (results[1] == nil) != sent || !sent && !apierrors.IsTimeout(results[1]) {
				t.Errorf("the changes in Coder: %v", results)
			}
			if claim := s.recordOf(id).Claim; claim != "" {
				t.Errorf("the record has the claim %q", claim)
			}
		})
	}
}

// TestAnObjectThatCannotBeRead checks that the condition of an object says so after a minute if the object cannot be
// built, if Coder fails to return it, or if its metadata cannot be stored; that all others stay Synced; and that it
// recovers.
func TestAnObjectThatCannotBeRead(t *testing.T) {
	broken := errors.New("its parameters cannot be decoded")
	for name, c := range map[string]func(s *sim, c *fakeCoder, kind *workspaceKind, id uuid.UUID) (repair func()){
		"it cannot be built": func(_ *sim, _ *fakeCoder, kind *workspaceKind, id uuid.UUID) func() {
			kind.build = func(w coderd.Workspace) error {
				if w.ID == id {
					return broken
				}
				return nil
			}
			return func() { kind.build = nil }
		},
		"Coder cannot return it": func(_ *sim, c *fakeCoder, _ *workspaceKind, id uuid.UUID) func() {
			// It is missing in lists, and requests for it fail.
			c.hidden = map[uuid.UUID]bool{id: true}
			c.fault = func(call string) error {
				if call == "one" {
					return &coderd.Error{Op: "reading", StatusCode: 500, Message: broken.Error()}
				}
				return nil
			}
			return func() { c.hidden, c.fault = nil, nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, 1)
			coder := s.add("team", "prod")
			coder.fill(300)
			s.until(time.Minute, "Ready", s.ready(coder))
			id := coder.ids()[7]
			head := s.workspaces.Head()
			repair := c(s, coder, s.mirror.config.Workspaces.Kind.(*workspaceKind), id)
			synced := func() string {
				entry, _ := s.records.Workspaces.Table.Find(coder.name, uidOf(id))
				condition := entry.Object.(*aggregationv1alpha1.CoderWorkspace).Status.Conditions[0]
				return string(condition.Status) + " " + condition.Message
			}
			s.run(50 * time.Second)
			if got := synced(); got != "True " {
				t.Errorf("before a minute, Synced is %s", got)
			}
			s.until(70*time.Second, "the condition", func() bool {
				return strings.HasPrefix(synced(), "False cannot be read: ") && strings.Contains(synced(), broken.Error())
			})
			s.run(10 * time.Minute)
			if events := s.workspaces.Since(head); len(events) != 1 {
				t.Errorf("%d events, want one", len(events))
			}
			if !s.ready(coder)() {
				t.Errorf("the control plane is %+v", s.state(coder))
			}
			repair()
			s.until(5*time.Minute, "it is up to date", func() bool { return synced() == "True " })
			s.equal(coder)
		})
	}
}
