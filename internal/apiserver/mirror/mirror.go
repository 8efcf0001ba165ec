package mirror

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// Mirror keeps the records equal to the state of every served Coder.
type Mirror struct {
	config Config

	mu sync.Mutex
	// epoch is nil while this replica is not the leader.
	epoch *epoch
}

// New returns a Mirror. It starts nothing: call Run.
func New(config Config) *Mirror {
	config.complete()
	m := &Mirror{config: config}
	config.Records.OnChange(m.recordChanged)
	return m
}

// Run mirrors until the context ends. Call it again each time this replica becomes the leader.
func (m *Mirror) Run(ctx context.Context) {
	e := newEpoch(&m.config)
	e.start = e.goStart
	m.set(e)
	defer m.set(nil)
	m.config.Metrics.leader.Set(1)
	defer m.config.Metrics.leader.Set(0)
	defer e.end()
	ticker := m.config.Clock.NewTicker(m.config.Timing.Members)
	defer ticker.Stop()
	for {
		e.tick(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

func (m *Mirror) set(e *epoch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch = e
}

// plane returns the mirror of a control plane, or nil if this replica does not mirror it.
func (m *Mirror) plane(controlPlane types.NamespacedName) *plane {
	m.mu.Lock()
	e := m.epoch
	m.mu.Unlock()
	if e == nil {
		return nil
	}
	return e.plane(controlPlane)
}

// podsGap is the delay between a change of a workspace's pods and the read of the workspace. It
// limits pods that change all the time to one request a second.
const podsGap = time.Second

// HintPods triggers a read of a known workspace after podsGap, because its pods changed.
func (m *Mirror) HintPods(controlPlane types.NamespacedName, id uuid.UUID) {
	p := m.plane(controlPlane)
	if p == nil {
		return
	}
	// A pod may carry the id of a workspace that does not exist. Such ids are ignored.
	if entry, _ := p.workspaces.Store.Table.Find(controlPlane, uidOf(id)); entry != nil {
		p.workspaces.mark(id, podsGap)
	}
}

// goneGap is the delay between the deletion of a record and the read of its object. Suspended users
// remain in Coder, so they get another object with the same UID. Clients that wait for the end of the
// deletion must see before that the object is gone.
const goneGap = 10 * time.Second

// recordChanged triggers a read of an object whose record was changed by another component.
func (m *Mirror) recordChanged(record *metadata.Record, gone bool) {
	id, err := uuid.Parse(string(record.UID))
	switch {
	case err != nil:
	case gone:
		m.mark(record.Kind, record.ControlPlane, id, goneGap)
	default:
		m.Hint(record.Kind, record.ControlPlane, id)
	}
}

// Hint triggers an immediate read of an object that was just written. It does nothing if this
// replica is not the leader.
func (m *Mirror) Hint(kind string, controlPlane types.NamespacedName, id uuid.UUID) {
	m.mark(kind, controlPlane, id, 0)
}

func (m *Mirror) mark(kind string, controlPlane types.NamespacedName, id uuid.UUID, after time.Duration) {
	if p := m.plane(controlPlane); p != nil {
		if f := p.feedOf(kind); f != nil {
			f.mark(id, after)
		}
	}
}
