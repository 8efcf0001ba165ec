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
	fits, err := c.compare(ctx, coder)
	switch {
	case err != nil:
		p.note(ctx, "counting the workspaces", err)
		next = p.after(p.config.Timing.Probe)
	case fits:
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

// compare reports whether the number of workspaces equals Coder's.
func (c *driftCheck) compare(ctx context.Context, coder Coder) (bool, error) {
	f := c.plane.workspaces
	count, err := c.plane.countWorkspaces(ctx, coder)
	return err == nil && count == f.Store.Table.Count(c.plane.name)+f.unserved()-f.breaker.held()+int(c.hidden.Load()), err
}

// sweep removes records without an object.
func (c *driftCheck) sweep(ctx context.Context) {
	p := c.plane
	now := p.config.Clock.Now()
	if now.Sub(c.swept) < p.config.Timing.Sweep {
		return
	}
	c.swept = now
	removed, err := p.collector.Sweep(ctx, p.name, now, p.exists)
	if err != nil {
		log.FromContext(ctx).Error(err, "Could not remove metadata without an object")
	}
	if len(removed) > 0 {
		log.FromContext(ctx).Info("Removed metadata without an object", "records", len(removed))
	}
}

// exists reports whether the object of a record exists or is being created.
func (p *plane) exists(record *metadata.Record) bool {
	f := p.feedOf(record.Kind)
	// Records of unknown kinds are kept.
	return f == nil || f.exists(record)
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
