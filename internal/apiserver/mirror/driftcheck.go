package mirror

import (
	"context"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// recount is the delay before a number that differs is counted again. All workspaces are read only
// if it still differs, because a workspace may just have been created or deleted.
const recount = 5 * time.Second

// driftCheck compares the number of workspaces in the records with Coder's, to find
// creations and deletions that were missed.
type driftCheck struct {
	plane *plane
	task  *task
	swept time.Time
	// wrong is true if the last number differed.
	wrong bool
	// hidden is the number of workspaces that Coder counts but does not show.
	hidden atomic.Int64
}

func newDriftCheck(p *plane) *driftCheck {
	c := &driftCheck{plane: p}
	c.task = newLiveTask(p, "drift check", p.after(p.config.Timing.Count), c.step)
	return c
}

func (c *driftCheck) step(ctx context.Context, connection connections.Connection, _ bool) time.Time {
	p := c.plane
	next := p.after(p.config.Timing.Count)
	coder := p.config.Open(connection)
	count, err := p.countWorkspaces(ctx, coder)
	f := p.workspaces
	switch {
	case err != nil:
		p.note(ctx, "counting the workspaces", err)
		next = p.after(p.config.Timing.Probe)
	case count == f.Store.Table.Count(p.name)+f.unserved()-f.breaker.held()+int(c.hidden.Load()):
		c.wrong = false
		c.sweep(ctx)
	case !c.wrong:
		c.wrong = true
		next = p.after(recount)
	default:
		c.wrong = false
		log.FromContext(ctx).Info("Reading all workspaces, because their number differs from the number in Coder")
		p.note(ctx, "reading all workspaces", p.sync.readWorkspaces(ctx, connection, coder))
	}
	return next
}

// sweep removes records without an object.
func (c *driftCheck) sweep(ctx context.Context) {
	p := c.plane
	now := p.config.Clock.Now()
	if now.Sub(c.swept) < p.config.Timing.Sweep {
		return
	}
	c.swept = now
	removed, err := p.collector.Sweep(ctx, p.name, now, func(record *metadata.Record) bool {
		f := p.feedOf(record.Kind)
		// Records of unknown kinds are kept.
		return f == nil || f.exists(record)
	})
	if err != nil {
		log.FromContext(ctx).Error(err, "Could not remove metadata without an object")
	}
	if len(removed) > 0 {
		log.FromContext(ctx).Info("Removed metadata without an object", "records", len(removed))
	}
}

// feedOf returns the feed of a kind, or nil.
func (p *plane) feedOf(kind string) kindFeed {
	for _, f := range p.feeds {
		if f.kind() == kind {
			return f
		}
	}
	return nil
}

// exists reports whether the object of a record exists or is being created.
func (f *feed[Item]) exists(record *metadata.Record) bool {
	if !record.Pending() {
		entry, _ := f.Store.Table.Find(f.plane.name, record.UID)
		return entry != nil
	}
	key := f.Store.Key(f.plane.name.Namespace, record.Name)
	unlock, ok := f.Store.TryLock(key)
	if !ok {
		return true
	}
	unlock()
	entry := f.Store.Table.Get(key)
	return entry != nil && entry.Object.GetCreationTimestamp().Unix() >= record.CreatedAt.Unix()
}
