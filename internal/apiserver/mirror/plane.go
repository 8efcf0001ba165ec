package mirror

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// errNotHeld reports that another replica may mirror by now.
var errNotHeld = errors.New("the Lease of the mirror was not renewed in time, so another replica may have taken over")

// errReleased reports that the objects of a control plane are being removed from the records.
var errReleased = errors.New("the control plane is no longer served")

// plane mirrors one control plane.
type plane struct {
	config    *Config
	name      types.NamespacedName
	uid       types.UID
	limiter   *limiter
	collector *metadata.GarbageCollector

	workspaces *feed[coderd.Workspace]
	templates  *feed[coderd.Template]
	users      *feed[coderd.User]
	// feeds are the feeds of all kinds.
	feeds []kindFeed

	sync       *syncer
	jobs       *jobs
	rounds     *rounds
	driftCheck *driftCheck
	tasks      []*task
	// publish publishes the sync status of all control planes.
	publish func()

	mu         sync.Mutex
	namePrefix string
	named      bool
	// neverServed reports that no replica has ever served the objects. It holds until they are
	// read.
	neverServed bool
	// deploymentID identifies the database that the objects were read from. It is empty if it is not known.
	deploymentID string
	connection   *connections.Connection
	health       *health
	// answered is the time of the last answer about active builds.
	answered time.Time
}

// newPlane returns the mirror of a control plane. known is the sync status that another leader
// published, or nil.
func newPlane(m *epoch, member connections.Member, known *syncstatus.Status) *plane {
	config := m.config
	now := config.Clock.Now()
	p := &plane{
		config: config, name: member.ControlPlane, uid: member.UID, publish: m.publish, collector: m.collector,
		limiter: newLimiter(config.Clock, config.Jitter, config.Timing.Rate),
		health:  newHealth(&config.Timing, now), answered: now, namePrefix: member.NamePrefix, named: member.Named,
	}
	p.workspaces, p.templates, p.users = newFeed(p, m.workspaces), newFeed(p, m.templates), newFeed(p, m.users)
	p.feeds = []kindFeed{p.workspaces, p.templates, p.users}
	p.sync, p.jobs, p.rounds, p.driftCheck = &syncer{plane: p}, &jobs{plane: p}, &rounds{plane: p}, newDriftCheck(p)
	p.sync.wanted.Store(true)
	if known != nil {
		p.health.resume(*known, now)
		p.neverServed, p.deploymentID = known.NeverServed, known.DeploymentID
		p.sync.takeover = known.Seen && known.State == syncstatus.Ready
	} else {
		p.neverServed = member.NeverServed && len(config.Records.List(p.name)) == 0
		p.sync.takeover = p.workspaces.Store.Table.Count(p.name)+p.templates.Store.Table.Count(p.name) > 0
	}
	p.rounds.task = newLiveTask(p, "rounds", time.Time{}, p.rounds.step)
	p.tasks = []*task{
		newTask("sync", p.sync.step), newTask("jobs", p.jobs.step), p.rounds.task, p.driftCheck.task,
		newListTask(p, p.templates, config.Timing.Templates), newStaleTask(p), newTask("agents", (&lost{plane: p}).step),
		newListTask(p, p.users, config.Timing.Users),
	}
	for _, f := range p.feeds {
		p.tasks = append(p.tasks, f.tasks()...)
	}
	return p
}

// wakeAll makes all tasks due at once.
func (p *plane) wakeAll() {
	for _, t := range p.tasks {
		t.wake()
	}
}

// update takes over the control plane's connection and name prefix from the cluster, and
// re-evaluates the health at the current time.
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

// connected returns the connection, if there is one and the namespace is not being deleted.
func (p *plane) connected() (connections.Connection, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.connection == nil || p.config.Released(p.name.Namespace) {
		return connections.Connection{}, false
	}
	return *p.connection, true
}

// live returns the connection if the control plane is Ready and no full read is needed.
func (p *plane) live() (connections.Connection, bool) {
	if p.state() != syncstatus.Ready || p.sync.wanted.Load() {
		return connections.Connection{}, false
	}
	return p.connected()
}

func (p *plane) state() syncstatus.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.health.state
}

// outage returns when and why the objects stopped being up to date. ok is false if there is no
// outage.
func (p *plane) outage() (since time.Time, message string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ok = p.health.seen && (p.health.state == syncstatus.Stale || p.health.state == syncstatus.Quarantined)
	return p.health.outage, p.health.published, ok
}

// sameDatabase returns an error that wraps errBlind unless Coder has the database that the objects were read from. A backup of a
// database that was restored has the id of the deployment, and another database does not.
func (p *plane) sameDatabase(ctx context.Context, coder Coder, kind string) error {
	info, err := ask(ctx, p, callUser, coder.BuildInfo, nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || p.deploymentID == "" || p.deploymentID == info.DeploymentID {
		return err
	}
	return blind(kind, fmt.Errorf("it has another database (its deployment id was %s and is %s); give it its database again; if it was "+
		"replaced on purpose, set spec.operatorAccess.disabled to true until the objects of the old database are gone, and then to false",
		p.deploymentID, info.DeploymentID))
}

// identify reads the deployment id of Coder if it is not known.
func (p *plane) identify(ctx context.Context, coder Coder) error {
	p.mu.Lock()
	known := p.deploymentID != ""
	p.mu.Unlock()
	if known {
		return nil
	}
	info, err := ask(ctx, p, callUser, coder.BuildInfo, nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deploymentID = info.DeploymentID
	return err
}

// certain returns an error if another replica may mirror, so that this one must not change Coder.
func (p *plane) certain(context.Context) error {
	if !p.config.Held() {
		return errNotHeld
	}
	return nil
}

// syncStatus returns the sync status to publish.
func (p *plane) syncStatus() syncstatus.Status {
	incomplete := 0
	for _, f := range p.feeds {
		incomplete += f.incomplete()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return syncstatus.Status{
		ControlPlane: p.name, UID: p.uid, NamePrefix: p.namePrefix, Unnamed: !p.named,
		DeploymentID: p.deploymentID, Incomplete: incomplete,
		State: p.health.state, Seen: p.health.seen, NeverServed: p.neverServed && !p.health.seen, Since: metav1.Time{Time: p.health.since}, Message: p.health.message,
	}
}

// ask waits for the rate limiter of a control plane, sends a request and records its result. An error
// for which expected returns true counts as a success. expected may be nil.
func ask[T any](
	ctx context.Context, p *plane, call string, request func(context.Context) (T, error), expected func(error) bool,
) (answer T, err error) {
	if err := p.limiter.wait(ctx); err != nil {
		return answer, err
	}
	if p.config.Released(p.name.Namespace) {
		return answer, errReleased
	}
	began := p.config.Clock.Now()
	answer, err = request(ctx)
	if ctx.Err() != nil {
		return answer, ctx.Err()
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
	return answer, err
}

// countWorkspaces returns the number of workspaces in Coder. More than Config.MaxWorkspaces are an error.
func (p *plane) countWorkspaces(ctx context.Context, coder Coder) (int, error) {
	return ask(ctx, p, callCount, func(ctx context.Context) (int, error) {
		count, err := coder.WorkspaceCount(ctx)
		if err == nil {
			err = p.fits(count)
		}
		return count, err
	}, nil)
}

// fits returns an error if Coder has more workspaces than a control plane is served with.
func (p *plane) fits(count int) error {
	if most := p.config.MaxWorkspaces; count > most {
		return fmt.Errorf("Coder has %d workspaces, but a control plane is served only up to %d", count, most)
	}
	return nil
}

// failed records an unusable response as a failure.
func (p *plane) failed(call string, what fault, began time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.health.failed(call, what, began, err.Error())
}

// lapse re-evaluates the health at the current time and wakes the tasks if it changed.
func (p *plane) lapse() {
	p.mu.Lock()
	changed := p.health.update(p.config.Clock.Now())
	p.mu.Unlock()
	if changed {
		p.wakeAll()
	}
}

// note logs the error of a step. After errBlind it also quarantines the control plane and requests
// a full read.
func (p *plane) note(ctx context.Context, what string, err error) {
	switch {
	case err == nil, ctx.Err() != nil, errors.Is(err, errReleased):
		return
	case errors.Is(err, errBlind):
		p.mu.Lock()
		p.health.quarantine(p.config.Clock.Now(), err.Error())
		p.mu.Unlock()
		p.sync.wanted.Store(true)
		p.publish()
		p.wakeAll()
	}
	log.FromContext(ctx).Info("Failed "+what, "error", err.Error())
}

func (p *plane) updateMetrics() {
	p.mu.Lock()
	state, lag := p.health.state, p.config.Clock.Since(p.answered)
	p.mu.Unlock()
	m := p.config.Metrics
	m.lag.WithLabelValues(p.name.Namespace, p.name.Name).Set(lag.Seconds())
	for _, each := range []syncstatus.State{syncstatus.Syncing, syncstatus.Ready, syncstatus.Stale, syncstatus.Quarantined} {
		value := 0.0
		if each == state {
			value = 1
		}
		m.state.WithLabelValues(p.name.Namespace, p.name.Name, string(each)).Set(value)
	}
	for _, f := range p.feeds {
		f.updateMetrics()
	}
}

// after returns the time after d, with a jitter of 5 percent, so that control planes and replicas
// do not send requests in step.
func (p *plane) after(d time.Duration) time.Time {
	return p.config.Clock.Now().Add(time.Duration(float64(d) * (0.95 + 0.1*p.config.Jitter())))
}
