package mirror

import (
	"context"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/partition"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// errNotHeld says that another replica may mirror by now.
var errNotHeld = errors.New("the Lease of the mirror was not renewed in time, so another replica may do the same")

// errReleased says that the objects of a control plane are leaving the log.
var errReleased = errors.New("the control plane is no longer served")

// plane mirrors one control plane.
type plane struct {
	config  *Config
	name    types.NamespacedName
	uid     types.UID
	limiter *limiter
	janitor *metadata.Janitor

	workspaces *feed[coderd.Workspace]
	templates  *feed[coderd.Template]
	// users is nil where no users are mirrored.
	users *feed[coderd.User]
	// feeds are those of all kinds.
	feeds []kindFeed

	sync   *syncer
	jobs   *jobs
	rounds *rounds
	census *census
	tasks  []*task
	// publish tells everybody of another state.
	publish func()

	mu         sync.Mutex
	namePrefix string
	named      bool
	// neverServed says that its objects were never shown to anybody, by this replica
	// or another one. It holds until they are read.
	neverServed bool
	connection  *connections.Connection
	health      *health
	// answered is when Coder last said what it is building.
	answered time.Time
}

// newPlane makes the mirror of a control plane. known is what another writer left on
// the board, or nil.
func newPlane(m *era, member connections.Member, known *partition.Partition) *plane {
	config := m.config
	now := config.Clock.Now()
	p := &plane{
		config: config, name: member.ControlPlane, uid: member.UID, publish: m.publish, janitor: m.janitor,
		limiter: newLimiter(config.Clock, config.Jitter, config.Timing.Rate),
		health:  newHealth(&config.Timing, now), answered: now, namePrefix: member.NamePrefix, named: member.Named,
	}
	p.workspaces, p.templates = newFeed(p, m.workspaces), newFeed(p, m.templates)
	p.feeds = []kindFeed{p.workspaces, p.templates}
	if m.users != nil {
		p.users = newFeed(p, m.users)
		p.feeds = append(p.feeds, p.users)
	}
	p.jobs, p.rounds, p.census = newJobs(p), newRounds(p), newCensus(p)
	p.sync = newSyncer(p, known)
	if known != nil {
		p.health.resume(*known)
		p.neverServed = known.NeverServed
	} else {
		p.neverServed = member.NeverServed && len(config.Records.List(p.name)) == 0
	}
	p.tasks = []*task{
		p.sync.task, p.jobs.task, p.rounds.task, p.census.task,
		newListTask(p, p.templates, config.Timing.Templates), newStaleTask(p), newLost(p).task,
	}
	if p.users != nil {
		p.tasks = append(p.tasks, newListTask(p, p.users, config.Timing.Users))
	}
	for _, f := range p.feeds {
		p.tasks = append(p.tasks, f.tasks()...)
	}
	return p
}

// wakeAll makes everything due at once.
func (p *plane) wakeAll() {
	for _, t := range p.tasks {
		t.wake()
	}
}

// update takes in what the cluster says of the control plane, and lets the time
// work.
func (p *plane) update(member connections.Member) {
	now := p.config.Clock.Now()
	p.mu.Lock()
	p.namePrefix, p.named = member.NamePrefix, member.Named
	other := clientOf(member.Connection) != clientOf(p.connection)
	p.connection = member.Connection
	if member.Connection != nil {
		p.health.succeeded(callConnect)
	} else {
		p.health.failed(callConnect, unreachable, now, member.Reason)
	}
	changed := p.health.update(now)
	p.mu.Unlock()
	if other && member.Connection != nil {
		p.limiter.reset()
	}
	if other || changed {
		p.wakeAll()
	}
}

func clientOf(connection *connections.Connection) *coderd.Client {
	if connection == nil {
		return nil
	}
	return connection.Client
}

// connected gives the connection, if there is one.
func (p *plane) connected() (connections.Connection, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.connection == nil || p.config.Released(p.name.Namespace) {
		return connections.Connection{}, false
	}
	return *p.connection, true
}

// live gives the connection of a control plane that is Ready.
func (p *plane) live() (connections.Connection, bool) {
	if p.state() != partition.Ready || p.sync.needed() {
		return connections.Connection{}, false
	}
	return p.connected()
}

func (p *plane) state() partition.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.health.state
}

// outage says since when and why the objects are as they were last seen.
func (p *plane) outage() (since time.Time, message string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ok = p.health.seen && (p.health.state == partition.Stale || p.health.state == partition.Quarantined)
	return p.health.outage, p.health.told, ok
}

// certain says whether this replica may change something in Coder: no other one mirrors.
func (p *plane) certain(context.Context) error {
	if !p.config.Held() {
		return errNotHeld
	}
	return nil
}

// partition is what everybody is told.
func (p *plane) partition() partition.Partition {
	p.mu.Lock()
	defer p.mu.Unlock()
	return partition.Partition{
		ControlPlane: p.name, NamePrefix: p.namePrefix, Unnamed: !p.named,
		State: p.health.state, Seen: p.health.seen, NeverServed: p.neverServed && !p.health.seen, Since: metav1.Time{Time: p.health.since}, Message: p.health.message,
	}
}

// ask makes a request when it may be made, and takes note of how it ends. An error
// that is expected is an answer.
func (p *plane) ask(ctx context.Context, call string, request func(ctx context.Context) error, expected func(error) bool) error {
	if err := p.limiter.wait(ctx); err != nil {
		return err
	}
	if p.config.Released(p.name.Namespace) {
		return errReleased
	}
	began := p.config.Clock.Now()
	err := request(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.limiter.note(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil, expected != nil && expected(err):
		p.health.succeeded(call)
	case coderd.IsRateLimited(err):
		p.health.failed(call, limited, began, err.Error())
	case coderd.IsUnauthorized(err), coderd.IsForbidden(err):
		p.health.failed(call, refused, began, err.Error())
	default:
		p.health.failed(call, unreachable, began, err.Error())
	}
	return err
}

// failed takes note of an answer that is as bad as none.
func (p *plane) failed(call string, what fault, began time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.health.failed(call, what, began, err.Error())
}

// lapse lets the time work.
func (p *plane) lapse() {
	p.mu.Lock()
	changed := p.health.update(p.config.Clock.Now())
	p.mu.Unlock()
	if changed {
		p.wakeAll()
	}
}

// note writes down how a step ended, and draws the consequences.
func (p *plane) note(ctx context.Context, what string, err error) {
	switch {
	case err == nil, ctx.Err() != nil, errors.Is(err, errReleased):
		return
	case errors.Is(err, errBlind):
		p.mu.Lock()
		p.health.quarantine(p.config.Clock.Now(), err.Error())
		p.mu.Unlock()
		p.sync.need()
		p.publish()
		p.wakeAll()
	}
	log.FromContext(ctx).Info("Failed "+what, "error", err.Error())
}

// synced takes note that the log equals Coder.
func (p *plane) synced() {
	p.mu.Lock()
	p.health.synced(p.config.Clock.Now())
	p.mu.Unlock()
	p.publish()
	p.wakeAll()
}

// answeredNow takes note that Coder said what it is building, and gives how long ago
// it last did.
func (p *plane) answeredNow() time.Duration {
	now := p.config.Clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	gap := now.Sub(p.answered)
	p.answered = now
	return gap
}

// tell brings the metrics up to date.
func (p *plane) tell() {
	p.mu.Lock()
	state, lag := p.health.state, p.config.Clock.Since(p.answered)
	p.mu.Unlock()
	p.config.Metrics.told(p.name, state, lag)
	for _, f := range p.feeds {
		f.tell()
	}
}

// after is a moment from now on, moved a little so that control planes and replicas
// do not ask in step.
func (p *plane) after(d time.Duration) time.Time {
	return p.config.Clock.Now().Add(time.Duration(float64(d) * (0.95 + 0.1*p.config.Jitter())))
}
