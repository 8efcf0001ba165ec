package mirror

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records/recordstest"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// simClock is a clock whose time passes when a goroutine sleeps.
type simClock struct{ *clocktesting.FakeClock }

func (c simClock) NewTimer(d time.Duration) clock.Timer {
	c.Step(d)
	fired := make(chan time.Time, 1)
	fired <- c.Now()
	return firedTimer(fired)
}

type firedTimer chan time.Time

func (t firedTimer) C() <-chan time.Time      { return t }
func (t firedTimer) Stop() bool               { return true }
func (t firedTimer) Reset(time.Duration) bool { return true }

// sim is a mirror whose tasks run one after the other, in the order in which they are due.
type sim struct {
	t       testing.TB
	ctx     context.Context
	clock   simClock
	random  *rand.Rand
	records *recordstest.Records
	board   *syncstatus.Board
	members *fakeMembers
	coders  map[types.NamespacedName]*fakeCoder
	mirror  *Mirror
	epoch   *epoch
	ticked  time.Time
	running []*plane

	workspaces, templates, users *Log
	// deposed is true while another replica may hold the Lease.
	deposed  bool
	released map[string]bool
	// built are the templates of which a build has begun or ended.
	built []uuid.UUID
	// before is called before each step.
	before func()
}

func newSim(t testing.TB, seed uint64) *sim {
	t.Helper()
	s := &sim{
		t: t, ctx: t.Context(), random: rand.New(rand.NewPCG(seed, 1)),
		clock:   simClock{clocktesting.NewFakeClock(time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC))},
		board:   &syncstatus.Board{},
		members: &fakeMembers{}, coders: map[types.NamespacedName]*fakeCoder{},
		released: map[string]bool{},
	}
	s.records = recordstest.NewWithClock(t, s.clock)
	s.workspaces = NewLog(s.records, s.records.Workspaces, func() records.Object { return &aggregationv1alpha1.CoderWorkspace{} })
	s.templates = NewLog(s.records, s.records.Templates, func() records.Object { return &aggregationv1alpha1.CoderTemplate{} })
	s.users = NewLog(s.records, s.records.Users, func() records.Object { return &aggregationv1alpha1.CoderUser{} })
	s.lead()
	return s
}

// BaseConfig returns a Config with the default timing, and with callbacks that do nothing.
func BaseConfig() Config {
	return Config{
		Hints:     &Hints{},
		Released:  func(string) bool { return false },
		Members:   func([]connections.Member) {},
		Unsettled: func(types.NamespacedName, coderd.Workspace) bool { return false },
		Gone:      func(types.NamespacedName, uuid.UUID) {},
		Built:     func(types.NamespacedName, uuid.UUID) {},
		Held:      func() bool { return true },
		Timing:    DefaultTiming(),
		Clock:     clock.RealClock{},
	}
}

// lead creates another leader of the same records.
func (s *sim) lead() {
	s.t.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		s.t.Fatal(err)
	}
	c := BaseConfig()
	c.Connections, c.Records, c.Board, c.Metrics = s.members, s.records, s.board, metrics
	c.Workspaces = Resource[coderd.Workspace]{Store: s.records.Workspaces, Kind: &workspaceKind{sim: s}}
	c.Templates = Resource[coderd.Template]{Store: s.records.Templates, Kind: templateKind{}}
	c.Users = Resource[coderd.User]{Store: s.records.Users, Kind: userKind{}}
	c.Released = func(namespace string) bool { return s.released[namespace] }
	c.Built = func(_ types.NamespacedName, template uuid.UUID) { s.built = append(s.built, template) }
	c.Held = func() bool { return !s.deposed }
	c.Clock = s.clock
	c.Jitter = func() float64 { return 0.5 }
	c.Open = func(c connections.Connection) Coder { return s.coders[c.ControlPlane] }
	m := New(c)
	s.mirror, s.running, s.ticked = m, nil, time.Time{}
	s.epoch = newEpoch(&m.config)
	s.epoch.start = func(_ context.Context, m *member) { s.running = append(s.running, m.plane) }
	m.config.Hints.deliverTo(s.epoch)
}

// add creates a control plane with its own Coder.
func (s *sim) add(namespace, name string) *fakeCoder {
	c := newFakeCoder(s, types.NamespacedName{Namespace: namespace, Name: name})
	s.coders[c.name] = c
	s.members.put(c.name, "uid-"+types.UID(name), true)
	return c
}

// run runs the tasks for a duration.
func (s *sim) run(d time.Duration) {
	end := s.clock.Now().Add(d)
	for {
		due, step := s.next()
		if due.After(end) {
			if now := s.clock.Now(); now.Before(end) {
				s.clock.Step(end.Sub(now))
			}
			return
		}
		if now := s.clock.Now(); due.After(now) {
			s.clock.Step(due.Sub(now))
		}
		if s.before != nil {
			s.before()
		}
		step()
	}
}

// next returns the time and the function of the task that is due first.
func (s *sim) next() (time.Time, func()) {
	due := s.ticked.Add(time.Second)
	step := func() {
		s.ticked = s.clock.Now()
		s.epoch.tick(s.ctx)
		s.running = slices.DeleteFunc(s.running, func(p *plane) bool { return s.epoch.plane(p.name) != p })
	}
	for _, p := range s.running {
		for _, t := range p.tasks {
			if at := t.dueAt(); at.Before(due) {
				due, step = at, func() { t.once(s.ctx) }
			}
		}
	}
	return due, step
}

// until runs until a condition is true.
func (s *sim) until(limit time.Duration, what string, done func() bool) time.Duration {
	s.t.Helper()
	began := s.clock.Now()
	for end := began.Add(limit); !done(); {
		if s.clock.Now().After(end) {
			s.t.Fatalf("after %v still not: %s", limit, what)
		}
		s.run(100 * time.Millisecond)
	}
	return s.clock.Now().Sub(began)
}

func (s *sim) state(c *fakeCoder) syncstatus.Status {
	all, _ := s.board.All()
	for _, p := range all {
		if p.ControlPlane == c.name {
			return p
		}
	}
	return syncstatus.Status{}
}

func (s *sim) ready(c *fakeCoder) func() bool {
	return func() bool { return s.state(c).State == syncstatus.Ready }
}

// objects returns the objects of a log in a namespace. It maps the name in Coder to the UID and
// the version.
func objects(log *Log, namespace string) map[string]string {
	all := map[string]string{}
	for _, e := range log.Live() {
		if e.Object.GetNamespace() == namespace {
			all[cmp.Or(e.Natural, e.Object.GetName())] = string(e.Object.GetUID()) + " " + versionIn(e.Object)
		}
	}
	return all
}

func versionIn(o records.Object) string {
	switch o := o.(type) {
	case *aggregationv1alpha1.CoderWorkspace:
		return o.Status.LatestBuildID
	case *aggregationv1alpha1.CoderTemplate:
		return o.Spec.DisplayName
	}
	return ""
}

// fakeMembers are the control planes of the cluster.
type fakeMembers struct {
	connections.Provider
	mu  sync.Mutex
	all []connections.Member
	err error
}

func (f *fakeMembers) Members(context.Context) ([]connections.Member, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	return slices.Clone(f.all), nil
}

func (f *fakeMembers) put(name types.NamespacedName, uid types.UID, connected bool, changes ...func(*connections.Member)) {
	f.remove(name)
	m := connections.Member{ControlPlane: name, UID: uid, Named: true, Reason: "the operator has no token for it yet"}
	if connected {
		m.Connection, m.Reason = &connections.Connection{ControlPlane: name, Client: new(coderd.Client)}, ""
	}
	for _, change := range changes {
		change(&m)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, m)
}

func (f *fakeMembers) remove(name types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = slices.DeleteFunc(f.all, func(m connections.Member) bool { return m.ControlPlane == name })
}

// fakeCoder is a Coder in memory.
type fakeCoder struct {
	sim   *sim
	name  types.NamespacedName
	mu    sync.Mutex
	items map[uuid.UUID]*fakeWorkspace
	gone  map[uuid.UUID]bool
	// templates maps ids to versions.
	templates     map[uuid.UUID]coderd.Template
	users         map[uuid.UUID]coderd.User
	organizations []coderd.Organization
	next          uint64
	roles         []string
	// jobs are all jobs that ever began, the newest last.
	jobs []*fakeJob
	// The latency of a call, of each row of a page, and the additional latency of the newest jobs.
	latency, rowLatency, newestLatency time.Duration
	// fault is called before each call, and during is called after the answer was computed.
	fault  func(call string) error
	during func(call string)
	blind  bool
	// hidden workspaces are in no list. The account may not see unseen objects.
	hidden, unseen map[uuid.UUID]bool
	// broken is a workspace that cannot be read.
	broken uuid.UUID
	// deploymentID identifies the database.
	deploymentID string
	// most is the number of workspaces with which a response is not too large. 0 means no limit.
	most int
	// calls counts requests by name.
	calls map[string]int
	// The jobs and the workspaces that a hostile Coder invents for each answer about these.
	inventedJobs       func() []coderd.Job
	inventedWorkspaces func() []coderd.Workspace
}

type fakeWorkspace struct {
	coderd.Workspace
	// building is true until the job is done.
	building bool
	job      *fakeJob
}

type fakeJob struct {
	coderd.Job
	organization uuid.UUID
}

// begin starts a job for a workspace.
func (c *fakeCoder) begin(w *fakeWorkspace) {
	w.building = true
	w.job = &fakeJob{Job: coderd.Job{ID: c.id(), Status: "running", Active: true, Workspace: w.ID}, organization: w.OrganizationID}
	c.jobs = append(c.jobs, w.job)
}

func newFakeCoder(s *sim, name types.NamespacedName) *fakeCoder {
	return &fakeCoder{
		sim: s, name: name, items: map[uuid.UUID]*fakeWorkspace{}, gone: map[uuid.UUID]bool{},
		templates: map[uuid.UUID]coderd.Template{}, users: map[uuid.UUID]coderd.User{}, calls: map[string]int{}, roles: []string{"owner"},
		organizations: []coderd.Organization{{ID: uuid.UUID{15: 1}, Name: "coder"}},
		latency:       20 * time.Millisecond,
		deploymentID:  uuid.NewString(),
	}
}

func (c *fakeCoder) id() uuid.UUID {
	c.next++
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[8:], c.next)
	copy(id[:4], c.name.Name)
	return id
}

func (c *fakeCoder) create(owner, name string) uuid.UUID {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &fakeWorkspace{}
	w.ID, w.OwnerName, w.Name, w.OrganizationName = c.id(), owner, name, c.organizations[0].Name
	w.OrganizationID, w.CreatedAt = c.organizations[0].ID, c.sim.clock.Now()
	w.LatestBuild = coderd.Build{Number: 1, Status: "starting", Transition: coderd.TransitionStart}
	c.items[w.ID] = w
	c.begin(w)
	return w.ID
}

// fill creates many running workspaces.
func (c *fakeCoder) fill(n int) {
	for i := range n {
		c.finish(c.create("user"+fmt.Sprint(i%50), fmt.Sprintf("ws%d", i)))
	}
}

// build starts a build. finish ends it.
func (c *fakeCoder) build(id uuid.UUID, t coderd.Transition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.items[id]
	if w == nil || w.building {
		return
	}
	c.begin(w)
	w.LatestBuild.Number++
	w.LatestBuild.Transition = t
	w.LatestBuild.Status = map[coderd.Transition]string{
		coderd.TransitionStart: "starting", coderd.TransitionStop: "stopping", coderd.TransitionDelete: "deleting",
	}[t]
}

func (c *fakeCoder) finish(id uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.items[id]
	if w == nil || !w.building {
		return
	}
	w.building, w.job.Active, w.job.Status = false, false, "succeeded"
	w.LatestBuild.Number++
	switch w.LatestBuild.Transition {
	case coderd.TransitionDelete:
		delete(c.items, id)
		c.gone[id] = true
	case coderd.TransitionStop:
		w.LatestBuild.Status = "stopped"
	default:
		w.LatestBuild.Status = "running"
	}
}

// drop removes a workspace without a build, as a change in Coder's database does.
func (c *fakeCoder) drop(id uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.items, id)
	c.gone[id] = true
}

// touch changes a workspace without a build.
func (c *fakeCoder) touch(id uuid.UUID, change func(*coderd.Workspace)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.items[id]; w != nil {
		change(&w.Workspace)
		w.LatestBuild.Number++
	}
}

func (c *fakeCoder) rename(id uuid.UUID, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.items[id]
	if w == nil {
		return false
	}
	for _, other := range c.items {
		if other.Name == name && other.OwnerName == w.OwnerName {
			return false
		}
	}
	w.Name = name
	w.LatestBuild.Number++
	return true
}

func (c *fakeCoder) ids() []uuid.UUID {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []uuid.UUID
	for id := range c.items {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	return ids
}

// want returns the expected content of the records.
func (c *fakeCoder) want() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]string{}
	for _, w := range c.items {
		all[objectName(w.Workspace)] = w.ID.String() + " " + fmt.Sprint(w.LatestBuild.Number)
	}
	return all
}

func (c *fakeCoder) wantTemplates() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]string{}
	for _, t := range c.templates {
		all[t.OrganizationName+"."+t.Name] = t.ID.String() + " " + t.DisplayName
	}
	return all
}

func (c *fakeCoder) putTemplate(name, displayName string) uuid.UUID {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := coderd.Template{ID: c.id(), Name: name, DisplayName: displayName, OrganizationName: "coder"}
	c.templates[t.ID] = t
	return t.ID
}

// call simulates one request. The answer is computed in the middle of its latency.
func (c *fakeCoder) call(name string, requests int, answer func()) error {
	c.sim.clock.Step(c.latency / 2)
	c.mu.Lock()
	c.calls[name] += requests
	fault := c.fault
	c.mu.Unlock()
	if fault != nil {
		if err := fault(name); err != nil {
			return err
		}
	}
	c.mu.Lock()
	answer()
	c.mu.Unlock()
	if c.during != nil {
		c.during(name)
	}
	c.sim.clock.Step(c.latency / 2)
	return nil
}

func (c *fakeCoder) requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := 0
	for _, n := range c.calls {
		total += n
	}
	return total
}

func (c *fakeCoder) Me(context.Context) (u coderd.User, err error) {
	err = c.call("me", 1, func() { u.Username, u.Roles = "operator", c.roles })
	return u, err
}

func (c *fakeCoder) May(context.Context, ...coderd.Permission) (may bool, err error) {
	err = c.call("may", 1, func() { may = !c.blind && !c.hidesPart() })
	return may, err
}

// hidesPart reports whether an existing object is unseen.
func (c *fakeCoder) hidesPart() bool {
	for id, unseen := range c.unseen {
		_, isTemplate := c.templates[id]
		_, isUser := c.users[id]
		if unseen && (c.items[id] != nil || isTemplate || isUser) {
			return true
		}
	}
	return false
}

func (c *fakeCoder) BuildInfo(context.Context) (info coderd.BuildInfo, err error) {
	err = c.call("build info", 1, func() { info.DeploymentID = c.deploymentID })
	return info, err
}

func (c *fakeCoder) Organizations(context.Context) (all []coderd.Organization, err error) {
	err = c.call("organizations", 1, func() { all = slices.Clone(c.organizations) })
	return all, err
}

func (c *fakeCoder) ActiveJobs(_ context.Context, organization uuid.UUID) (jobs []coderd.Job, err error) {
	err = c.call("jobs", 1, func() {
		for _, j := range c.jobs {
			if j.Active && j.organization == organization {
				jobs = append(jobs, j.Job)
			}
		}
		if c.inventedJobs != nil {
			jobs = append(jobs, c.inventedJobs()...)
		}
	})
	return jobs, err
}

func (c *fakeCoder) NewestJobs(_ context.Context, organization uuid.UUID, limit int) (jobs []coderd.Job, err error) {
	c.sim.clock.Step(c.newestLatency)
	err = c.call("newest", 1, func() {
		for _, j := range slices.Backward(c.jobs) {
			if j.organization == organization && len(jobs) < limit {
				jobs = append(jobs, j.Job)
			}
		}
		if c.inventedJobs != nil {
			jobs = append(jobs, c.inventedJobs()...)
		}
	})
	return jobs, err
}

// visible returns the workspaces in the order of Coder's pages.
func (c *fakeCoder) visible() []*fakeWorkspace {
	if c.blind {
		return nil
	}
	all := make([]*fakeWorkspace, 0, len(c.items))
	for _, w := range c.items {
		if !c.hidden[w.ID] && !c.unseen[w.ID] {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b *fakeWorkspace) int {
		return cmp.Or(cmp.Compare(b.LatestBuild.Status, a.LatestBuild.Status), cmp.Compare(a.OwnerName, b.OwnerName), cmp.Compare(a.Name, b.Name))
	})
	return all
}

func (c *fakeCoder) WorkspaceCount(context.Context) (n int, err error) {
	err = c.call("count", 1, func() {
		// Coder's count includes hidden workspaces.
		if !c.blind {
			n = len(c.items)
		}
	})
	return n, err
}

func (c *fakeCoder) WorkspacePage(_ context.Context, offset, limit int) (page coderd.WorkspacePage, err error) {
	err = c.call("page", 1, func() {
		all := c.visible()
		page.Count = len(all)
		for _, w := range all[min(offset, len(all)):min(offset+limit, len(all))] {
			page.Workspaces = append(page.Workspaces, w.Workspace)
		}
	})
	err = cmp.Or(err, c.tooLarge(page.Workspaces))
	c.sim.clock.Step(time.Duration(len(page.Workspaces)) * c.rowLatency)
	return page, err
}

func (c *fakeCoder) DisconnectedWorkspaces(_ context.Context, offset, limit int) (page coderd.WorkspacePage, err error) {
	err = c.call("agents", 1, func() {
		all := slices.DeleteFunc(c.visible(), func(w *fakeWorkspace) bool {
			return !slices.ContainsFunc(w.Agents, func(a coderd.Agent) bool { return a.Status == agentDisconnected })
		})
		page.Count = len(all)
		for _, w := range all[min(offset, len(all)):min(offset+limit, len(all))] {
			page.Workspaces = append(page.Workspaces, w.Workspace)
		}
	})
	return page, cmp.Or(err, c.tooLarge(page.Workspaces))
}

// tooLarge returns an error if a response cannot contain these workspaces.
func (c *fakeCoder) tooLarge(all []coderd.Workspace) error {
	if c.most == 0 || len(all) <= c.most {
		return nil
	}
	return &coderd.Error{Op: "reading", Message: "it is too large", Err: &coderd.LimitError{}}
}

func (c *fakeCoder) WorkspacesByID(_ context.Context, ids []uuid.UUID) (all []coderd.Workspace, err error) {
	if len(ids) > coderd.MaxWorkspaceIDs {
		c.sim.t.Errorf("%d ids in one request", len(ids))
	}
	err = c.call("ids", 1, func() {
		for _, id := range ids {
			if w := c.items[id]; w != nil && !c.blind && !c.hidden[id] && !c.unseen[id] {
				all = append(all, w.Workspace)
			}
		}
		if c.inventedWorkspaces != nil {
			all = append(all, c.inventedWorkspaces()...)
		}
	})
	return all, cmp.Or(err, c.tooLarge(all))
}

func (c *fakeCoder) Workspace(_ context.Context, id uuid.UUID) (out coderd.Workspace, err error) {
	var answer error
	err = c.call("one", 1, func() {
		switch w := c.items[id]; {
		case id == c.broken:
			answer = &coderd.Error{Op: "reading", StatusCode: 500, Message: "cannot be read"}
		case c.blind, c.unseen[id]:
			answer = &coderd.Error{Op: "reading", StatusCode: 404, Message: "not found"}
		case w != nil:
			out = w.Workspace
		case c.gone[id]:
			answer = &coderd.Error{Op: "reading", StatusCode: 410, Message: "gone"}
		default:
			answer = &coderd.Error{Op: "reading", StatusCode: 404, Message: "not found"}
		}
	})
	return out, cmp.Or(err, answer)
}

func (c *fakeCoder) Templates(context.Context) (all []coderd.Template, err error) {
	err = c.call("templates", 2, func() {
		for _, t := range c.templates {
			if !c.blind && !c.hidden[t.ID] && !c.unseen[t.ID] {
				all = append(all, t)
			}
		}
	})
	return all, err
}

func (c *fakeCoder) Template(_ context.Context, id uuid.UUID) (out coderd.Template, err error) {
	var answer error
	err = c.call("template", 1, func() {
		t, ok := c.templates[id]
		if out = t; !ok || c.blind || c.unseen[id] {
			answer = &coderd.Error{Op: "reading", StatusCode: 404, Message: "not found"}
		}
	})
	return out, cmp.Or(err, answer)
}

func objectName(w coderd.Workspace) string {
	return strings.ToLower(w.OrganizationName + "." + w.OwnerName + "." + w.Name)
}

// workspaceKind makes objects that show the version of the workspace.
type workspaceKind struct {
	sim     *sim
	mu      sync.Mutex
	settled map[uuid.UUID]int
	// settle implements Settle.
	settle func(context.Context, coderd.Workspace, *metadata.Record) (bool, error)
	// build is called before an object is built. It may be nil.
	build func(coderd.Workspace) error
}

func (k *workspaceKind) Object(_ context.Context, c connections.Connection, w coderd.Workspace, r *metadata.Record, previous records.Object) (records.Object, error) {
	if k.build != nil {
		if err := k.build(w); err != nil {
			return nil, err
		}
	}
	o := &aggregationv1alpha1.CoderWorkspace{ObjectMeta: metav1.ObjectMeta{
		Name: objectName(w), Namespace: c.ControlPlane.Namespace, UID: types.UID(w.ID.String()),
		CreationTimestamp: metav1.Time{Time: w.CreatedAt.Truncate(time.Second)}, Generation: 1,
		Labels: map[string]string{aggregationv1alpha1.LabelControlPlaneName: c.ControlPlane.Name},
	}}
	o.Status.LatestBuildStatus, o.Status.LatestBuildID = w.LatestBuild.Status, fmt.Sprint(w.LatestBuild.Number)
	for _, a := range w.Agents {
		agent := aggregationv1alpha1.WorkspaceAgent{Name: a.Name, Status: a.Status}
		for _, app := range a.Apps {
			agent.Apps = append(agent.Apps, aggregationv1alpha1.WorkspaceApp{Slug: app.Slug, URL: app.ExternalURL})
		}
		o.Status.Agents = append(o.Status.Agents, agent)
	}
	o.Spec.TemplateName = string(w.LatestBuild.Transition)
	if old, ok := previous.(*aggregationv1alpha1.CoderWorkspace); ok {
		o.Generation = old.Generation
		if old.Spec.TemplateName != o.Spec.TemplateName {
			o.Generation++
		}
	}
	if w.LatestBuild.Transition == coderd.TransitionDelete {
		o.DeletionTimestamp = &metav1.Time{Time: w.CreatedAt}
	}
	o.Status.Conditions = []metav1.Condition{{Type: aggregationv1alpha1.ConditionSynced, Status: metav1.ConditionTrue}}
	metadata.Overlay(o, r)
	return o, nil
}

func (k *workspaceKind) Settle(ctx context.Context, _ connections.Connection, w coderd.Workspace, r *metadata.Record) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.settled == nil {
		k.settled = map[uuid.UUID]int{}
	}
	k.settled[w.ID]++
	if k.settle != nil {
		return k.settle(ctx, w, r)
	}
	return false, nil
}

func (*workspaceKind) Unreadable(o records.Object, since time.Time, message string) records.Object {
	return (*workspaceKind)(nil).Unreachable(o, since, "cannot be read: "+message)
}

func (*workspaceKind) Unreachable(o records.Object, since time.Time, message string) records.Object {
	w := o.(*aggregationv1alpha1.CoderWorkspace).DeepCopy()
	want := metav1.Condition{Type: aggregationv1alpha1.ConditionSynced, Status: metav1.ConditionFalse, Message: message, LastTransitionTime: metav1.Time{Time: since}}
	if w.Status.Conditions[0].Status == want.Status {
		return nil
	}
	w.Status.Conditions[0] = want
	return w
}

func (*workspaceKind) Unrecovered(previous, next records.Object) records.Object {
	before := previous.(*aggregationv1alpha1.CoderWorkspace).Status.Conditions[0]
	if before.Status == metav1.ConditionTrue {
		return nil
	}
	w := next.(*aggregationv1alpha1.CoderWorkspace).DeepCopy()
	w.Status.Conditions[0] = before
	return w
}

type templateKind struct{}

func (templateKind) Object(_ context.Context, c connections.Connection, t coderd.Template, r *metadata.Record, _ records.Object) (records.Object, error) {
	o := &aggregationv1alpha1.CoderTemplate{ObjectMeta: metav1.ObjectMeta{
		Name: t.OrganizationName + "." + t.Name, Namespace: c.ControlPlane.Namespace, UID: types.UID(t.ID.String()), Generation: 1,
		Labels: map[string]string{aggregationv1alpha1.LabelControlPlaneName: c.ControlPlane.Name},
	}}
	o.Spec.DisplayName = t.DisplayName
	metadata.Overlay(o, r)
	return o, nil
}

func (templateKind) Settle(context.Context, connections.Connection, coderd.Template, *metadata.Record) (bool, error) {
	return false, nil
}

func (templateKind) Unreadable(records.Object, time.Time, string) records.Object { return nil }

func (templateKind) Unreachable(records.Object, time.Time, string) records.Object { return nil }

func (templateKind) Unrecovered(records.Object, records.Object) records.Object { return nil }
