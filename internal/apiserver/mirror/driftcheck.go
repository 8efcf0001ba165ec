package mirror

import (
	"context"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// recount is the delay before a number that differs is counted again. All workspaces are read only
// if it still differs, because a workspace may just have been created or deleted.
const recount = 5 * time.Second

// driftCheck compares the number of workspaces in the log with Coder's, to find
// creations and deletions that were missed.
type driftCheck struct {
	plane *plane
	task  *task
	next  time.Time
	swept time.Time
	// wrong is true if the last number differed.
	wrong bool

	mu sync.Mutex
	// hidden is the number of workspaces that Coder counts but does not show.
	hidden int
	early  bool
}

func newDriftCheck(p *plane) *driftCheck {
	c := &driftCheck{plane: p, next: p.after(p.config.Timing.Count)}
	c.task = newTask("drift check", c.step)
	return c
}

// learn records how many workspaces Coder counts but does not show.
func (c *driftCheck) learn(hidden int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hidden = hidden
}

// soon requests an immediate count.
func (c *driftCheck) soon() {
	c.mu.Lock()
	c.early = true
	c.mu.Unlock()
	c.task.wake()
}

// due reports whether a count is due, and resets the request of soon.
func (c *driftCheck) due(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	early := c.early
	c.early = false
	return early || !now.Before(c.next)
}

func (c *driftCheck) step(ctx context.Context) time.Time {
	p := c.plane
	connection, live := p.live()
	if !live {
		return p.after(idle)
	}
	if !c.due(p.config.Clock.Now()) {
		return c.next
	}
	c.next = p.after(p.config.Timing.Count)
	coder := p.config.Open(connection)
	fits, err := c.compare(ctx, coder)
	switch {
	case err != nil:
		p.note(ctx, "counting the workspaces", err)
		c.next = p.after(p.config.Timing.Probe)
	case fits:
		c.wrong = false
		c.sweep(ctx)
	case !c.wrong:
		c.wrong = true
		c.next = p.after(recount)
	default:
		c.wrong = false
		log.FromContext(ctx).Info("Reading all workspaces, because their number differs from the number in Coder")
		p.note(ctx, "reading all workspaces", p.sync.readWorkspaces(ctx, connection, coder))
	}
	return c.next
}

// compare reports whether the number of workspaces equals Coder's.
func (c *driftCheck) compare(ctx context.Context, coder Coder) (bool, error) {
	f := c.plane.workspaces
	count, err := c.count(ctx, coder)
	if err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return count == f.Store.Table.Count(c.plane.name)-f.breaker.held()+c.hidden, nil
}

func (c *driftCheck) count(ctx context.Context, coder Coder) (count int, err error) {
	err = c.plane.ask(ctx, callCount, func(ctx context.Context) error {
		var err error
		count, err = coder.WorkspaceCount(ctx)
		return err
	}, nil)
	return count, err
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
		if f.kindName() == kind {
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
	key := f.prefix + f.plane.name.Namespace + "/" + record.Name
	unlock, ok := f.Store.TryLock(key)
	if !ok {
		return true
	}
	unlock()
	entry := f.Store.Table.Get(key)
	return entry != nil && entry.Object.GetCreationTimestamp().Unix() >= record.CreatedAt.Unix()
}
