package mirror

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// Mirror keeps the logs equal to every served Coder.
type Mirror struct {
	config Config

	mu sync.Mutex
	// era is nil while this replica is not the writer.
	era *era
}

// New makes a mirror. It does nothing before Run.
func New(config Config) (*Mirror, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	m := &Mirror{config: config}
	config.Records.OnChange(m.recordChanged)
	return m, nil
}

// Run mirrors until the context ends. It can be run again afterwards, whenever
// this replica is the writer.
func (m *Mirror) Run(ctx context.Context) {
	e := newEra(&m.config)
	e.start = e.goStart
	m.set(e)
	defer m.set(nil)
	m.config.Metrics.leads(1)
	defer m.config.Metrics.leads(0)
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

func (m *Mirror) set(e *era) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.era = e
}

// plane is the mirror of a control plane, or nil.
func (m *Mirror) plane(controlPlane types.NamespacedName) *plane {
	m.mu.Lock()
	e := m.era
	m.mu.Unlock()
	if e == nil {
		return nil
	}
	return e.plane(controlPlane)
}

// HintWorkspace has a workspace read at once, because somebody has just written it.
// Where this replica is not the writer it does nothing.
func (m *Mirror) HintWorkspace(controlPlane types.NamespacedName, id uuid.UUID) {
	m.hint(controlPlane, kindWorkspace, id)
}

// podsGap is how long after a change of its pods a workspace is read, so that a pod
// that changes all the time costs one request a second.
const podsGap = time.Second

// HintPods has a known workspace read soon, because its pods changed.
func (m *Mirror) HintPods(controlPlane types.NamespacedName, id uuid.UUID) {
	p := m.plane(controlPlane)
	if p == nil {
		return
	}
	// Anybody can write the id of no workspace on a pod.
	if entry, _ := p.workspaces.Store.Table.Find(controlPlane, uidOf(id)); entry != nil {
		p.workspaces.mark(id, podsGap)
	}
}

// HintTemplate does the same for a template.
func (m *Mirror) HintTemplate(controlPlane types.NamespacedName, id uuid.UUID) {
	m.hint(controlPlane, kindTemplate, id)
}

// HintUser does the same for a user.
func (m *Mirror) HintUser(controlPlane types.NamespacedName, id uuid.UUID) {
	m.hint(controlPlane, kindUser, id)
}

// recordChanged has an object read again whose record somebody else changed.
func (m *Mirror) recordChanged(record *metadata.Record) {
	id, err := uuid.Parse(string(record.UID))
	if err != nil {
		return
	}
	m.hint(record.ControlPlane, record.Kind, id)
}

// hint has an object of a kind read at once.
func (m *Mirror) hint(controlPlane types.NamespacedName, kind string, id uuid.UUID) {
	if p := m.plane(controlPlane); p != nil {
		if f := p.feedOf(kind); f != nil {
			f.mark(id, 0)
		}
	}
}
