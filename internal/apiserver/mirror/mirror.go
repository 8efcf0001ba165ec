package mirror

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// Mirror keeps the records equal to the state of every served Coder.
type Mirror struct {
	config Config
}

// New returns a Mirror. It starts nothing: call Run.
func New(config Config) *Mirror {
	if config.Jitter == nil {
		config.Jitter = rand.Float64
	}
	if config.Open == nil {
		config.Open = func(connection connections.Connection) Coder { return connection.Client }
	}
	if config.MaxWorkspaces == 0 {
		config.MaxWorkspaces = DefaultMaxWorkspaces
	}
	m := &Mirror{config: config}
	config.Records.OnChange(m.recordChanged)
	return m
}

// Run mirrors until the context ends. Call it again each time this replica becomes the leader.
func (m *Mirror) Run(ctx context.Context) {
	e := newEpoch(&m.config)
	e.start = e.goStart
	m.config.Hints.deliverTo(e)
	defer m.config.Hints.deliverTo(nil)
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
		m.config.Hints.mark(record.Kind, record.ControlPlane, id, goneGap)
	default:
		m.config.Hints.Object(record.Kind, record.ControlPlane, id)
	}
}
