package mirror

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// epoch is one leader epoch: the time during which this replica is the leader.
type epoch struct {
	config     *Config
	workspaces *stock[coderd.Workspace]
	templates  *stock[coderd.Template]
	users      *stock[coderd.User]
	// stocks are the stocks of all kinds.
	stocks    []kindStock
	collector *metadata.GarbageCollector
	// inherited is the sync status that the previous leader published.
	inherited map[types.NamespacedName]*syncstatus.Status
	// start starts the tasks of a control plane.
	start func(ctx context.Context, m *member)

	mu     sync.Mutex
	planes map[types.NamespacedName]*member
	// orphaned holds the control planes that are no longer served and whose objects are still in the
	// records. A name may already be served again by a new control plane.
	orphaned map[types.NamespacedName]bool
	// publishing serializes updates of the board, so that an older state cannot replace a newer
	// one.
	publishing sync.Mutex
	// looked is true once the control planes were listed. It is guarded by publishing.
	looked bool
}

// member is a control plane that is mirrored.
type member struct {
	*plane
	stop context.CancelFunc
	done sync.WaitGroup
}

func newEpoch(config *Config) *epoch {
	e := &epoch{
		config:     config,
		workspaces: newWorkspaces(config), templates: newTemplates(config), users: newUsers(config),
		collector: metadata.NewGarbageCollector(config.Records),
		inherited: map[types.NamespacedName]*syncstatus.Status{},
		planes:    map[types.NamespacedName]*member{}, orphaned: map[types.NamespacedName]bool{},
	}
	e.stocks = []kindStock{e.workspaces, e.templates, e.users}
	known, _ := config.Board.All()
	for _, p := range known {
		e.inherited[p.ControlPlane] = &p
	}
	return e
}

// plane returns the mirror of a control plane, or nil.
func (e *epoch) plane(controlPlane types.NamespacedName) *plane {
	e.mu.Lock()
	defer e.mu.Unlock()
	if m := e.planes[controlPlane]; m != nil {
		return m.plane
	}
	return nil
}

// all returns the mirrored control planes, sorted by name.
func (e *epoch) all() []*member {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]*member, 0, len(e.planes))
	for _, m := range e.planes {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *member) int { return strings.Compare(a.name.String(), b.name.String()) })
	return all
}

// tick lists the control planes, starts and stops their mirrors, and re-evaluates their health.
func (e *epoch) tick(ctx context.Context) {
	members, err := e.config.Connections.Members(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "Could not list the control planes")
		// The last known list still holds. Only the time has passed.
		for _, m := range e.all() {
			m.lapse()
		}
		e.publish()
		return
	}
	served := map[types.NamespacedName]connections.Member{}
	for _, member := range members {
		if !member.Deleting && !e.config.Released(member.ControlPlane.Namespace) {
			served[member.ControlPlane] = member
		}
	}
	// A control plane may have been replaced by another one of the same name before this epoch.
	for name, known := range e.inherited {
		if now, ok := served[name]; ok && known.UID != "" && known.UID != now.UID {
			e.orphan(name)
		}
	}
	for _, m := range e.all() {
		if now, ok := served[m.name]; ok && now.UID == m.uid {
			continue
		}
		m.stop()
		m.done.Wait()
		e.mu.Lock()
		delete(e.planes, m.name)
		e.mu.Unlock()
		e.config.Metrics.forget(m.name)
		e.collector.Forget(m.name)
		e.orphan(m.name)
	}
	released := e.releaseAllBut(ctx, served)
	for name, member := range served {
		if !released[name] {
			e.ensure(ctx, member)
		}
	}
	e.config.Members(slices.SortedFunc(maps.Values(served), func(a, b connections.Member) int {
		return strings.Compare(a.ControlPlane.String(), b.ControlPlane.String())
	}))
	e.publishing.Lock()
	e.looked = true
	e.publishing.Unlock()
	for _, m := range e.all() {
		m.updateMetrics()
	}
	e.publish()
}

// orphan marks the objects of a control plane for removal. A new control plane of the same name
// inherits nothing.
func (e *epoch) orphan(name types.NamespacedName) {
	delete(e.inherited, name)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.orphaned[name] = true
}

// ensure starts the mirror of a control plane, or updates it.
func (e *epoch) ensure(ctx context.Context, found connections.Member) {
	if p := e.plane(found.ControlPlane); p != nil {
		p.update(found)
		return
	}
	// No record is left of an earlier control plane of this name, or releaseAllBut had returned it.
	e.mu.Lock()
	delete(e.orphaned, found.ControlPlane)
	e.mu.Unlock()
	m := &member{plane: newPlane(e, found, e.inherited[found.ControlPlane])}
	ctx, m.stop = context.WithCancel(log.IntoContext(ctx, log.FromContext(ctx).WithValues("controlPlane", found.ControlPlane)))
	e.mu.Lock()
	e.planes[found.ControlPlane] = m
	e.mu.Unlock()
	m.update(found)
	e.start(ctx, m)
}

// goStart starts a goroutine for each task of a control plane.
func (e *epoch) goStart(ctx context.Context, m *member) {
	for _, t := range m.tasks {
		m.done.Go(func() { t.run(ctx, e.config.Clock) })
	}
}

// publish updates the board.
func (e *epoch) publish() {
	e.publishing.Lock()
	defer e.publishing.Unlock()
	if !e.looked {
		return
	}
	var all []syncstatus.Status
	for _, m := range e.all() {
		all = append(all, m.syncStatus())
	}
	e.config.Board.Replace(all)
}

// end stops all control planes, because another replica is the leader now.
func (e *epoch) end() {
	for _, m := range e.all() {
		m.stop()
	}
	for _, m := range e.all() {
		m.done.Wait()
		e.config.Metrics.forget(m.name)
	}
}
